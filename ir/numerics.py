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
REFINEMENTS = ("none", "outliers", "all")
# Blocks whose scale is above 1.5 times the row's root mean square hold most of the error of int8.
OUTLIER_SQUARED = 2.25


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
    """A quantised activation: `qs` int8 [..., K] and `d` float32 [..., K / 32]; x = d * q.

    Where `rs` int8 [..., K] is given, x = d * (q + r / 256).
    """

    qs: npt.NDArray[np.int8]
    d: F32Array
    rs: npt.NDArray[np.int8] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor that it stands for."""
        return self.qs.shape

    def dequantize(self) -> F32Array:
        """The float32 values that the blocks stand for, float32 [..., K]."""
        codes = self.qs.astype(np.float32)
        if self.rs is not None:
            codes = codes + self.rs.astype(np.float32) / np.float32(256)
        blocks = codes.reshape(*self.d.shape, Q8A_BLOCK)
        return (blocks * self.d[..., None]).reshape(self.qs.shape)


def refined_blocks(d: F32Array, refine: str) -> npt.NDArray[np.bool_]:
    """Which blocks of rows have residuals, by their scales [..., K / 32]; see `quantize_q8a`."""
    if refine != "outliers":
        return np.full(d.shape, refine == "all")
    with np.errstate(over="ignore", invalid="ignore"):
        squares = d * d
        total = np.cumsum(squares, axis=-1, dtype=np.float32)[..., -1:]  # in this order
        return squares > total * np.float32(OUTLIER_SQUARED / d.shape[-1])


def quantize_q8a(values: F32Array, refine: str = "none") -> Q8aArray:
    """Quantise float32 [..., K], K a multiple of 32, per 32 elements.

    In float32 throughout: d = max|x| / 127, q = round half to even(x * (1 / d)). A block whose d is
    below the smallest normal float32 (2^-126) becomes d = 0 and q = 0, so that 1 / d is finite.
    Defined for finite x; a block with an infinity or NaN keeps d = inf or NaN with q = 0, which
    dequantises to NaN.

    `refine` says which blocks have residuals too, r = round half to even((x * (1 / d) - q) * 256),
    at least -127 and at most 127: `none`, `all`, or the `outliers` of each row, whose squared d is
    more than OUTLIER_SQUARED times the row's mean of d^2 (summed in float32 from the first on).
    """
    blocks = np.ascontiguousarray(values, np.float32).reshape(
        *values.shape[:-1], values.shape[-1] // Q8A_BLOCK, Q8A_BLOCK
    )
    d = np.abs(blocks).max(axis=-1) / np.float32(127)
    d = np.where(d < _SMALLEST_NORMAL, np.float32(0), d)
    usable = np.isfinite(d) & (d > 0)
    inverse = np.float32(1) / np.where(usable, d, np.float32(1))
    finite = np.where(usable[..., None], blocks, np.float32(0))
    scaled = finite * inverse[..., None]
    whole = np.rint(scaled)
    rest = np.clip(np.rint((scaled - whole) * np.float32(256)), -127, 127)
    rest = np.where(refined_blocks(d, refine)[..., None], rest, np.float32(0))
    qs, rs = (part.astype(np.int8).reshape(values.shape) for part in (whole, rest))
    return Q8aArray(qs, d, rs)


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
