"""Storing rows of keys and values in the caches, in the layout of `states`."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import I1, I32, I64, Function, Type, Val, vec
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.llvm.lowering import f32_to_bf16, f32_to_f16
from ggufc.backends.llvm.states import LANES, VECTOR_BYTES, CacheLayout, cache_layout

# Tokens that a thread takes at a time at least: positions that share cache lines.
PART_TOKENS = 16


@kernel("kv_write")
def emit_kv_write(k: Kernel) -> None:
    """Each token's heads of k and v, rounded to the caches' types."""
    f, caches = k.f, Caches(k)
    heads = caches.keys.n_heads
    with (
        k.shares(k.n * heads, heads * PART_TOKENS) as (begin, end),
        f.loop(end, begin, name="item") as item,
    ):
        token, head = item // heads, item % heads
        keys, values = (
            k.pointer(name) + item * (4 * layout.dim)
            for name, layout in (("k", caches.keys), ("v", caches.values))
        )
        caches.write_key(token, head, keys)
        caches.write_value(token, head, values)


class Caches:
    """The two caches of an op and where its tokens go in them."""

    def __init__(self, k: Kernel) -> None:
        self.k = k
        (keys,), (values,) = k.signature.named("k_cache"), k.signature.named("v_cache")
        self.keys = cache_layout("keys", keys.type)
        self.values = cache_layout("values", values.type)

    def place(self, token: Val) -> tuple[Val, Val]:
        """(sequence, position) of a token, as i64."""
        f = self.k.f
        sequence, position = (
            f.load(self.k.pointer(name) + token * 4, I32).sext(I64)
            for name in ("sequences", "positions")
        )
        return sequence, position

    def write_key(self, token: Val, head: Val, row: Val) -> None:
        """Store the float32 row of one head of a token's keys."""
        sequence, position = self.place(token)
        base = self.keys.head(self.k.pointer("k_cache"), sequence, head, self.k.context)
        store_key(self.k.f, self.k.isa, self.keys, row, base, position)

    def write_value(self, token: Val, head: Val, row: Val) -> None:
        """Store the float32 row of one head of a token's values."""
        sequence, position = self.place(token)
        base = self.values.head(self.k.pointer("v_cache"), sequence, head, self.k.context)
        store_value(self.k.f, self.k.isa, self.values, row, base, position)


def store_key(
    f: Function, isa: Isa, layout: CacheLayout, row: Val, base: Val, position: Val
) -> None:
    """Store a float32 row of keys at a position of the head at `base`: P elements a vector."""
    target = base + layout.element_offset(position, 0)
    pair = layout.pair
    for start, lanes in segments(layout.dim):
        bits = round_bits(isa, layout, load_row(f, row, start, lanes))
        if lanes % pair:
            # The last element of an odd row is stored with the zero that pads it.
            bits = f.shuffle(bits, f.const(bits.type, 0), (0, 1))
        words = bits.bitcast(vec(I32, max(1, lanes // pair)))
        for i in range(words.type.lanes):
            f.store(words.lane(i), target, (start // pair + i) * VECTOR_BYTES)
    if layout.element.name == "bf16":
        # Matrix tiles multiply bf16 keys to their padded length, and 0 x NaN is not 0.
        for step in range(-(-layout.dim // pair), layout.padded_dim // pair):
            f.store(f.const(I32, 0), target, step * VECTOR_BYTES)


def store_value(
    f: Function, isa: Isa, layout: CacheLayout, row: Val, base: Val, position: Val
) -> None:
    """Store a float32 row of values at a position of the head at `base`: one element a lane."""
    odd = position % layout.pair
    target = base + layout.element_offset(position - odd, 0)
    for start, lanes in segments(layout.dim):
        chunk, lane = divmod(start, LANES)
        at = chunk * layout.chunk_bytes + lane * 4
        bits = round_bits(isa, layout, load_row(f, row, start, lanes))
        if layout.pair == 1:
            f.store(bits, target, at)
            continue
        if isa.vector_bits == 512:
            _store_halves(f, bits, target, at, odd)
            continue
        for i in range(lanes):
            f.store(bits.lane(i), target + odd * 2, at + 4 * i)


def _store_halves(f: Function, bits: Val, target: Val, at: int, odd: Val) -> None:
    """Store 16-bit lanes in the even or odd halves of 32-bit words; the others are not touched.

    Another thread may be writing those.
    """
    lanes = bits.type.lanes
    words = bits.zext(I32) << (odd.trunc(I32) << 4).splat(lanes)
    even, uneven = (f.const_lanes(I1, [1 - half, half] * lanes) for half in (0, 1))
    halves = words.bitcast(vec(bits.type.element, 2 * lanes))
    f.masked_store(halves, target, f.select(odd.ne(0), uneven, even), at)


def round_bits(isa: Isa, layout: CacheLayout, x: Val) -> Val:
    """float32 lanes as the bits of the cache's element type, rounded to nearest even."""
    if layout.element.name == "f32":
        return x.bitcast(Type(I32.scalar, 32, x.type.lanes))
    return f32_to_bf16(x) if layout.element.name == "bf16" else f32_to_f16(isa, x)
