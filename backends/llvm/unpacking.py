"""From packed units back to float32, in NumPy: what `verify` compares with a GGUF file's decoder.

Every unpacker takes units [groups, units, unit_bytes] and returns float32 [groups, units, unit_k,
16], with the roundings of the type's own decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm import unpacking_codes
from ggufc.backends.llvm.unpacking_fields import by_k, f32, field, flat, nibbles, scaled

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
F32Array = npt.NDArray[np.float32]
Unpacker = Callable[[Bytes], F32Array]


def _fifth_bits(units: Bytes, offset: int, blocks: int) -> Array:
    """16 where the fifth bit is set, [groups, units, blocks, 32, 16]."""
    packed = field(units, offset, "u1", blocks, 1, 16, 4)
    shifts = np.arange(8, dtype=np.uint8)[:, None, None]
    return by_k(((packed >> shifts) & 1) << 4)


def unpack_q4_0(units: Bytes) -> F32Array:
    """d (q - 8)."""
    return flat(scaled(nibbles(units, 0, 2), f32(units, 512, 2, 16), 8))


def unpack_q4_1(units: Bytes) -> F32Array:
    """d q + m."""
    values = scaled(nibbles(units, 0, 2), f32(units, 512, 2, 16))
    return flat(values + f32(units, 576, 2, 16)[..., None, :])


def unpack_q5_0(units: Bytes) -> F32Array:
    """d (q - 16)."""
    codes = nibbles(units, 0, 2) | _fifth_bits(units, 512, 2)
    return flat(scaled(codes, f32(units, 640, 2, 16), 16))


def unpack_q5_1(units: Bytes) -> F32Array:
    """d q + m."""
    codes = nibbles(units, 0, 2) | _fifth_bits(units, 512, 2)
    values = scaled(codes, f32(units, 640, 2, 16))
    return flat(values + f32(units, 704, 2, 16)[..., None, :])


def unpack_q8_0(units: Bytes) -> F32Array:
    """d (q - 128)."""
    codes = by_k(field(units, 0, "u1", 2, 8, 16, 4))
    return flat(scaled(codes, f32(units, 1024, 2, 16), 128))


def _scaled_k(units: Bytes, codes: Array) -> F32Array:
    """(d sc) q - (dmin mn)."""
    d, dmin = f32(units, 0, 1, 16), f32(units, 32, 1, 16)
    scales = d * field(units, 64, "u1", 8, 16).astype(np.float32)
    minima = dmin * field(units, 192, "u1", 8, 16).astype(np.float32)
    return flat(scaled(codes, scales) - minima[..., None, :])


def unpack_q4_k(units: Bytes) -> F32Array:
    """(d sc) q - (dmin mn)."""
    return _scaled_k(units, nibbles(units, 320, 8))


def unpack_q5_k(units: Bytes) -> F32Array:
    """(d sc) q - (dmin mn)."""
    return _scaled_k(units, nibbles(units, 320, 8) | _fifth_bits(units, 2368, 8))


def unpack_q6_k(units: Bytes) -> F32Array:
    """(d sc) (q - 32), sub-blocks of 16."""
    ql = field(units, 320, "u1", 4, 2, 4, 16, 4)
    low = np.stack([by_k(ql & 15), by_k(ql >> 4)], axis=3).reshape(*units.shape[:2], 4, 4, 16, 16)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None, None]
    qh = by_k(field(units, 2368, "u1", 4, 1, 4, 16, 4))
    codes = (low | (((qh >> shifts) & 3) << 4)).reshape(*units.shape[:2], 16, 16, 16)
    scales = f32(units, 0, 1, 16) * field(units, 64, "i1", 16, 16).astype(np.float32)
    return flat(scaled(codes, scales, 32))


def unpack_f32(units: Bytes) -> F32Array:
    """As it is."""
    return field(units, 0, "<f4", 1, 16)


def unpack_f16(units: Bytes) -> F32Array:
    """Widened."""
    pairs = field(units, 0, "<f2", 16, 2).astype(np.float32)
    return np.moveaxis(pairs, -1, -2)


def unpack_bf16(units: Bytes) -> F32Array:
    """Widened: the bits are the upper half of a float32."""
    pairs = field(units, 0, "<u2", 16, 2).astype(np.uint32) << np.uint32(16)
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
    **unpacking_codes.UNPACKERS,
}
