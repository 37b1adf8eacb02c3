"""What an op costs: arithmetic operations, and bytes that it reads and writes, at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ggufc.ir import Function, Leaf, Op, State, Symbol, TensorType, Value, View, Weight

CONTEXT, PAST = "context", "past"
DECODE_CONTEXT = 512


@dataclass(frozen=True)
class Cost:
    """`flops` counts a multiply-add as two; bytes of weights, of states and of values apart."""

    flops: int = 0
    weight_bytes: int = 0
    state_bytes: int = 0
    value_bytes: int = 0

    @property
    def bytes(self) -> int:
        """All bytes that move."""
        return self.weight_bytes + self.state_bytes + self.value_bytes

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.weight_bytes + other.weight_bytes,
            self.state_bytes + other.state_bytes,
            self.value_bytes + other.value_bytes,
        )

    def __mul__(self, count: int) -> Cost:
        """The cost of doing it `count` times."""
        return Cost(
            self.flops * count,
            self.weight_bytes * count,
            self.state_bytes * count,
            self.value_bytes * count,
        )


def typical_sizes(function: Function) -> dict[str, int]:
    """Sizes by symbol: a full first prefill call that wants one row, or one sequence's decode.

    `context` is the mean number of positions that a token attends to. A prefill call that goes on
    from earlier ones has `past` tokens before it.
    """
    symbols = {s.name: s for value in function.inputs for s in value.type.symbols()}
    if "T" in symbols:
        tokens = symbols["T"].max
        return {"T": tokens, "R": 1, CONTEXT: (tokens + 1) // 2}
    return {**dict.fromkeys(symbols, 1), CONTEXT: DECODE_CONTEXT}


def function_cost(function: Function, sizes: Mapping[str, int]) -> Cost:
    """The sum over all ops."""
    return sum((op_cost(op, sizes) for op in function.ops), Cost())


def op_cost(op: Op, sizes: Mapping[str, int]) -> Cost:
    """The cost of one op; views cost nothing, nor does what is asked for no rows."""
    at = _Sizes(op, sizes)
    if op.definition.has(View) or any(0 in at.shape(result) for result in op.results):
        return Cost()
    return Cost(_FLOPS[op.name](at), at.weight_bytes(), at.state_bytes(), sum(at.value_bytes()))


def compute_type(op: Op) -> str:
    """What an op multiplies in where the machine can: `int8`, `bf16` or `f32`.

    Products with weights take the type of their activations, attention that of its cache.
    """
    if op.name in ("attention", "attention_partial"):
        return "bf16" if op.states()[0].type.dtype.name == "bf16" else "f32"
    if op.name in ("linear", "linear_glu", "expert_linear", "expert_glu"):
        return {"q8a": "int8", "bf16a": "bf16"}.get(op.value("x").type.dtype.name, "f32")
    return "f32"


class _Sizes:
    """An op with numbers for the symbols of its types."""

    def __init__(self, op: Op, sizes: Mapping[str, int]) -> None:
        self.op = op
        self._sizes = sizes

    def shape(self, leaf: Leaf) -> tuple[int, ...]:
        """The shape of a value or weight."""
        dims = leaf.type.shape
        return tuple(self._sizes.get(d.name, d.max) if isinstance(d, Symbol) else d for d in dims)

    def elements(self) -> int:
        """Elements of the result, or of the first operand of an op without results."""
        return _product(self.shape((*self.op.results, *self.op.values())[0]))

    def tokens(self) -> int:
        """Rows of the first value."""
        return self.shape(self.op.values()[0])[0]

    def used(self) -> int:
        """Experts of each token."""
        return int(self.op.attributes["used"])

    def attended(self) -> int:
        """Positions that each token attends to."""
        context, window = self._sizes.get(CONTEXT, 1), int(self.op.attributes["window"])
        return min(context, window) if window else context

    def seen(self) -> int:
        """Parts of a split attention that hold positions which each token attends to."""
        return -(-self.attended() // int(self.op.attributes["split"]))

    def value_bytes(self) -> Iterator[int]:
        """Bytes of each value read or written, as far as it is: rows taken, parts seen."""
        if self.op.name in ("take_rows", "slice"):
            yield 2 * self._bytes(self.op.result)
            return
        for value in (*dict.fromkeys(self.op.values()), *self.op.results):
            yield self._bytes(value)

    def weight_bytes(self) -> int:
        """Bytes of all weights, as packed if they are; of a table only the tokens' rows, of experts
        at most one for each pair."""
        total = sum(_stored_bytes(weight) for weight in self.op.weights())
        if self.op.name in ("expert_linear", "expert_glu"):
            experts = self.op.weights()[0].type.max_shape[0]
            return total * min(experts, _product(self.shape(self.op.result)[:2])) // experts
        if self.op.name != "embed":
            return total
        return total * self.tokens() // self.op.weights()[0].type.max_shape[0]

    def state_bytes(self) -> int:
        """Bytes of cache rows written, or read once: those of a prefill call and, as far as they
        are seen, of the calls before; in decode all seen.
        Other states are read and written, as much as the tokens' sequences have of them."""
        rows = self.tokens()
        if not any(_has_context(state) for state in self.op.states()):
            sequences = rows if "B" in self._sizes else 1
            return sum(2 * sequences * _sequence_bytes(state) for state in self.op.states())
        if self.op.name in ("attention", "attention_partial"):
            rows = rows * self.attended() if "B" in self._sizes else rows + self._past()
        return sum(rows * _row_bytes(state) for state in self.op.states())

    def _past(self) -> int:
        """Rows of earlier calls that the first token of a prefill call attends to."""
        past, window = self._sizes.get(PAST, 0), int(self.op.attributes["window"])
        return min(past, window) if window else past

    def _bytes(self, value: Value) -> int:
        shape = self.shape(value)
        if "split" in self.op.attributes and len(shape) == 4:
            shape = (*shape[:2], min(shape[2], self.seen()), shape[3])
        return TensorType(shape, value.type.dtype).max_bytes


