"""For every op, tiny modules with random inputs: what backends and the text form are tried on.

    for sample in all_samples():
        want = sample.interpret()

A sample's module has one function, `main`, that runs the op (with a `quantize` before it where it
takes a quantised activation) and returns its result. New ops are added by a function with the
decorator `samples_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ggufc.ir import (
    F32,
    I32,
    Dim,
    GraphBuilder,
    Interpreter,
    Module,
    State,
    Symbol,
    TensorType,
    Value,
    Weight,
    decode,
    dtype,
    f32_to_bf16,
)
from ggufc.ir.interpreter import States
from ggufc.ir.quants import QUANTS
from tests.support.random_weights import random_weight_bytes

T = Symbol("T", 16)
R = Symbol("R", 16)
S = Symbol("S", 4)
C = Symbol("C", 256)
CONTEXT = 192
SEQUENCES = 3
QUANTIZED = tuple(row.name for row in QUANTS.values() if row.is_quantized)
FLOATS = ("f32", "f16", "bf16")


@dataclass
class OpSample:
    """A module with `main`, its inputs, the bytes of its weights and what its states hold first."""

    op: str
    label: str
    module: Module
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    weights: dict[str, bytes] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)

    def weight(self, weight: Weight) -> np.ndarray:
        """The float32 values of a weight."""
        return decode(weight.type.dtype.name, self.weights[weight.name], weight.type.max_shape)

    def new_states(self) -> States:
        """States as they are before the op, in the interpreter's form."""
        states = Interpreter(self.module, self.weight).new_states(CONTEXT, SEQUENCES)
        for name, array in self.states.items():
            states.arrays[name][...] = array
        return states

    def interpret(self, states: States | None = None) -> list[Any]:
        """What the interpreter returns; `states` are changed in place."""
        interpreter = Interpreter(self.module, self.weight)
        return interpreter.run("main", self.inputs, states or self.new_states())


class Sketch:
    """Builds one sample: declares inputs, weights and states together with random contents."""

    def __init__(self, op: str, label: str, tokens: int = 5) -> None:
        self.tokens = tokens
        self.sample = OpSample(op, label, Module(f"{op} {label}".strip()))
        self.builder = GraphBuilder(self.sample.module, "main")
        self.rng = np.random.default_rng(sum(f"{op}{label}".encode()))

    def floats(self, name: str, *shape: Dim, spread: float = 1.0) -> Value:
        """A float32 input; T is `tokens`."""
        sizes = [self.tokens if isinstance(dim, Symbol) else dim for dim in shape]
        values = spread * self.rng.standard_normal(sizes)
        self.sample.inputs[name] = values.astype(np.float32)
        return self.builder.input(name, TensorType(shape, F32))

    def integers(self, name: str, values: Sequence[int], symbol: Symbol = T) -> Value:
        """An int32 input of given values."""
        self.sample.inputs[name] = np.array(values, np.int32)
        return self.builder.input(name, TensorType((symbol,), I32))

    def weight(self, name: str, *shape: int, type_name: str = "f32") -> Weight:
        """A weight of random contents."""
        content = random_weight_bytes(self.rng, type_name, shape)
        self.sample.weights[name] = content
        return self.sample.module.weight(name, TensorType(shape, dtype(type_name)))

    def state(self, name: str, heads: int, width: int, type_name: str, fill: str) -> State:
        """A cache [S, C, heads, width] of zeros, or of random numbers."""
        state = self.sample.module.state(name, TensorType((S, C, heads, width), dtype(type_name)))
        shape = (SEQUENCES, CONTEXT, heads, width)
        values = np.zeros(shape, np.float32)
        if fill == "random":
            values = self.rng.standard_normal(shape).astype(np.float32)
        kinds: dict[str, Any] = {"bf16": f32_to_bf16, "f16": np.float16, "f32": np.float32}
        self.sample.states[name] = kinds[type_name](values)
        return state

    def places(self, positions: Sequence[int], sequences: Sequence[int]) -> tuple[Value, Value]:
        """The inputs `positions` and `sequences`."""
        return self.integers("positions", positions), self.integers("sequences", sequences)

    def returns(self, *values: Value) -> OpSample:
        """Finish the sample."""
        self.builder.returns(*values)
        return self.sample


