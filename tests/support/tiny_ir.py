"""A tiny transformer twice: as a module of the IR, and straight in NumPy without cache or IR."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ggufc.ir import (
    F32,
    I32,
    GraphBuilder,
    Module,
    Symbol,
    TensorType,
    Value,
    Weight,
    dtype,
)

T = Symbol("T", 32)
R = Symbol("R", 32)
B = Symbol("B", 4)
S = Symbol("S", 4)
C = Symbol("C", 64)


@dataclass(frozen=True)
class TinyTransformer:
    """Sizes of the model and its random float32 weights, by name."""

    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    dim: int = 48
    hidden: int = 80
    vocab: int = 97
    window: int = 0
    softcap: float = 0.0
    eps: float = 1e-5
    pairing: str = "half"
    kv_type: str = "f32"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights' shapes, rows first."""
        q, kv = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (self.vocab, self.dim)}
        for i in range(self.n_layers):
            layer = {
                "attn_norm": (self.dim,),
                "attn_q": (q, self.dim),
                "attn_k": (kv, self.dim),
                "attn_v": (kv, self.dim),
                "attn_q_norm": (self.head_dim,),
                "attn_output": (self.dim, q),
                "ffn_norm": (self.dim,),
                "ffn_gate": (self.hidden, self.dim),
                "ffn_up": (self.hidden, self.dim),
                "ffn_down": (self.dim, self.hidden),
            }
            shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in layer.items()}
        return {**shapes, "output_norm.weight": (self.dim,)}

    def weights(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Random weights, norms near one."""
        rng = np.random.default_rng(seed)
        out = {}
        for name, shape in self.shapes().items():
            values = rng.standard_normal(shape)
            scaled = 1 + 0.2 * values if "norm" in name else values / math.sqrt(shape[-1])
            out[name] = scaled.astype(np.float32)
        return out

    def freqs(self) -> np.ndarray:
        """float32 rope frequencies."""
        return (100.0 ** -(np.arange(self.head_dim // 2) / (self.head_dim / 2))).astype("<f4")

    def module(self) -> Module:
        """The module with `prefill` and `decode`, stage graph."""
        module = Module("tiny", {"arch": "tiny", "n_layers": self.n_layers})
        for name, shape in self.shapes().items():
            module.weight(name, TensorType(shape, F32))
        module.weight(
            "rope.freqs", TensorType((self.head_dim // 2,), F32), data=self.freqs().tobytes()
        )
        for i in range(self.n_layers):
            for kind in "kv":
                cache = TensorType((S, C, self.n_kv_heads, self.head_dim), dtype(self.kv_type))
                module.state(f"blk.{i}.{kind}", cache)
        _FunctionBuilder(self, module, "prefill", T).build(R)
        _FunctionBuilder(self, module, "decode", B).build(None)
        return module

    def source(self, weights: dict[str, np.ndarray]) -> object:
        """What the interpreter asks for weights."""
        return lambda weight: weights[weight.name]


class _FunctionBuilder:
    def __init__(self, model: TinyTransformer, module: Module, name: str, tokens: Symbol) -> None:
        self.model = model
        self.b = GraphBuilder(module, name)
        self.n = tokens

    def build(self, rows: Symbol | None) -> None:
        b = self.b
        tokens, self.positions, self.sequences = (
            b.input(name, TensorType((self.n,), I32))
            for name in ("tokens", "positions", "sequences")
        )
        wanted = None if rows is None else b.input("rows", TensorType((rows,), I32))
        x = b.embed(tokens, self.weight("token_embd"), name="embd")
        self.table = b.rope_table(self.positions, b.module.weights["rope.freqs"])
        for i in range(self.model.n_layers):
            with b.scope(f"blk.{i}"):
                x = self.feed_forward(i, self.attention(i, x))
        x = b.rms_norm(x, self.weight("output_norm"), eps=self.model.eps, name="output_norm")
        if wanted is not None:
            x = b.take_rows(x, wanted)
        b.returns(b.linear(x, [self.weight("token_embd")], name="logits"))

    def weight(self, name: str) -> Weight:
        return self.b.module.weights[f"{name}.weight"]

    def heads(self, x: Value, count: int) -> Value:
        shaped: Value = self.b.reshape(x, shape=(self.n, count, self.model.head_dim))
        return shaped

    def attention(self, i: int, x: Value) -> Value:
        b, m = self.b, self.model
        normed = b.rms_norm(x, self.weight(f"blk.{i}.attn_norm"), eps=m.eps, name="attn_norm")
        q, k, v = (
            self.heads(b.linear(normed, [self.weight(f"blk.{i}.attn_{c}")], name=c), count)
            for c, count in (("q", m.n_heads), ("k", m.n_kv_heads), ("v", m.n_kv_heads))
        )
        q = b.rms_norm(q, self.weight(f"blk.{i}.attn_q_norm"), eps=m.eps, name="q_norm")
        q, k = (b.rope(h, self.table, pairing=m.pairing) for h in (q, k))
        caches = [b.module.states[f"blk.{i}.{c}"] for c in "kv"]
        b.kv_write(k, v, self.positions, self.sequences, *caches)
        mixed = b.attention(
            q,
            self.positions,
            self.sequences,
            *caches,
            scale=m.head_dim**-0.5,
            window=m.window,
            softcap=m.softcap,
        )
        flat = b.reshape(mixed, shape=(self.n, m.n_heads * m.head_dim))
        mixed = b.linear(flat, [self.weight(f"blk.{i}.attn_output")])
        added: Value = b.add(mixed, x, name="attn_out")
        return added

    def feed_forward(self, i: int, x: Value) -> Value:
        b = self.b
        normed = b.rms_norm(
            x, self.weight(f"blk.{i}.ffn_norm"), eps=self.model.eps, name="ffn_norm"
        )
        gate = b.silu(b.linear(normed, [self.weight(f"blk.{i}.ffn_gate")], name="gate"))
        up = b.linear(normed, [self.weight(f"blk.{i}.ffn_up")], name="up")
        down = self.weight(f"blk.{i}.ffn_down")
        added: Value = b.linear(b.mul(gate, up), [down], residual=x, name="out")
        return added


def numpy_logits(m: TinyTransformer, w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Logits [T, vocab] of one sequence from position 0, in float64, with full score matrices."""
    t = len(tokens)
    wide = {name: array.astype(np.float64) for name, array in w.items()}
    x = wide["token_embd.weight"][tokens]
    angles = np.arange(t)[:, None] * m.freqs().astype(np.float64)
    for i in range(m.n_layers):
        p = {n.split(".")[2]: a for n, a in wide.items() if n.startswith(f"blk.{i}.")}
        x = x + _numpy_attention(m, p, _norm(x, p["attn_norm"], m.eps), angles)
        h = _norm(x, p["ffn_norm"], m.eps)
        gate = h @ p["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ p["ffn_up"].T)) @ p["ffn_down"].T
    normed = _norm(x, wide["output_norm.weight"], m.eps)
    return np.asarray(normed @ wide["token_embd.weight"].T)


def _norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight)


def _numpy_attention(
    m: TinyTransformer, p: dict[str, np.ndarray], h: np.ndarray, angles: np.ndarray
) -> np.ndarray:
    t, d = len(h), m.head_dim
    q = _turn(
        _norm((h @ p["attn_q"].T).reshape(t, -1, d), p["attn_q_norm"], m.eps), angles, m.pairing
    )
    k = _turn((h @ p["attn_k"].T).reshape(t, -1, d), angles, m.pairing)
    v = (h @ p["attn_v"].T).reshape(t, -1, d)
    out = np.zeros_like(q)
    i, j = np.indices((t, t))
    hidden = (j > i) | ((j <= i - m.window) if m.window else False)
    for head in range(m.n_heads):
        shared = head * m.n_kv_heads // m.n_heads
        scores = q[:, head] @ k[:, shared].T / math.sqrt(d)
        scores = m.softcap * np.tanh(scores / m.softcap) if m.softcap else scores
        scores = np.exp(np.where(hidden, -np.inf, scores))
        out[:, head] = scores / scores.sum(1, keepdims=True) @ v[:, shared]
    return np.asarray(out.reshape(t, -1) @ p["attn_output"].T)


def _turn(x: np.ndarray, angles: np.ndarray, pairing: str) -> np.ndarray:
    """Rotation as multiplication of complex numbers."""
    half = x.shape[-1] // 2
    pairs = (
        x.reshape(*x.shape[:2], half, 2)
        if pairing == "interleaved"
        else np.stack([x[..., :half], x[..., half:]], axis=-1)
    )
    z = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None, :]
    if pairing == "interleaved":
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
    return np.concatenate([z.real, z.imag], axis=-1)
