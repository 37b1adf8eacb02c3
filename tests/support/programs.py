"""Small programs with random weights and inputs, for tests that run them by the interpreter."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggufc.ir import (
    F32,
    GRAPH,
    I32,
    Function,
    GraphBuilder,
    Interpreter,
    Module,
    Symbol,
    TensorType,
    Value,
    Weight,
    dtype,
    to_f32,
    verify,
)

Array = npt.NDArray[np.generic]
F32Array = npt.NDArray[np.float32]
CONTEXT, SEQUENCES = 64, 3


class RandomWeights:
    """Float32 arrays for the weights of a module, by the names of the tensors they come from."""

    def __init__(self, module: Module) -> None:
        self._shapes = {
            str(source): weight.type.max_shape
            for weight in module.weights.values()
            for source in weight.sources
            if len(weight.sources) == 1
        }

    def __call__(self, weight: Weight) -> F32Array:
        """The weight's tensors, joined along the first axis."""
        parts = [self._tensor(str(source)) for source in weight.sources]
        return np.concatenate(parts).reshape(weight.type.max_shape)

    def _tensor(self, name: str) -> F32Array:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        shape = self._shapes[name]
        spread = 1.0 if len(shape) == 1 else 1.0 / math.sqrt(shape[-1])
        return (rng.standard_normal(shape) * spread).astype(np.float32)


def inputs_of(function: Function, seed: int, tokens: int = 5) -> dict[str, Array]:
    """Random inputs by name: symbols are `tokens` long, R is 2, B is the number of sequences."""
    rng = np.random.default_rng(seed)
    sizes = {"R": 2, "B": SEQUENCES}
    found: dict[str, Array] = {}
    for value in function.inputs:
        shape = tuple(
            sizes.get(dim.name, tokens) if isinstance(dim, Symbol) else dim
            for dim in value.type.shape
        )
        found[value.name] = _input(rng, value, shape)
    return found


def _input(rng: np.random.Generator, value: Value, shape: tuple[int, ...]) -> Array:
    if value.type.dtype == F32:
        return rng.standard_normal(shape).astype(np.float32)
    if value.name == "positions":
        return np.arange(*shape, dtype=np.int32)
    if value.name == "sequences" and shape[0] == SEQUENCES:
        return np.arange(SEQUENCES, dtype=np.int32)
    high = {"rows": 4, "sequences": 1}.get(value.name, 6)
    return rng.integers(0, high, shape).astype(np.int32)


@dataclass(frozen=True)
class Outcome:
    """What a run returned, by function, and the states it left."""

    returned: dict[str, list[F32Array]]
    states: dict[str, F32Array]


def run(module: Module, weights: RandomWeights, seed: int = 0) -> Outcome:
    """Run every function once on random inputs, in order, on one set of states."""
    interpreter = Interpreter(module, weights)
    states = interpreter.new_states(CONTEXT, SEQUENCES)
    returned = {}
    for number, (name, function) in enumerate(module.functions.items()):
        values = interpreter.run(name, inputs_of(function, seed + number), states)
        returned[name] = [to_f32(value) for value in values]
    arrays = {name: to_f32(array) for name, array in states.arrays.items()}
    return Outcome(returned, arrays)


def largest_difference(a: Outcome, b: Outcome) -> float:
    """The largest absolute difference between two outcomes, relative to the largest value."""
    assert a.returned.keys() == b.returned.keys()
    assert a.states.keys() == b.states.keys()
    pairs = [(x, y) for f in a.returned for x, y in zip(a.returned[f], b.returned[f], strict=True)]
    pairs += [(a.states[name], b.states[name]) for name in a.states]
    return max((_difference(x, y) for x, y in pairs), default=0.0)


def _difference(x: F32Array, y: F32Array) -> float:
    assert x.shape == y.shape
    if not x.size:
        return 0.0
    return float(np.abs(x - y).max() / max(1e-6, np.abs(x).max()))


@dataclass(frozen=True)
class Shape:
    """A tiny transformer: its sizes and which optional parts it has."""

    n_layers: int = 2
    dim: int = 64
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 32
    hidden: int = 96
    vocabulary: int = 48
    weight_type: str = "f32"
    activation: str = "silu"
    pairing: str = "interleaved"
    has_bias: bool = False
    has_head_norm: bool = False
    has_post_norm: bool = False
    has_scales: bool = False
    softcap: float = 0.0
    is_tied: bool = False
    max_tokens: int = 16


SHAPES: Mapping[str, Shape] = {
    "llama": Shape(),
    "llama-tied": Shape(is_tied=True, n_layers=1),
    "qwen2": Shape(has_bias=True, pairing="half"),
    "qwen3": Shape(has_head_norm=True, pairing="half", n_kv_heads=1),
    "gemma": Shape(
        activation="gelu_tanh",
        pairing="half",
        has_head_norm=True,
        has_post_norm=True,
        has_scales=True,
        softcap=30.0,
        is_tied=True,
    ),
}