_MAKERS: dict[str, Callable[[], Iterator[OpSample]]] = {}


def samples_of(
    op: str,
) -> Callable[[Callable[[], Iterator[OpSample]]], Callable[[], Iterator[OpSample]]]:
    """Decorator of a function that yields the samples of an op."""

    def register(maker: Callable[[], Iterator[OpSample]]) -> Callable[[], Iterator[OpSample]]:
        _MAKERS[op] = maker
        return maker

    return register


def op_samples(op: str) -> list[OpSample]:
    """The samples of one op; none if nobody wrote any."""
    return list(_MAKERS[op]()) if op in _MAKERS else []


def all_samples() -> list[OpSample]:
    """The samples of all ops."""
    return [sample for op in _MAKERS for sample in op_samples(op)]


def sample_ids(samples: Sequence[OpSample]) -> list[str]:
    """Test ids: `op-label`."""
    return [f"{sample.op}-{sample.label}" for sample in samples]


@samples_of("embed")
def _embed() -> Iterator[OpSample]:
    for type_name in (*FLOATS, *QUANTIZED):
        s = Sketch("embed", type_name)
        tokens = s.integers("tokens", [3, 0, 9, 3, 1])
        table = s.weight("table", 10, 256, type_name=type_name)
        yield s.returns(s.builder.embed(tokens, table, scale=1.7))


@samples_of("take_rows")
def _take_rows() -> Iterator[OpSample]:
    for label, rows in (("some", [4, 0, 4]), ("last", [4]), ("none", [])):
        s = Sketch("take_rows", label)
        x = s.floats("x", T, 24)
        yield s.returns(s.builder.take_rows(x, s.integers("rows", rows, R)))


@samples_of("rms_norm")
def _rms_norm() -> Iterator[OpSample]:
    for label, shape in (("rows", (T, 80)), ("odd", (T, 7)), ("heads", (T, 3, 16))):
        s = Sketch("rms_norm", label)
        x = s.floats("x", *shape, spread=3.0)
        yield s.returns(s.builder.rms_norm(x, s.weight("weight", shape[-1]), eps=1e-5))


@samples_of("layer_norm")
def _layer_norm() -> Iterator[OpSample]:
    for label, shape, has in (
        ("plain", (T, 80), ()),
        ("weight", (T, 7), ("weight",)),
        ("both", (T, 3, 16), ("weight", "bias")),
        ("wide", (T, 150), ("weight", "bias")),
    ):
        s = Sketch("layer_norm", label)
        x = s.floats("x", *shape, spread=3.0)
        s.sample.inputs["x"] += 20.0
        extra = {name: s.weight(name, shape[-1]) for name in has}
        yield s.returns(s.builder.layer_norm(x, **extra, eps=1e-5))


@samples_of("linear")
def _linear() -> Iterator[OpSample]:
    for type_name in FLOATS:
        for label, rows, width in (("even", 32, 64), ("odd", 19, 41)):
            s = Sketch("linear", f"{type_name}-{label}")
            x = s.floats("x", T, width)
            weight = s.weight("w", rows, width, type_name=type_name)
            yield s.returns(s.builder.linear(x, [weight]))
    for type_name in QUANTIZED:
        for to in ("q8a", "bf16a"):
            for tokens in (1, 5):
                s = Sketch("linear", f"{type_name}-{to}-{tokens}", tokens)
                x = s.builder.quantize(s.floats("x", T, 256), to=to)
                weight = s.weight("w", 37, 256, type_name=type_name)
                yield s.returns(s.builder.linear(x, [weight]))
    yield from _linear_groups()


