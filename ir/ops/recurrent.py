"""Recurrent layers: states of a fixed size a sequence, which every token of it changes in turn.

The tokens of a sequence are taken in the order in which they are given. One at position 0 starts
from zeros, whatever an earlier sequence left in the state.
"""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array
from ggufc.ir.opdef import (
    Attribute,
    InPlace,
    StateEffect,
    StateOperand,
    ValueOperand,
    WeightOperand,
    defop,
)
from ggufc.ir.ops.activation import silu
from ggufc.ir.types import TensorType, max_dim

UPDATES = StateEffect(writes=True)


def begin(state: Array, sequence: int, position: int) -> Array:
    """The part of the state that belongs to a sequence, as it is before a token."""
    if position == 0:
        state[sequence] = 0
    own: Array = state[sequence]
    return own


def check_groups(part: str, heads: int, groups: int) -> None:
    """Heads share a group's vectors in equal numbers."""
    if groups < 1 or heads % groups:
        raise OperandError(part, f"expected a divisor of the {heads} heads, found {groups} groups")


@defop
class ShortConv:
    """Causal convolution of each channel: y[t] = sum over i of weight[i] * x[t - K + 1 + i]
    (+ bias), then the activation.

    The state has the K - 1 inputs before the token, the oldest first.
    """

    x = ValueOperand("f32[T, D]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    window = StateOperand("f32[S, W, D]")
    weight = WeightOperand("f32[D, K]")
    bias = WeightOperand("f32[D]", optional=True)
    activation = Attribute("str", "none", ("none", "silu"))
    traits = (UPDATES, InPlace("x"))

    @staticmethod
    def infer(
        x: TensorType,
        positions: TensorType,
        sequences: TensorType,
        window: TensorType,
        weight: TensorType,
        bias: TensorType | None,
        activation: str,
    ) -> TensorType:
        taps = max_dim(weight.shape[1])
        if taps < 2 or window.shape[1] != taps - 1:
            raise OperandError(
                "operand 'window'", f"expected {taps - 1} inputs, one or more, found {window}"
            )
        return x

    @staticmethod
    def reference(
        x: F32Array,
        positions: Array,
        sequences: Array,
        window: Array,
        weight: F32Array,
        bias: F32Array | None,
        activation: str,
    ) -> F32Array:
        out = np.empty_like(x)
        taps = weight.T.astype(np.float64)
        for token, (sequence, position) in enumerate(zip(sequences, positions, strict=True)):
            own = begin(window, sequence, position)
            inputs = np.concatenate([own, x[token : token + 1]])
            total = (inputs * taps).sum(axis=0)
            out[token] = total if bias is None else total + bias
            own[...] = inputs[1:]
        return silu(out) if activation == "silu" else out


@defop
class SelectiveScan:
    """State space model with input-dependent steps (Gu and Dao 2023; with A = 1, Dao and Gu 2024).

    For head h of group h // (H / G), with state s [P, N] and a [A], A = N or 1:
    s = exp(dt a) s + (dt x) b^T; y = s c + skip x.
    """

    x = ValueOperand("f32[T, H, P]")
    dt = ValueOperand("f32[T, H]")
    b = ValueOperand("f32[T, G, N]")
    c = ValueOperand("f32[T, G, N]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    state = StateOperand("f32[S, H, P, N]")
    a = WeightOperand("f32[H, A]")
    skip = WeightOperand("f32[H]")
    traits = (UPDATES, InPlace("x"))

    @staticmethod
    def infer(
        x: TensorType,
        dt: TensorType,
        b: TensorType,
        c: TensorType,
        positions: TensorType,
        sequences: TensorType,
        state: TensorType,
        a: TensorType,
        skip: TensorType,
    ) -> TensorType:
        check_groups("operand 'b'", max_dim(x.shape[1]), max_dim(b.shape[1]))
        if a.shape[1] not in (1, b.shape[2]):
            raise OperandError("operand 'a'", f"expected 1 or {b.shape[2]} columns, found {a}")
        return x

    @staticmethod
    def reference(
        x: F32Array,
        dt: F32Array,
        b: F32Array,
        c: F32Array,
        positions: Array,
        sequences: Array,
        state: Array,
        a: F32Array,
        skip: F32Array,
    ) -> F32Array:
        out = np.empty_like(x)
        shared = x.shape[1] // b.shape[1]
        for token, (sequence, position) in enumerate(zip(sequences, positions, strict=True)):
            own = begin(state, sequence, position)
            step = dt[token].astype(np.float64)[:, None]
            inputs, outputs = (np.repeat(v[token], shared, axis=0)[:, None] for v in (b, c))
            kept = np.exp(step * a)[:, None] * own
            own[...] = kept + (step * x[token])[..., None] * inputs
            read = (own * outputs.astype(np.float64)).sum(axis=-1)
            out[token] = read + skip[:, None] * x[token]
        return out


@defop
class GatedDeltaRule:
    """Linear attention that forgets, and corrects what it holds for a key (Yang et al. 2024).

    For value head h with state s [Dv, Dk], and the q and k of key head h // (Hv / Hk), or h % Hk if
    `tiled`: s = exp(decay) s; s = s + beta (v - s k) k^T; y = s q.
    """

    q = ValueOperand("f32[T, Hk, Dk]")
    k = ValueOperand("f32[T, Hk, Dk]")
    v = ValueOperand("f32[T, Hv, Dv]")
    decay = ValueOperand("f32[T, Hv]")
    beta = ValueOperand("f32[T, Hv]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    state = StateOperand("f32[S, Hv, Dv, Dk]")
    tiled = Attribute("bool", False)
    traits = (UPDATES, InPlace("v"))

    @staticmethod
    def infer(
        q: TensorType,
        k: TensorType,
        v: TensorType,
        decay: TensorType,
        beta: TensorType,
        positions: TensorType,
        sequences: TensorType,
        state: TensorType,
        tiled: bool,
    ) -> TensorType:
        check_groups("operand 'k'", max_dim(v.shape[1]), max_dim(k.shape[1]))
        return v

    @staticmethod
    def reference(
        q: F32Array,
        k: F32Array,
        v: F32Array,
        decay: F32Array,
        beta: F32Array,
        positions: Array,
        sequences: Array,
        state: Array,
        tiled: bool,
    ) -> F32Array:
        out = np.empty_like(v)
        heads, key_heads = v.shape[1], k.shape[1]
        of_head = np.arange(heads) % key_heads if tiled else np.arange(heads) * key_heads // heads
        for token, (sequence, position) in enumerate(zip(sequences, positions, strict=True)):
            own = begin(state, sequence, position)
            keys, queries = (w[token, of_head].astype(np.float64) for w in (k, q))
            kept = np.exp(decay[token].astype(np.float64))[:, None, None] * own
            held = np.einsum("hvk,hk->hv", kept, keys)
            change = beta[token][:, None] * (v[token] - held)
            own[...] = kept + change[..., None] * keys[:, None]
            out[token] = np.einsum("hvk,hk->hv", own.astype(np.float64), queries)
        return out