def _product(dims: tuple[int, ...]) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def _stored_bytes(weight: Weight) -> int:
    return weight.type.max_bytes if weight.nbytes is None else weight.nbytes


def _row_bytes(state: State) -> int:
    """Bytes of one position of one sequence."""
    return state.type.dtype.nbytes(_product(state.type.max_shape[2:]))


def _has_context(state: State) -> bool:
    """Whether a state has rows for positions."""
    return any(symbol.name == "C" for symbol in state.type.symbols())


def _sequence_elements(state: State) -> int:
    """Elements of one sequence of a state without positions."""
    return _product(state.type.max_shape[1:])


def _sequence_bytes(state: State) -> int:
    return state.type.dtype.nbytes(_sequence_elements(state))


def _per_element(count: int) -> Callable[[_Sizes], int]:
    return lambda at: count * at.elements()


def _linear(at: _Sizes) -> int:
    matrices = [w for w in at.op.weights() if len(w.type.shape) == 2]
    products = 2 * at.tokens() * sum(_product(weight.type.max_shape) for weight in matrices)
    added = sum(at.op.operands.get(name) is not None for name in ("bias", "residual"))
    return products + added * at.elements()


def _linear_glu(at: _Sizes) -> int:
    return _linear(at) + 5 * at.elements()


def _route(at: _Sizes) -> int:
    """About five operations for each score, and a comparison in each round."""
    return (
        at.elements() // at.used() * _product(at.shape(at.op.value("logits"))[1:]) * (5 + at.used())
    )


def _combine_rows(at: _Sizes) -> int:
    return 2 * _product(at.shape(at.op.value("x")))


def _expert_linear(at: _Sizes) -> int:
    """A row of each pair with its expert's part of every stack, and what follows."""
    matrices = [w.type.max_shape for w in at.op.weights() if len(w.type.shape) == 3]
    rows = _product(at.shape(at.op.result)[:2])
    return rows * sum(2 * n * k for _, n, k in matrices) + 5 * at.elements()


def _attention(at: _Sizes) -> int:
    """Two products per position seen, and about five operations of the softmax."""
    tokens, heads, width = at.shape(at.op.value("q"))
    value_width = at.op.states()[1].type.max_shape[3]
    return tokens * heads * at.attended() * (2 * width + 2 * value_width + 5)


def _bidirectional_attention(at: _Sizes) -> int:
    """As attention, to all tokens, or to those of a window."""
    tokens, heads, width = at.shape(at.op.value("q"))
    window = int(at.op.attributes["window"])
    seen = min(tokens, 2 * (window // 2) + 1) if window else tokens
    value_width = at.shape(at.op.value("v"))[2]
    return tokens * heads * seen * (2 * width + 2 * value_width + 5)


def _attention_combine(at: _Sizes) -> int:
    """A product per part seen."""
    tokens, heads, width = at.shape(at.op.result)
    return 2 * tokens * heads * at.seen() * width


def _rope_kv_write(at: _Sizes) -> int:
    norms = sum(at.op.operands[name] is not None for name in ("q_norm", "k_norm"))
    return (3 + 2 * norms) * _product(at.shape(at.op.value("qkv")))


def _short_conv(at: _Sizes) -> int:
    return 2 * at.op.weights()[0].type.max_shape[1] * at.elements()


def _recurrence(count: int) -> Callable[[_Sizes], int]:
    """`count` operations on each element of the state for each token."""
    return lambda at: count * at.tokens() * _sequence_elements(at.op.states()[0])


_FLOPS: dict[str, Callable[[_Sizes], int]] = {
    "embed": _per_element(1),
    "take_rows": _per_element(0),
    "slice": _per_element(0),
    "kv_write": _per_element(0),
    "add": _per_element(1),
    "mul": _per_element(1),
    "bias_add": _per_element(1),
    "scale_columns": _per_element(1),
    "scale_rows": _per_element(1),
    "clamp": _per_element(2),
    "scale": _per_element(1),
    "softcap": _per_element(3),
    "silu": _per_element(4),
    "sigmoid": _per_element(4),
    "softplus": _per_element(12),
    "gelu": _per_element(20),
    "gelu_tanh": _per_element(8),
    "relu_squared": _per_element(2),
    "xielu": _per_element(12),
    "layer_norm": _per_element(6),
    "rms_norm": _per_element(4),
    "rope_table": _per_element(2),
    "rope": _per_element(3),
    "quantize": _per_element(3),
    "rms_norm_quantize": _per_element(7),
    "linear": _linear,
    "linear_glu": _linear_glu,
    "route": _route,
    "group_experts": _per_element(0),
    "group_heads": _per_element(0),
    "permute_rows": _per_element(0),
    "concat": _per_element(0),
    "gather_rows": _per_element(0),
    "scale_experts": _per_element(1),
    "combine_rows": _combine_rows,
    "expert_linear": _expert_linear,
    "expert_glu": _expert_linear,
    "attention": _attention,
    "attention_partial": _attention,
    "attention_combine": _attention_combine,
    "bidirectional_attention": _bidirectional_attention,
    "rope_kv_write": _rope_kv_write,
    "short_conv": _short_conv,
    "selective_scan": _recurrence(7),
    "gated_delta_rule": _recurrence(7),
}
