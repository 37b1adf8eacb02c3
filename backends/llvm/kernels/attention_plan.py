"""The sizes of an attention kernel: what its op asks for, and what is held in registers at once."""

from __future__ import annotations

from dataclasses import dataclass

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import OpSignature
from ggufc.backends.llvm.states import LANES, CacheLayout, cache_layout
from ggufc.ir import F32, max_dim

# Keys whose scores are held at a time: few enough for the first-level cache. In decode, where what
# comes next is asked for a block ahead, few enough not to ask for more than memory can bring.
KEY_BLOCK, DECODE_BLOCK = 256, 128
# Few enough rows that two vectors share each factor where there are registers for it.
_PREFILL_ROWS, _PREFILL_TILES = 8, 3
_MATRIX_ROWS = 32
# Rows for which keys are brought into the order of a cache once.
_TEXT_ROWS = 64


@dataclass(frozen=True)
class Plan:
    """Rows are pairs (token, query head of one kv head), numbered token by token.

    A tile is `rows` of them; its sums are `rows` x `key_vectors` vectors of scores or `rows` x
    `value_vectors` vectors of outputs. `tiles` tiles share a pass over the keys.
    """

    n_heads: int
    keys: CacheLayout
    values: CacheLayout
    scale: float
    window: int
    softcap: float
    rows: int
    key_vectors: int
    value_vectors: int
    tiles: int
    has_slopes: bool
    uses_matrices: bool = False
    is_memory_bound: bool = False

    @property
    def group(self) -> int:
        """Query heads of a kv head."""
        return self.n_heads // self.keys.n_heads

    @property
    def key_alignment(self) -> int:
        """Blocks of keys begin at multiples of this."""
        return max(32, LANES * self.key_vectors)

    @property
    def chunks(self) -> int:
        """Vectors of 16 elements of an output row."""
        return self.values.padded_dim // LANES


def make_plan(signature: OpSignature, isa: Isa) -> Plan:
    """Sizes for a signature of `attention` or `attention_partial`."""
    (q,), (k,), (v,) = (signature.named(n) for n in ("q", "k_cache", "v_cache"))
    keys, values = cache_layout("keys", k.type), cache_layout("values", v.type)
    n_heads = q.type.max_shape[1]
    option = signature.attribute
    shared = (n_heads, keys, values, option("scale"), option("window"), option("softcap"))
    prefill, has_slopes = signature.phase == "prefill", bool(signature.named("slopes"))
    if prefill and isa.tiles and keys.element.name == "bf16":
        return Plan(*shared, _MATRIX_ROWS, 2, 2, 1, has_slopes, uses_matrices=True)
    held = held_sums(isa)
    budget = held * 3 // 4
    rows = min(budget, _PREFILL_ROWS) if prefill else _even(n_heads // keys.n_heads, budget)
    return Plan(
        *shared,
        rows,
        # From memory, one stream of keys is read up to a third faster than several side by side.
        next(n for n in (4, 2, 1) if n * rows <= held // 2 or n == 1) if prefill else 1,
        _even(values.padded_dim // LANES, max(1, budget // rows)),
        tiles=_PREFILL_TILES if prefill else 1,
        has_slopes=has_slopes,
        is_memory_bound=not prefill,
    )


def make_text_plan(signature: OpSignature, isa: Isa) -> Plan:
    """Sizes for a signature of `bidirectional_attention`, whose keys and values are float32."""
    (q,), (k,), (v,) = (signature.named(n) for n in ("q", "k", "v"))
    (_, heads, width), (_, _, value_width) = k.type.shape, v.type.shape
    keys = CacheLayout("keys", F32, max_dim(heads), max_dim(width))
    values = CacheLayout("values", F32, max_dim(heads), max_dim(value_width))
    option, held = signature.attribute, held_sums(isa)
    rows = min(held * 3 // 4, _PREFILL_ROWS)
    return Plan(
        q.type.max_shape[1],
        keys,
        values,
        option("scale"),
        option("window"),
        option("softcap"),
        rows,
        next(n for n in (4, 2, 1) if n * rows <= held // 2 or n == 1),
        _even(values.padded_dim // LANES, max(1, held * 3 // 4 // rows)),
        tiles=-(-_TEXT_ROWS // rows),
        has_slopes=bool(signature.named("slopes")),
    )


def held_sums(isa: Isa) -> int:
    """How many vectors of 16 sums the registers hold."""
    return isa.registers * isa.vector_bits // (32 * LANES)


def _even(count: int, most: int) -> int:
    """The size of equal parts of a count, in as few of them as `most` allows."""
    return -(-count // -(-count // most))
