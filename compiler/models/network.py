"""Where a graph is being built: the function, its inputs, and the layer that the next op belongs
to."""

from collections.abc import Iterator
from typing import Any

from ggufc.compiler.hparams import HParams, LayerParams, Rope
from ggufc.compiler.models.rope import frequencies
from ggufc.compiler.models.tensors import ModelTensors
from ggufc.ir import (
    EMBED,
    GraphBuilder,
    Operand,
    State,
    Symbol,
    TensorType,
    Value,
    dtype,
    round_up,
)
from ggufc.ir.numerics import F32Array

CONTEXT_UNIT = 64
ROPE_DIVISORS = "rope_freqs.weight"
SHORT_DIVISORS, LONG_DIVISORS = "rope_factors_short.weight", "rope_factors_long.weight"
# Divisors that large stand for pairs that do not turn.
DIVISOR_RANGE = (1e-3, 1e36)


class Scope:
    """A part of a network whose tensors and values have names with a common `prefix`."""

    def __init__(
        self, b: GraphBuilder, hparams: HParams, tensors: ModelTensors, prefix: str
    ) -> None:
        """`b` appends to the function that is being built."""
        self.b = b
        self.hparams = hparams
        self.tensors = tensors
        self.prefix = prefix

    def emit(self, op_name: str, *operands: Operand, name: str, **attributes: Any) -> Value:
        """Append an op that has one result and return that, named `name` after the prefix."""
        value: Value = self.b.emit(op_name, *operands, name=self.prefix + name, **attributes)
        return value


class Network(Scope):
    """One function in the making. `rows` are the tokens whose logits are wanted; None stands for
    all."""

    def __init__(
        self,
        b: GraphBuilder,
        hparams: HParams,
        tensors: ModelTensors,
        tokens: Symbol,
        rows: Symbol | None,
        context: int,
        max_sequences: int,
    ) -> None:
        """Declare the inputs of the function: one sequence's tokens, one token a sequence, or, in a
        model that is not causal, the tokens of whole texts. Positions are below `context`."""
        super().__init__(b, hparams, tensors, "")
        self.context = context
        self.max_sequences = max_sequences
        per_token = TensorType((tokens,), dtype("i32"))
        self.tokens = b.input("tokens", per_token)
        self.positions = b.input("positions", per_token)
        self.sequences = b.input("sequences", per_token) if hparams.is_causal else None
        has_lengths = self.has_long_ropes or not hparams.is_causal
        self.lengths = b.input("lengths", per_token) if has_lengths else None
        self.rows = b.input("rows", TensorType((rows,), dtype("i32"))) if rows is not None else None
        self.rope_tables: dict[Rope, Value] = {}

    def layers(self) -> Iterator["Layer"]:
        """The layers, from the first to the last."""
        for index, params in enumerate(self.hparams.layers):
            yield Layer(self, index, params)

    def rope_table(self, params: LayerParams) -> Value:
        """Cosines and sines of the tokens' angles, made once for all layers with the same
        frequencies."""
        rope = params.rope
        if rope not in self.rope_tables:
            kind = "_swa" if params.window and self.has_two_ropes else ""
            self.rope_tables[rope] = self.new_rope_table(rope, kind)
        return self.rope_tables[rope]

    def new_rope_table(self, rope: Rope, kind: str) -> Value:
        """Cosines and sines by the frequencies of `rope`, of which long sequences may have their
        own; `kind` is the end of their names."""
        sets = (SHORT_DIVISORS, LONG_DIVISORS)
        has_two_sets = rope.divided and any(self.tensors.has(name) for name in sets)
        divisors = self.rope_divisors(rope, SHORT_DIVISORS if has_two_sets else ROPE_DIVISORS)
        freqs = self.tensors.constant(f"rope.freqs{kind}", frequencies(rope, divisors))
        options: dict[str, Any] = {"scale": rope.scale, "name": f"rope.table{kind}"}
        if has_two_sets:
            divisors = self.rope_divisors(rope, LONG_DIVISORS)
            if self.has_long_ropes:
                long_freqs = frequencies(rope, divisors)
                options["lengths"] = self.lengths
                options["long_freqs"] = self.tensors.constant(f"rope.freqs{kind}_long", long_freqs)
                options["short_context"] = rope.short_context
        table: Value = self.b.rope_table(self.positions, freqs, **options)
        return table

    @property
    def makes_embeddings(self) -> bool:
        """Whether the function returns embeddings of tokens, in place of logits."""
        return self.b.function.name == EMBED

    @property
    def has_long_ropes(self) -> bool:
        """Whether sequences may be so long that they have frequencies of their own."""
        limits = [params.rope.short_context for params in self.hparams.layers]
        return self.tensors.has(LONG_DIVISORS) and any(0 < n < self.context for n in limits)

    @property
    def has_two_ropes(self) -> bool:
        """Whether layers with a window rotate by other frequencies than those without."""
        return len({params.rope for params in self.hparams.layers}) > 1

    def rope_divisors(self, rope: Rope, name: str) -> F32Array | None:
        """What the tensor `name` divides the frequencies by, one number a pair, if the file means
        it for `rope`; where it has the divisors of one length of sequences, it needs both."""
        if not rope.divided or (name == ROPE_DIVISORS and not self.tensors.has(name)):
            return None
        divisors = self.tensors.vector_values(name, rope.dim // 2)
        low, high = DIVISOR_RANGE
        for value in divisors[~((divisors >= low) & (divisors <= high))]:
            raise self.tensors.fail(
                f"tensor '{name}' holds {value}, allowed are {low:g} to {high:g}"
            )
        return divisors


class Layer(Scope):
    """One layer of a network, with its hyperparameters and its part of the KV cache."""

    def __init__(self, net: Network, index: int, params: LayerParams) -> None:
        """Layer `index` of `net`."""
        super().__init__(net.b, net.hparams, net.tensors, f"blk.{index}.")
        self.net = net
        self.index = index
        self.params = params

    @property
    def caches(self) -> tuple[State, State]:
        """Keys and values of all positions so far, the layer's own or those that it shares."""
        states, owner = self.b.module.states, self.params.cache
        return states[f"blk.{owner}.k"], states[f"blk.{owner}.v"]

    def state(self, name: str, *shape: int) -> State:
        """A state of the layer that each token of a sequence changes: f32 [S, *shape]."""
        type_ = TensorType((Symbol("S", self.net.max_sequences), *shape), dtype("f32"))
        return self.b.module.state(f"{self.prefix}{name}", type_)

    @property
    def has_cache(self) -> bool:
        """Whether the layer makes keys and values, rather than to share those of another one."""
        return self.params.cache == self.index


def add_cache(
    b: GraphBuilder, hparams: HParams, kv_type: str, context: int, sequences: int
) -> None:
    """Declare the KV cache of every layer that has one: `context` positions of `sequences`
    sequences. A model that is not causal has none: it sees whole texts at once."""
    if not hparams.is_causal:
        return
    s, c = Symbol("S", sequences), Symbol("C", round_up(context, CONTEXT_UNIT))
    for index, params in enumerate(hparams.layers):
        if params.cache != index or params.n_kv_heads == 0:
            continue
        for name, width in (("k", params.head_dim), ("v", params.value_dim)):
            shape = (s, c, params.n_kv_heads, width)
            b.module.state(f"blk.{index}.{name}", TensorType(shape, dtype(kv_type)))
