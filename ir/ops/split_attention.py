"""Attention in two steps: parts of the positions on their own, then their combination.

A part's result is a row of Dv + 2 numbers: the sum of w v, the largest score, the sum of w, where
w = 2^(score - largest) and scores are in units of log 2. The parts are cut by position alone.
"""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array, to_f32
from ggufc.ir.opdef import (
    Attribute,
    Pure,
    StateEffect,
    StateOperand,
    ValueOperand,
    WeightOperand,
    defop,
)
from ggufc.ir.ops.attention import attention_scores, check_heads, check_window
from ggufc.ir.types import F32, TensorType, max_dim, round_up

_STAGES = ("fused", "planned")
_LOG2_E = float(np.log2(np.e))


def seen_parts(position: int, window: int, split: int) -> list[tuple[int, slice]]:
    """(part, rows) for the parts of which a token at this position sees any row."""
    start = max(0, position + 1 - window) if window else 0
    return [
        (part, slice(max(start, part * split), min((part + 1) * split, position + 1)))
        for part in range(start // split, position // split + 1)
    ]


def part_count(context: int, split: int) -> int:
    """How many parts of `split` positions a context has."""
    return round_up(context, split) // split


def _check_split(split: int) -> None:
    if split < 1 or split % 64:
        raise OperandError("attribute 'split'", f"expected a multiple of 64, found {split}")


@defop
class AttentionPartial:
    """The parts of attention(q, ...), `split` positions each: f32[B, Hq, parts, Dv + 2].

    There are as many parts as the longest context needs. Rows of parts that a token does not see
    are unspecified. See `attention` for the rest.
    """

    q = ValueOperand("f32[B, Hq, D]")
    positions = ValueOperand("i32[B]")
    sequences = ValueOperand("i32[B]")
    k_cache = StateOperand("f32|f16|bf16[S, C, Hkv, D]")
    v_cache = StateOperand("f32|f16|bf16[S, C, Hkv, Dv]")
    slopes = WeightOperand("f32[Hq]", optional=True)
    scale = Attribute("float")
    window = Attribute("int", 0)
    softcap = Attribute("float", 0.0)
    split = Attribute("int")
    parts = Attribute("int")
    traits = (StateEffect(writes=False),)
    stages = _STAGES

    @staticmethod
    def infer(
        q: TensorType,
        positions: TensorType,
        sequences: TensorType,
        k_cache: TensorType,
        v_cache: TensorType,
        slopes: TensorType | None,
        scale: float,
        window: int,
        softcap: float,
        split: int,
        parts: int,
    ) -> TensorType:
        check_heads("operand 'q'", max_dim(q.shape[1]), max_dim(k_cache.shape[2]))
        check_window(window)
        _check_split(split)
        needed = part_count(max_dim(k_cache.shape[1]), split)
        if parts != needed:
            raise OperandError("attribute 'parts'", f"expected {needed}, found {parts}")
        return q.with_shape((q.shape[0], q.shape[1], parts, max_dim(v_cache.shape[3]) + 2))

    @staticmethod
    def reference(
        q: F32Array,
        positions: Array,
        sequences: Array,
        k_cache: Array,
        v_cache: Array,
        slopes: F32Array | None,
        scale: float,
        window: int,
        softcap: float,
        split: int,
        parts: int,
    ) -> F32Array:
        out = np.zeros((*q.shape[:2], parts, v_cache.shape[3] + 2), np.float32)
        for token, (position, sequence) in enumerate(zip(positions, sequences, strict=True)):
            for part, rows in seen_parts(int(position), window, split):
                keys, values = (to_f32(cache[sequence, rows]) for cache in (k_cache, v_cache))
                distances = position - np.arange(rows.start, rows.stop)
                scores = _LOG2_E * attention_scores(
                    q[token], keys, distances, slopes, scale, softcap
                )
                out[token, :, part] = _part(scores, values).reshape(q.shape[1], -1)
        return out


def _part(scores: Array, values: F32Array) -> Array:
    """Rows of a part, [Hkv, G, Dv + 2], for scores [Hkv, G, P] and values [P, Hkv, Dv]."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp2(scores - largest)
    mixed = np.einsum("hgp,phd->hgd", weights, values.astype(np.float64))
    return np.concatenate([mixed, largest, weights.sum(axis=-1, keepdims=True)], axis=-1)


@defop
class AttentionCombine:
    """attention_combine(attention_partial(q, ...), positions, sinks) = attention(q, ...)."""

    parts = ValueOperand("f32[B, Hq, N, W]")
    positions = ValueOperand("i32[B]")
    sinks = WeightOperand("f32[Hq]", optional=True)
    window = Attribute("int", 0)
    split = Attribute("int")
    traits = (Pure(),)
    stages = _STAGES

    @staticmethod
    def infer(
        parts: TensorType,
        positions: TensorType,
        sinks: TensorType | None,
        window: int,
        split: int,
    ) -> TensorType:
        check_window(window)
        _check_split(split)
        if max_dim(parts.shape[3]) < 3:
            raise OperandError("operand 'parts'", f"expected rows of 3 or more, found {parts}")
        shape = (parts.shape[0], parts.shape[1], max_dim(parts.shape[3]) - 2)
        return TensorType(shape, F32)

    @staticmethod
    def reference(
        parts: F32Array, positions: Array, sinks: F32Array | None, window: int, split: int
    ) -> F32Array:
        out = np.empty((*parts.shape[:2], parts.shape[3] - 2), np.float32)
        for token, position in enumerate(positions):
            seen = [part for part, _ in seen_parts(int(position), window, split)]
            rows = parts[token][:, seen].astype(np.float64)
            if sinks is not None:
                rows = np.concatenate([rows, _sink_parts(sinks, rows.shape[2])], axis=1)
            mixed, largest, sums = rows[..., :-2], rows[..., -2:-1], rows[..., -1:]
            factors = np.exp2(largest - largest.max(axis=1, keepdims=True))
            out[token] = (factors * mixed).sum(axis=1) / (factors * sums).sum(axis=1)
        return out


def _sink_parts(sinks: F32Array, width: int) -> Array:
    """A part for each head's sink, [Hq, 1, width]: one row of zeros with the sink's score."""
    parts = np.zeros((len(sinks), 1, width))
    parts[:, 0, -2] = sinks.astype(np.float64) * _LOG2_E
    parts[:, 0, -1] = 1.0
    return parts
