"""Attention over the KV cache: writing rows and attending to them."""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array, from_f32, to_f32
from ggufc.ir.opdef import (
    Attribute,
    StateEffect,
    StateOperand,
    ValueOperand,
    WeightOperand,
    defop,
)
from ggufc.ir.types import TensorType, max_dim


def write_rows(rows: F32Array, positions: Array, sequences: Array, cache: Array) -> None:
    """Store row t at (sequence[t], position[t]) of a cache, rounded to its element type."""
    cache[sequences, positions] = from_f32(rows, cache.dtype)


def check_heads(part: str, n_heads: int, n_kv_heads: int) -> None:
    """Query heads share key/value heads in equal groups."""
    if n_kv_heads < 1 or n_heads < 1 or n_heads % n_kv_heads:
        raise OperandError(
            part, f"expected a multiple of the {n_kv_heads} kv heads, found {n_heads} heads"
        )


def check_window(window: int) -> None:
    """A window has a length, or there is none."""
    if window < 0:
        raise OperandError("attribute 'window'", f"expected 0 (none) or more, found {window}")


def attention_scores(
    q: F32Array,
    keys: F32Array,
    distances: Array,
    slopes: F32Array | None,
    scale: float,
    softcap: float,
) -> Array:
    """Scores of q [Hq, D] and keys [P, Hkv, D], scaled, capped, and lowered by slope times
    distance [P]: float64 [Hkv, Hq / Hkv, P]."""
    groups = q.astype(np.float64).reshape(keys.shape[1], -1, q.shape[1])
    scores: Array = scale * np.einsum("hgd,phd->hgp", groups, keys.astype(np.float64))
    if softcap > 0:
        scores = softcap * np.tanh(scores / softcap)
    if slopes is not None:
        scores = scores - slopes.astype(np.float64).reshape(*scores.shape[:2], 1) * distances
    return scores


def weighted_mean(scores: Array, values: F32Array, sinks: F32Array | None) -> Array:
    """Values [P, Hkv, Dv] weighted by the softmax of scores [Hkv, G, P]: float64 [Hkv * G, Dv].
    A sink of each head takes its part of the weights."""
    largest = scores.max(axis=-1, keepdims=True)
    if sinks is None:
        sink_weights: Array | float = 0.0
    else:
        wide = sinks.astype(np.float64).reshape(*scores.shape[:2], 1)
        largest = np.maximum(largest, wide)
        sink_weights = np.exp(wide - largest)
    weights = np.exp(scores - largest)
    weights /= weights.sum(axis=-1, keepdims=True) + sink_weights
    mixed: Array = np.einsum("hgp,phd->hgd", weights, values.astype(np.float64))
    return mixed.reshape(-1, values.shape[2])


@defop
class KvWrite:
    """Store each token's k and v at (sequence, position) of the caches, rounded to their type."""

    k = ValueOperand("f32[T, Hkv, D]")
    v = ValueOperand("f32[T, Hkv, Dv]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    k_cache = StateOperand("f32|f16|bf16[S, C, Hkv, D]")
    v_cache = StateOperand("f32|f16|bf16[S, C, Hkv, Dv]")
    traits = (StateEffect(writes=True),)

    @staticmethod
    def infer(**types: TensorType) -> None:
        return None

    @staticmethod
    def reference(
        k: F32Array, v: F32Array, positions: Array, sequences: Array, k_cache: Array, v_cache: Array
    ) -> None:
        write_rows(k, positions, sequences, k_cache)
        write_rows(v, positions, sequences, v_cache)


@defop
class Attention:
    """softmax(scale q k^T) v over the cache rows of the token's sequence that it may see.

    A token at position t sees rows p <= t, and only p > t - window if window > 0. Scores become
    softcap * tanh(score / softcap) if softcap > 0, then less by slopes[h] * (t - p) where there are
    slopes. A head's sink is a score more in its softmax, of a row that is 0. Query head h reads kv
    head h // (Hq / Hkv).
    """

    q = ValueOperand("f32[T, Hq, D]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    k_cache = StateOperand("f32|f16|bf16[S, C, Hkv, D]")
    v_cache = StateOperand("f32|f16|bf16[S, C, Hkv, Dv]")
    slopes = WeightOperand("f32[Hq]", optional=True)
    sinks = WeightOperand("f32[Hq]", optional=True)
    scale = Attribute("float")
    window = Attribute("int", 0)
    softcap = Attribute("float", 0.0)
    traits = (StateEffect(writes=False),)

    @staticmethod
    def infer(
        q: TensorType,
        positions: TensorType,
        sequences: TensorType,
        k_cache: TensorType,
        v_cache: TensorType,
        slopes: TensorType | None,
        sinks: TensorType | None,
        scale: float,
        window: int,
        softcap: float,
    ) -> TensorType:
        check_heads("operand 'q'", max_dim(q.shape[1]), max_dim(k_cache.shape[2]))
        check_window(window)
        return q.with_shape((q.shape[0], q.shape[1], v_cache.shape[3]))

    @staticmethod
    def reference(
        q: F32Array,
        positions: Array,
        sequences: Array,
        k_cache: Array,
        v_cache: Array,
        slopes: F32Array | None,
        sinks: F32Array | None,
        scale: float,
        window: int,
        softcap: float,
    ) -> F32Array:
        out = np.empty((*q.shape[:2], v_cache.shape[3]), np.float32)
        for sequence in np.unique(sequences):
            tokens = np.flatnonzero(sequences == sequence)
            seen = int(positions[tokens].max()) + 1
            keys, values = to_f32(k_cache[sequence, :seen]), to_f32(v_cache[sequence, :seen])
            for token in tokens:
                stop = int(positions[token]) + 1
                start = max(0, stop - window) if window else 0
                rows, distances = slice(start, stop), stop - 1 - np.arange(start, stop)
                scores = attention_scores(q[token], keys[rows], distances, slopes, scale, softcap)
                out[token] = weighted_mean(scores, values[rows], sinks)
        return out
