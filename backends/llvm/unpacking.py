"""From packed units back to float32, in NumPy: what `verify` compares with a GGUF file's decoder.

Every unpacker takes units [groups, units, unit_bytes] and returns float32 [groups, units, unit_k,
16], with the roundings of the type's own decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
F32Array = npt.NDArray[np.float32]
Unpacker = Callable[[Bytes], F32Array]


def _field(units: Bytes, offset: int, dtype: str, *shape: int) -> Array:
    """The values [groups, units, *shape] at an offset of every unit."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    values = np.ascontiguousarray(units[..., offset : offset + size]).view(dtype)
    return values.reshape(*units.shape[:-1], *shape)


def _f32(units: Bytes, offset: int, *shape: int) -> F32Array:
    return _field(units, offset, "<f2", *shape).astype(np.float32)


def _by_k(codes: Array) -> Array:
    """Codes [..., i, row, j] as [..., 4 i + j, row]."""
    moved = np.moveaxis(codes, -1, -2)
    return moved.reshape(*moved.shape[:-3], -1, moved.shape[-1])


def _nibbles(units: Bytes, offset: int, blocks: int) -> Array:
    """Codes [groups, units, blocks, 32, 16] of 4 bits in q4_0's order."""
    packed = _field(units, offset, "u1", blocks, 4, 16, 4)
    return np.concatenate([_by_k(packed & 15), _by_k(packed >> 4)], axis=-2)


def _fifth_bits(units: Bytes, offset: int, blocks: int) -> Array:
    """16 where the fifth bit is set, [groups, units, blocks, 32, 16]."""
    packed = _field(units, offset, "u1", blocks, 1, 16, 4)
    shifts = np.arange(8, dtype=np.uint8)[:, None, None]
    return _by_k(((packed >> shifts) & 1) << 4)


def _scaled(codes: Array, scale: F32Array, zero: int = 0) -> F32Array:
    """scale * (code - zero); codes [..., blocks, k of a block, 16], scale [..., blocks, 16]."""
    values: F32Array = scale[..., None, :] * (codes.astype(np.float32) - np.float32(zero))
    return values


def _flat(values: F32Array) -> F32Array:
    return values.reshape(*values.shape[:2], -1, 16)


def unpack_q4_0(units: Bytes) -> F32Array:
    """d (q - 8)."""
    return _flat(_scaled(_nibbles(units, 0, 2), _f32(units, 512, 2, 16), 8))


def unpack_q4_1(units: Bytes) -> F32Array:
    """d q + m."""
    values = _scaled(_nibbles(units, 0, 2), _f32(units, 512, 2, 16))
    return _flat(values + _f32(units, 576, 2, 16)[..., None, :])


def unpack_q5_0(units: Bytes) -> F32Array:
    """d (q - 16)."""
    codes = _nibbles(units, 0, 2) | _fifth_bits(units, 512, 2)
    return _flat(_scaled(codes, _f32(units, 640, 2, 16), 16))


def unpack_q5_1(units: Bytes) -> F32Array:
    """d q + m."""
    codes = _nibbles(units, 0, 2) | _fifth_bits(units, 512, 2)
    values = _scaled(codes, _f32(units, 640, 2, 16))
    return _flat(values + _f32(units, 704, 2, 16)[..., None, :])


def unpack_q8_0(units: Bytes) -> F32Array:
    """d (q - 128)."""
    codes = _by_k(_field(units, 0, "u1", 2, 8, 16, 4))
    return _flat(_scaled(codes, _f32(units, 1024, 2, 16), 128))


def _scaled_k(units: Bytes, codes: Array) -> F32Array:
    """(d sc) q - (dmin mn)."""
    d, dmin = _f32(units, 0, 1, 16), _f32(units, 32, 1, 16)
    scales = d * _field(units, 64, "u1", 8, 16).astype(np.float32)
    minima = dmin * _field(units, 192, "u1", 8, 16).astype(np.float32)
    return _flat(_scaled(codes, scales) - minima[..., None, :])


def unpack_q4_k(units: Bytes) -> F32Array:
    """(d sc) q - (dmin mn)."""
    return _scaled_k(units, _nibbles(units, 320, 8))


def unpack_q5_k(units: Bytes) -> F32Array:
    """(d sc) q - (dmin mn)."""
    return _scaled_k(units, _nibbles(units, 320, 8) | _fifth_bits(units, 2368, 8))


def unpack_q6_k(units: Bytes) -> F32Array:
    """(d sc) (q - 32), sub-blocks of 16."""
    ql = _field(units, 320, "u1", 4, 2, 4, 16, 4)
    low = np.stack([_by_k(ql & 15), _by_k(ql >> 4)], axis=3).reshape(*units.shape[:2], 4, 4, 16, 16)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None, None]
    qh = _by_k(_field(units, 2368, "u1", 4, 1, 4, 16, 4))
    codes = (low | (((qh >> shifts) & 3) << 4)).reshape(*units.shape[:2], 16, 16, 16)
    scales = _f32(units, 0, 1, 16) * _field(units, 64, "i1", 16, 16).astype(np.float32)
    return _flat(_scaled(codes, scales, 32))


def unpack_f32(units: Bytes) -> F32Array:
    """As it is."""
    return _field(units, 0, "<f4", 1, 16)


def unpack_f16(units: Bytes) -> F32Array:
    """Widened."""
    pairs = _field(units, 0, "<f2", 16, 2).astype(np.float32)
    return np.moveaxis(pairs, -1, -2)


def unpack_bf16(units: Bytes) -> F32Array:
    """Widened: the bits are the upper half of a float32."""
    pairs = _field(units, 0, "<u2", 16, 2).astype(np.uint32) << np.uint32(16)
    return np.moveaxis(pairs, -1, -2).view(np.float32)


UNPACKERS: dict[str, Unpacker] = {
    "q4_0": unpack_q4_0,
    "q4_1": unpack_q4_1,
    "q5_0": unpack_q5_0,
    "q5_1": unpack_q5_1,
    "q8_0": unpack_q8_0,
    "q4_k": unpack_q4_k,
    "q5_k": unpack_q5_k,
    "q6_k": unpack_q6_k,
    "f32": unpack_f32,
    "f16": unpack_f16,
    "bf16": unpack_bf16,
}
