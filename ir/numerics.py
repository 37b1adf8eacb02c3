"""Arrays that NumPy has no type for: bf16 (uint16 bits) and q8a (int8 blocks, float32 scales)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir.errors import IRError
from ggufc.ir.types import Q8A_BLOCK, DType

Array = npt.NDArray[Any]
F32Array = npt.NDArray[np.float32]

_SMALLEST_NORMAL = np.float32(2.0**-126)


def bf16_to_f32(bits: npt.NDArray[np.uint16]) -> F32Array:
    """The float32 values of bf16 bit patterns (uint16), exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: F32Array) -> npt.NDArray[np.uint16]:
    """bf16 bit patterns (uint16), rounded to nearest even; NaN stays a quiet NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    high = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (high & np.uint32(1))) >> np.uint32(16)
    quiet_nan = high | np.uint32(0x40)
    return np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16)


@dataclass(frozen=True)
class Q8aArray:
    """A quantised activation: `qs` int8 [..., K] and `d` float32 [..., K / 32]; x = d * q."""

    qs: npt.NDArray[np.int8]
    d: F32Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor that it stands for."""
        return self.qs.shape

    def dequantize(self) -> F32Array:
        """The float32 values that the blocks stand for, float32 [..., K]."""
        blocks = self.qs.astype(np.float32).reshape(*self.d.shape, Q8A_BLOCK)
        return (blocks * self.d[..., None]).reshape(self.qs.shape)


def quantize_q8a(values: F32Array) -> Q8aArray:
    """Quantise float32 [..., K], K a multiple of 32, per 32 elements.

    In float32 throughout: d = max|x| / 127, q = round half to even(x * (1 / d)). A block whose d is
    below the smallest normal float32 (2^-126) becomes d = 0 and q = 0, so that 1 / d is finite.
    Defined for finite x; a block with an infinity or NaN keeps d = inf or NaN with q = 0, which
    dequantises to NaN.
    """
    blocks = np.ascontiguousarray(values, np.float32).reshape(
        *values.shape[:-1], values.shape[-1] // Q8A_BLOCK, Q8A_BLOCK
    )
    d = np.abs(blocks).max(axis=-1) / np.float32(127)
    d = np.where(d < _SMALLEST_NORMAL, np.float32(0), d)
    usable = np.isfinite(d) & (d > 0)
    inverse = np.float32(1) / np.where(usable, d, np.float32(1))
    finite = np.where(usable[..., None], blocks, np.float32(0))
    qs = np.rint(finite * inverse[..., None]).astype(np.int8)
    return Q8aArray(qs.reshape(values.shape), d)


Runtime = Array | Q8aArray


def to_f32(values: Runtime) -> F32Array:
    """float32 values of an array as the interpreter holds it: f32, f16, bf16 (uint16) or q8a."""
    if isinstance(values, Q8aArray):
        return values.dequantize()
    if values.dtype == np.uint16:
        return bf16_to_f32(values)
    return values.astype(np.float32, copy=False)


def from_f32(values: F32Array, element: np.dtype[Any]) -> Array:
    """Round float32 values to the array type of an element: float32, float16 or uint16 (bf16)."""
    if element == np.uint16:
        return f32_to_bf16(values)
    return values.astype(element, copy=False)


def array_type(element: DType) -> np.dtype[Any]:
    """The NumPy type that holds this element type; an IRError for block types."""
    if element.numpy is None:
        raise IRError(f"element type {element.name} has no plain array type")
    return element.numpy
