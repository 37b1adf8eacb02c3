"""Rotary position embedding: the table of angles, made once a call, and the rotation."""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array
from ggufc.ir.opdef import Attribute, InPlace, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.types import F32, TensorType, max_dim

PAIRINGS = ("interleaved", "half")


def rotate(x: F32Array, table: F32Array, pairing: str) -> F32Array:
    """Rotate the first R of D elements of x [T, H, D] by table [T, R], in float64."""
    n_rotated = table.shape[1]
    half = n_rotated // 2
    cos = table[:, None, :half].astype(np.float64)
    sin = table[:, None, half:].astype(np.float64)
    first, second = _pair_indices(half, pairing)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    out = x.copy()
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def _pair_indices(half: int, pairing: str) -> tuple[Array, Array]:
    index = np.arange(half)
    return (2 * index, 2 * index + 1) if pairing == "interleaved" else (index, index + half)


def check_rotated(table: TensorType, head_dim: int) -> None:
    """The table rotates an even number of elements, at most the head's."""
    n_rotated = max_dim(table.shape[1])
    if n_rotated % 2 or n_rotated > head_dim:
        raise OperandError(
            "operand 'table'", f"expected an even width of at most {head_dim}, found {table}"
        )


@defop
class RopeTable:
    """Cosines, then sines, of each token's angles, times scale.

    angle[t, i] = float32(position[t]) * freq[i], rounded to float32. Where there are long_freqs,
    tokens of sequences whose length is above `short_context` take those.
    """

    positions = ValueOperand("i32[T]")
    freqs = WeightOperand("f32[F]")
    lengths = ValueOperand("i32[T]", optional=True)
    long_freqs = WeightOperand("f32[F]", optional=True)
    scale = Attribute("float", 1.0)
    short_context = Attribute("int", 0)
    traits = (Pure(),)

    @staticmethod
    def infer(
        positions: TensorType,
        freqs: TensorType,
        lengths: TensorType | None,
        long_freqs: TensorType | None,
        scale: float,
        short_context: int,
    ) -> TensorType:
        if (lengths is None) != (long_freqs is None):
            raise OperandError("operands 'lengths', 'long_freqs'", "expected both or none")
        return TensorType((positions.shape[0], 2 * max_dim(freqs.shape[0])), F32)

    @staticmethod
    def reference(
        positions: Array,
        freqs: F32Array,
        lengths: Array | None,
        long_freqs: F32Array | None,
        scale: float,
        short_context: int,
    ) -> F32Array:
        if lengths is not None and long_freqs is not None:
            freqs = np.where(lengths[:, None] > short_context, long_freqs, freqs)
        angles = (positions.astype(np.float32)[:, None] * freqs).astype(np.float64)
        table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        return (table * scale).astype(np.float32)


@defop
class Rope:
    """Rotate the first R of D elements of every head by the token's angles.

    Pairs are (2i, 2i+1) when interleaved, (i, i + R/2) when half; the rest is left as it is.
    """

    x = ValueOperand("f32[T, H, D]")
    table = ValueOperand("f32[T, R]")
    pairing = Attribute("str", choices=PAIRINGS)
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, table: TensorType, pairing: str) -> TensorType:
        check_rotated(table, max_dim(x.shape[2]))
        return x

    @staticmethod
    def reference(x: F32Array, table: F32Array, pairing: str) -> F32Array:
        return rotate(x, table, pairing)
