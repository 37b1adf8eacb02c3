"""Attention within whole texts, without a cache: every token sees those before and after it."""

from __future__ import annotations

import numpy as np

from ggufc.ir.numerics import Array, F32Array
from ggufc.ir.opdef import Attribute, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.ops.attention import attention_scores, check_heads, check_window, weighted_mean
from ggufc.ir.types import TensorType, max_dim


@defop
class BidirectionalAttention:
    """softmax(scale q k^T) v over all tokens of the token's own text.

    Texts lie one after another, each whole: token t, at position p of a text of length n, sees
    tokens t - p to t - p + n - 1; with window > 0 only those at most window // 2 away. Scores
    become softcap * tanh(score / softcap) if softcap > 0, then less by slopes[h] * distance where
    there are slopes. Query head h reads kv head h // (Hq / Hkv).
    """

    q = ValueOperand("f32[T, Hq, D]")
    k = ValueOperand("f32[T, Hkv, D]")
    v = ValueOperand("f32[T, Hkv, Dv]")
    positions = ValueOperand("i32[T]")
    lengths = ValueOperand("i32[T]")
    slopes = WeightOperand("f32[Hq]", optional=True)
    scale = Attribute("float")
    window = Attribute("int", 0)
    softcap = Attribute("float", 0.0)
    traits = (Pure(),)

    @staticmethod
    def infer(
        q: TensorType,
        k: TensorType,
        v: TensorType,
        positions: TensorType,
        lengths: TensorType,
        slopes: TensorType | None,
        scale: float,
        window: int,
        softcap: float,
    ) -> TensorType:
        check_heads("operand 'q'", max_dim(q.shape[1]), max_dim(k.shape[1]))
        check_window(window)
        return q.with_shape((q.shape[0], q.shape[1], v.shape[2]))

    @staticmethod
    def reference(
        q: F32Array,
        k: F32Array,
        v: F32Array,
        positions: Array,
        lengths: Array,
        slopes: F32Array | None,
        scale: float,
        window: int,
        softcap: float,
    ) -> F32Array:
        out = np.empty((*q.shape[:2], v.shape[2]), np.float32)
        for token in range(len(q)):
            first = token - int(positions[token])
            start, stop = first, first + int(lengths[token])
            if window:
                reach = window // 2
                start, stop = max(start, token - reach), min(stop, token + reach + 1)
            distances = np.abs(np.arange(start, stop) - token)
            scores = attention_scores(q[token], k[start:stop], distances, slopes, scale, softcap)
            out[token] = weighted_mean(scores, v[start:stop], None)
        return out