class TinyTransformer:
    """Builds prefill and decode of one shape, as a frontend would."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.module = Module("tiny", {"arch": "test"})

    def build(self) -> Module:
        """The module at stage graph."""
        for name, tokens in (("prefill", Symbol("T", self.shape.max_tokens)), ("decode", None)):
            self._function(name, tokens or Symbol("B", SEQUENCES), is_prefill=tokens is not None)
        verify(self.module, GRAPH)
        return self.module

    def _function(self, name: str, tokens: Symbol, is_prefill: bool) -> None:
        b = self.b = GraphBuilder(self.module, name)
        per_token = TensorType((tokens,), I32)
        self.inputs = [b.input(n, per_token) for n in ("tokens", "positions", "sequences")]
        rows = Symbol("R", self.shape.max_tokens)
        self.rows = b.input("rows", TensorType((rows,), I32)) if is_prefill else None
        table = self._matrix("token_embd.weight", self.shape.vocabulary, self.shape.dim)
        x: Value = b.embed(self.inputs[0], table, name="embd")
        if self.shape.has_scales:
            x = b.scale(x, factor=math.sqrt(self.shape.dim), name="embd.scaled")
        for layer in range(self.shape.n_layers):
            with b.scope(f"blk.{layer}"):
                x = self._layer(f"blk.{layer}.", x)
        b.returns(self._head(x, table))

    def _layer(self, at: str, x: Value) -> Value:
        b = self.b
        branch = self._attention(at, self._norm(at, "attn_norm", x))
        if self.shape.has_post_norm:
            branch = self._norm(at, "post_attention_norm", branch)
        x = b.add(x, branch, name="attn_residual")
        inner = self._norm(at, "ffn_norm", x)
        gate = self._linear(at, "ffn_gate", inner, self.shape.hidden)
        up = self._linear(at, "ffn_up", inner, self.shape.hidden)
        gated = b.mul(b.emit(self.shape.activation, gate), up, name="ffn_gated")
        branch = self._linear(at, "ffn_down", gated, self.shape.dim)
        if self.shape.has_post_norm:
            branch = self._norm(at, "post_ffw_norm", branch)
        y: Value = b.add(x, branch, name="ffn_residual")
        return y

    def _attention(self, at: str, x: Value) -> Value:
        b, s = self.b, self.shape
        _, positions, sequences = self.inputs
        heads = {"q": s.n_heads, "k": s.n_kv_heads, "v": s.n_kv_heads}
        parts = {name: self._heads(at, name, x, count) for name, count in heads.items()}
        table = b.rope_table(positions, self._frequencies(), name="rope.table")
        q = parts["q"]
        if s.has_scales:
            q = b.scale(q, factor=s.head_dim**-0.5)
        q = b.rope(q, table, pairing=s.pairing, name="q.rope")
        k = b.rope(parts["k"], table, pairing=s.pairing, name="k.rope")
        shape = (Symbol("S", SEQUENCES), Symbol("C", CONTEXT), s.n_kv_heads, s.head_dim)
        caches = [self.module.state(f"{at}{n}", TensorType(shape, F32)) for n in ("k", "v")]
        b.kv_write(k, parts["v"], positions, sequences, *caches)
        scale = 1.0 if s.has_scales else s.head_dim**-0.5
        out = b.attention(q, positions, sequences, *caches, scale=scale, name="attn")
        flat = b.reshape(out, shape=(out.type.shape[0], s.n_heads * s.head_dim), name="attn.flat")
        return self._linear(at, "attn_output", flat, s.dim)

    def _heads(self, at: str, name: str, x: Value, count: int) -> Value:
        s = self.shape
        y = self._linear(at, f"attn_{name}", x, count * s.head_dim, has_bias=s.has_bias)
        y = self.b.reshape(y, shape=(y.type.shape[0], count, s.head_dim), name=f"{name}.heads")
        if s.has_head_norm and name != "v":
            y = self._norm(at, f"attn_{name}_norm", y)
        return y

    def _head(self, x: Value, table: Weight) -> Value:
        s, b = self.shape, self.b
        x = self._norm("", "output_norm", x)
        if self.rows is not None:
            x = b.take_rows(x, self.rows, name="wanted")
        matrix = table if s.is_tied else self._matrix("output.weight", s.vocabulary, s.dim)
        logits: Value = b.linear(x, [matrix], name="logits")
        if s.softcap:
            logits = b.softcap(logits, cap=s.softcap, name="logits.capped")
        return logits

    def _linear(self, at: str, name: str, x: Value, n: int, has_bias: bool = False) -> Value:
        width = x.type.max_shape[-1]
        weight = self._matrix(f"{at}{name}.weight", n, width)
        y: Value = self.b.linear(x, [weight], name=name)
        if has_bias:
            bias = self.module.weight(f"{at}{name}.bias", TensorType((n,), F32))
            y = self.b.bias_add(y, bias, name=f"{name}.biased")
        return y

    def _norm(self, at: str, name: str, x: Value) -> Value:
        size = x.type.max_shape[-1]
        weight = self.module.weight(f"{at}{name}.weight", TensorType((size,), F32))
        y: Value = self.b.rms_norm(x, weight, eps=1e-6, name=name)
        return y

    def _matrix(self, name: str, n: int, k: int) -> Weight:
        return self.module.weight(name, TensorType((n, k), dtype(self.shape.weight_type)))

    def _frequencies(self) -> Weight:
        half = self.shape.head_dim // 2
        data = (10000.0 ** -(np.arange(half) / half)).astype("<f4").tobytes()
        return self.module.weight("rope.freqs", TensorType((half,), F32), data=data)


def tiny(shape: Shape) -> Module:
    """A tiny transformer of this shape, stage graph, with all inputs of the interface."""
    return TinyTransformer(shape).build()
