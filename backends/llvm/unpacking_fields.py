"""How unpackers read fields of units, as float32 or codes with the row index last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
F32Array = npt.NDArray[np.float32]


def field(units: Bytes, offset: int, dtype: str, *shape: int) -> Array:
    """The values [groups, units, *shape] at an offset of every unit."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    values = np.ascontiguousarray(units[..., offset : offset + size]).view(dtype)
    return values.reshape(*units.shape[:-1], *shape)


def f32(units: Bytes, offset: int, *shape: int) -> F32Array:
    """float16 values as float32 [groups, units, *shape]."""
    return field(units, offset, "<f2", *shape).astype(np.float32)


def by_k(codes: Array) -> Array:
    """Codes [..., i, row, j] as [..., 4 i + j, row]."""
    moved = np.moveaxis(codes, -1, -2)
    return moved.reshape(*moved.shape[:-3], -1, moved.shape[-1])


def nibbles(units: Bytes, offset: int, blocks: int) -> Array:
    """Codes [groups, units, blocks, 32, 16] of 4 bits in q4_0's order."""
    packed = field(units, offset, "u1", blocks, 4, 16, 4)
    return np.concatenate([by_k(packed & 15), by_k(packed >> 4)], axis=-2)


def scaled(codes: Array, scale: F32Array, zero: int = 0) -> F32Array:
    """scale * (code - zero); codes [..., blocks, k of a block, 16], scale [..., blocks, 16]."""
    values: F32Array = scale[..., None, :] * (codes.astype(np.float32) - np.float32(zero))
    return values


def flat(values: F32Array) -> F32Array:
    """Blocks [groups, units, blocks, k of a block, 16] one after another."""
    return values.reshape(*values.shape[:2], -1, 16)