def _linear_groups() -> Iterator[OpSample]:
    """Several weights side by side, with the epilogues, in float and in blocks of mixed types."""
    for label, types in (("f32", ("f32", "f32", "f16")), ("q8a", ("q4_k", "q4_k", "q6_k"))):
        for bias, residual in ((True, False), (False, True), (True, True)):
            s = Sketch("linear", f"group-{label}{'-bias' * bias}{'-residual' * residual}")
            x = s.floats("x", T, 256)
            if label == "q8a":
                x = s.builder.quantize(x, to="q8a")
            rows = (32, 16, 13)
            weights = [
                s.weight(f"w{i}", n, 256, type_name=t)
                for i, (n, t) in enumerate(zip(rows, types, strict=True))
            ]
            extra: dict[str, Any] = {}
            if bias:
                extra["bias"] = s.weight("bias", sum(rows))
            if residual:
                extra["residual"] = s.floats("residual", T, sum(rows))
            yield s.returns(s.builder.linear(x, weights, **extra))


@samples_of("bias_add")
def _bias_add() -> Iterator[OpSample]:
    s = Sketch("bias_add", "")
    yield s.returns(s.builder.bias_add(s.floats("x", T, 33), s.weight("bias", 33)))


@samples_of("scale_columns")
def _scale_columns() -> Iterator[OpSample]:
    s = Sketch("scale_columns", "")
    yield s.returns(s.builder.scale_columns(s.floats("x", T, 33), s.weight("weight", 33)))


@samples_of("reshape")
def _reshape() -> Iterator[OpSample]:
    s = Sketch("reshape", "heads")
    heads = s.builder.reshape(s.floats("x", T, 48), shape=(T, 3, 16))
    yield s.returns(s.builder.scale(heads, factor=2.0))


@samples_of("slice")
def _slice() -> Iterator[OpSample]:
    for start, stop in ((0, 16), (16, 48), (5, 6)):
        s = Sketch("slice", f"{start}-{stop}")
        yield s.returns(s.builder.slice(s.floats("x", T, 48), start=start, stop=stop))
    s = Sketch("slice", "heads")
    yield s.returns(s.builder.slice(s.floats("x", T, 3, 48), start=5, stop=40))


@samples_of("rope_table")
def _rope_table() -> Iterator[OpSample]:
    for scale in (1.0, 1.25):
        s = Sketch("rope_table", str(scale))
        positions = s.integers("positions", [0, 1, 2, 40, 4000])
        yield s.returns(s.builder.rope_table(positions, s.weight("freqs", 12), scale=scale))
    s = Sketch("rope_table", "long")
    positions = s.integers("positions", [0, 1, 2, 40, 4000])
    lengths = s.integers("lengths", [64, 65, 64, 65, 4001])
    freqs = [s.weight(name, 12) for name in ("freqs", "long_freqs")]
    yield s.returns(s.builder.rope_table(positions, freqs[0], lengths, freqs[1], short_context=64))


@samples_of("rope")
def _rope() -> Iterator[OpSample]:
    for pairing in ("interleaved", "half"):
        for rotated in (32, 20):
            s = Sketch("rope", f"{pairing}-{rotated}")
            positions = s.integers("positions", [0, 1, 2, 3, 90])
            table = s.builder.rope_table(positions, s.weight("freqs", rotated // 2))
            x = s.floats("x", T, 3, 32)
            yield s.returns(s.builder.rope(x, table, pairing=pairing))


@samples_of("kv_write")
def _kv_write() -> Iterator[OpSample]:
    for type_name in FLOATS:
        for label, positions, sequences in (
            ("prefill", [7, 8, 9, 10, 11], [1] * 5),
            ("decode", [0, 63, 5], [2, 0, 1]),
        ):
            s = Sketch("kv_write", f"{type_name}-{label}", tokens=len(positions))
            k, v = s.floats("k", T, 2, 24), s.floats("v", T, 2, 40)
            place = s.places(positions, sequences)
            caches = (
                s.state("k_cache", 2, 24, type_name, "zero"),
                s.state("v_cache", 2, 40, type_name, "zero"),
            )
            s.builder.kv_write(k, v, *place, *caches)
            yield s.returns(k)


ATTENTION_CASES: dict[str, dict[str, Any]] = {
    "prefill": {"positions": [0, 1, 2, 3, 4], "sequences": [0] * 5},
    "chunk": {"positions": [40, 41, 42, 43, 44], "sequences": [2] * 5},
    "decode": {"positions": [63, 0, 17], "sequences": [1, 2, 0]},
    "window": {"positions": [30, 31, 32, 33, 34], "sequences": [1] * 5, "window": 7},
    "short-window": {"positions": [1, 2, 3], "sequences": [0] * 3, "window": 1},
    "softcap": {"positions": [20, 21, 22], "sequences": [0] * 3, "softcap": 1.5},
    "slopes": {"positions": [40, 41, 42, 43], "sequences": [1] * 4, "weights": ("slopes",)},
    "slopes-window": {
        "positions": [63, 0, 17], "sequences": [1, 2, 0], "weights": ("slopes",), "window": 9,
    },
    "sinks": {"positions": [0, 1, 2, 3], "sequences": [2] * 4, "weights": ("sinks",)},
    "both": {
        "positions": [70, 0, 17], "sequences": [1, 2, 0], "weights": ("slopes", "sinks"),
    },
}  # fmt: skip


@samples_of("attention")
def _attention() -> Iterator[OpSample]:
    heads = ((4, 4, 16, 16), (6, 2, 32, 32), (8, 1, 24, 40))
    for case, attributes in ATTENTION_CASES.items():
        for type_name, (hq, hkv, d, dv) in zip(FLOATS, heads, strict=True):
            settings = dict(attributes)
            positions, sequences = settings.pop("positions"), settings.pop("sequences")
            weights = settings.pop("weights", ())
            s = Sketch("attention", f"{case}-{type_name}", tokens=len(positions))
            q = s.floats("q", T, hq, d, spread=2.0)
            place = s.places(positions, sequences)
            caches = (
                s.state("k_cache", hkv, d, type_name, "random"),
                s.state("v_cache", hkv, dv, type_name, "random"),
            )
            poison_unseen(s.sample, positions, sequences)
            settings |= {name: s.weight(name, hq) for name in weights}
            yield s.returns(s.builder.attention(q, *place, *caches, scale=d**-0.5, **settings))


@samples_of("bidirectional_attention")
def _bidirectional_attention() -> Iterator[OpSample]:
    heads = ((4, 4, 16, 16), (6, 2, 32, 32), (8, 1, 24, 40), (3, 3, 7, 5))
    texts = {"one": [9], "several": [3, 1, 7, 2], "single": [1]}
    settings: dict[str, dict[str, Any]] = {
        "": {}, "window": {"window": 5}, "softcap": {"softcap": 1.5}, "slopes": {},
    }  # fmt: skip
    for (name, sizes), label, (hq, hkv, d, dv) in product(texts.items(), settings, heads):
        s = Sketch("bidirectional_attention", f"{name}-{label}-{d}", tokens=sum(sizes))
        q = s.floats("q", T, hq, d, spread=2.0)
        k, v = s.floats("k", T, hkv, d, spread=2.0), s.floats("v", T, hkv, dv)
        positions = s.integers("positions", [i for size in sizes for i in range(size)])
        lengths = s.integers("lengths", np.repeat(sizes, sizes).tolist())
        slopes = s.weight("slopes", hq) if label == "slopes" else None
        attend = s.builder.bidirectional_attention
        yield s.returns(
            attend(q, k, v, positions, lengths, slopes, scale=d**-0.5, **settings[label])
        )


@samples_of("attention_partial")
def _attention_partial() -> Iterator[OpSample]:
    """Combined, since parts that a token does not see are unspecified."""
    for case in ("decode", "long-decode", "window-decode"):
        yield split_attention_sample("attention_partial", case)


@samples_of("attention_combine")
def _attention_combine() -> Iterator[OpSample]:
    yield split_attention_sample("attention_combine", "softcap-decode", softcap=1.5)
    yield split_attention_sample("attention_combine", "decode", has_weights=True)
    yield split_attention_sample("attention_combine", "window-decode", has_weights=True)


SPLIT_CASES = {
    "decode": ("bf16", [63, 0, 17], 0),
    "long-decode": ("f16", [191, 64, 127], 0),
    "window-decode": ("f32", [170, 100, 3], 90),
    "softcap-decode": ("f32", [130, 10, 64], 0),
}


def split_attention_sample(
    op: str, case: str, softcap: float = 0.0, has_weights: bool = False
) -> OpSample:
    """attention_combine(attention_partial(...)) of three sequences, 6 heads on 2 kv heads, perhaps
    with slopes and sinks."""
    element, positions, window = SPLIT_CASES[case]
    s = Sketch(op, case + "-weights" * has_weights, tokens=3)
    q = s.floats("q", T, 6, 32, spread=2.0)
    place = s.places(positions, [1, 2, 0])
    caches = [s.state(name, 2, 32, element, "random") for name in ("k_cache", "v_cache")]
    poison_unseen(s.sample, positions, [1, 2, 0])
    slopes, sinks = (s.weight(n, 6) if has_weights else None for n in ("slopes", "sinks"))
    settings: dict[str, Any] = {"scale": 0.2, "softcap": softcap, "parts": C.max // 64}
    shared: dict[str, Any] = {"window": window, "split": 64}
    parts = s.builder.attention_partial(q, *place, *caches, slopes, **settings, **shared)
    return s.returns(s.builder.attention_combine(parts, place[0], sinks, **shared))


def poison_unseen(sample: OpSample, positions: Sequence[int], sequences: Sequence[int]) -> None:
    """NaN in every cache row that no token may see."""
    last = {
        s: max(p for p, q in zip(positions, sequences, strict=True) if q == s) for s in sequences
    }
    for array in sample.states.values():
        nan = np.uint16(0x7FC0) if array.dtype == np.uint16 else np.nan
        for sequence in range(SEQUENCES):
            array[sequence, last.get(sequence, -1) + 1 :] = nan


@samples_of("add")
def _add() -> Iterator[OpSample]:
    s = Sketch("add", "")
    yield s.returns(s.builder.add(s.floats("a", T, 33), s.floats("b", T, 33)))


@samples_of("mul")
def _mul() -> Iterator[OpSample]:
    s = Sketch("mul", "")
    yield s.returns(s.builder.mul(s.floats("a", T, 3, 11), s.floats("b", T, 3, 11)))


@samples_of("silu")
def _silu() -> Iterator[OpSample]:
    s = Sketch("silu", "")
    yield s.returns(s.builder.silu(s.floats("x", T, 70, spread=30.0)))


@samples_of("gelu_tanh")
def _gelu_tanh() -> Iterator[OpSample]:
    s = Sketch("gelu_tanh", "")
    yield s.returns(s.builder.gelu_tanh(s.floats("x", T, 70, spread=3.0)))


@samples_of("gelu")
def _gelu() -> Iterator[OpSample]:
    s = Sketch("gelu", "")
    yield s.returns(s.builder.gelu(s.floats("x", T, 70, spread=3.0)))


@samples_of("relu_squared")
def _relu_squared() -> Iterator[OpSample]:
    s = Sketch("relu_squared", "")
    yield s.returns(s.builder.relu_squared(s.floats("x", T, 70, spread=3.0)))


@samples_of("xielu")
def _xielu() -> Iterator[OpSample]:
    s = Sketch("xielu", "")
    x = s.floats("x", T, 70, spread=3.0)
    s.sample.inputs["x"][0, :4] = (0.0, -1e-7, 1e-7, -200.0)
    yield s.returns(s.builder.xielu(x, alpha_n=0.9, alpha_p=0.7, beta=0.5, eps=-1e-6))


@samples_of("clamp")
def _clamp() -> Iterator[OpSample]:
    s = Sketch("clamp", "")
    yield s.returns(s.builder.clamp(s.floats("x", T, 70, spread=4.0), limit=3.0))


@samples_of("softcap")
def _softcap() -> Iterator[OpSample]:
    s = Sketch("softcap", "")
    yield s.returns(s.builder.softcap(s.floats("x", T, 70, spread=40.0), cap=30.0))


@samples_of("scale")
def _scale() -> Iterator[OpSample]:
    s = Sketch("scale", "")
    yield s.returns(s.builder.scale(s.floats("x", T, 33), factor=0.1))


@samples_of("quantize")
def _quantize() -> Iterator[OpSample]:
    for to in ("q8a", "bf16a"):
        for width in (32, 288, 512):
            s = Sketch("quantize", f"{to}-{width}")
            x = s.floats("x", T, width, spread=4.0)
            s.sample.inputs["x"][1, :32] = 0
            s.sample.inputs["x"][2, :32] = 1e-40
            yield s.returns(s.builder.quantize(x, to=to))


@samples_of("rms_norm_quantize")
def _rms_norm_quantize() -> Iterator[OpSample]:
    for to in ("q8a", "bf16a"):
        s = Sketch("rms_norm_quantize", to)
        x = s.floats("x", T, 288)
        yield s.returns(s.builder.rms_norm_quantize(x, s.weight("weight", 288), eps=1e-5, to=to))


@samples_of("linear_glu")
def _linear_glu() -> Iterator[OpSample]:
    for activation in ("silu", "gelu_tanh"):
        for types, to in (
            (("f32", "f16"), None),
            (("q4_0", "q8_0"), "q8a"),
            (("q5_k", "q6_k"), "bf16a"),
        ):
            s = Sketch("linear_glu", f"{activation}-{types[0]}")
            x = s.floats("x", T, 256)
            x = x if to is None else s.builder.quantize(x, to=to)
            gate, up = (
                s.weight(name, 35, 256, type_name=type_name)
                for name, type_name in zip(("gate", "up"), types, strict=True)
            )
            yield s.returns(s.builder.linear_glu(x, gate, up, activation=activation))


@samples_of("rope_kv_write")
def _rope_kv_write() -> Iterator[OpSample]:
    hq, hkv, d = 6, 2, 32
    for type_name in FLOATS:
        for pairing, rotated, norms in (("half", 32, True), ("interleaved", 16, False)):
            s = Sketch("rope_kv_write", f"{type_name}-{pairing}")
            qkv = s.floats("qkv", T, (hq + 2 * hkv) * d)
            positions, sequences = s.places([11, 12, 13, 14, 15], [2] * 5)
            table = s.builder.rope_table(positions, s.weight("freqs", rotated // 2))
            caches = [s.state(f"{c}_cache", hkv, d, type_name, "zero") for c in "kv"]
            extra = {f"{c}_norm": s.weight(f"{c}_norm", d) for c in "qk"} if norms else {}
            q = s.builder.rope_kv_write(
                qkv,
                table,
                positions,
                sequences,
                *caches,
                **extra,
                n_heads=hq,
                n_kv_heads=hkv,
                head_dim=d,
                pairing=pairing,
                eps=1e-6,
            )
            yield s.returns(q)


# Other files that hold samples; they import from this one.
from tests.support import expert_samples as _  # noqa: E402, F401
from tests.support import recurrent_samples as _recurrent  # noqa: E402, F401
