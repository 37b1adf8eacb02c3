"""Unpackers of the layouts with codes of 1 to 3 bits, and of those whose codes index a codebook.

As in `unpacking.py`: units [groups, units, unit_bytes] become float32 [groups, units, unit_k, 16].
A layout's values are those of every type packed into it, since all products here are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.codebooks import CODEBOOKS, Codebook
from ggufc.backends.llvm.unpacking_fields import by_k, f32, field, flat, nibbles, scaled
from ggufc.ir.quant_reference import e4m3_halved, e8m0_halved

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
F32Array = npt.NDArray[np.float32]


def _codes(units: Bytes, offset: int, width: int, k: int) -> Array:
    """`k` codes of `width` bits, [groups, units, k / 16, 16, 16]: fields of bytes in runs of 16."""
    per_byte = 8 // width
    packed = field(units, offset, "u1", k // (16 * per_byte), 1, 4, 16, 4)
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None, None, None]
    codes = by_k(packed >> shifts & np.uint8((1 << width) - 1))
    return codes.reshape(*units.shape[:-1], k // 16, 16, 16)


def _bytes(units: Bytes, offset: int, runs: int, dtype: str = "u1") -> F32Array:
    """A byte of each row for each run, float32 [groups, units, runs, 16]."""
    return field(units, offset, dtype, runs, 16).astype(np.float32)


def _looked_up(codebook: Codebook, codes: Array) -> F32Array:
    return np.array(codebook.values, np.float32)[codes]


def unpack_q2_k(units: Bytes) -> F32Array:
    """(d sc) q - (dmin mn), sub-blocks of 16."""
    packed = field(units, 64, "u1", 16, 16)
    scales = f32(units, 0, 1, 16) * (packed & 15).astype(np.float32)
    minima = f32(units, 32, 1, 16) * (packed >> 4).astype(np.float32)
    return flat(scaled(_codes(units, 320, 2, 256), scales) - minima[..., None, :])


def _three_bits(units: Bytes) -> Array:
    codes: Array = _codes(units, 320, 2, 256) | (_codes(units, 1344, 1, 256) << 2)
    return codes


def unpack_q3_k(units: Bytes) -> F32Array:
    """(d sc) (q - 4), sub-blocks of 16."""
    scales = f32(units, 0, 1, 16) * _bytes(units, 64, 16, "i1")
    return flat(scaled(_three_bits(units), scales, 4))


def unpack_iq2_s(units: Bytes) -> F32Array:
    """(d / 8 sc) value, sub-blocks of 16."""
    codebook = CODEBOOKS["iq2_s"]
    scales = f32(units, 0, 1, 16) * np.float32(codebook.factor) * _bytes(units, 64, 16)
    return flat(scaled(_looked_up(codebook, _three_bits(units)), scales))


def unpack_iq1_m(units: Bytes) -> F32Array:
    """(d / 8 sc) (8 (q - 1) + 1, or - 1 where the sign of these 8 k is set)."""
    packed = field(units, 64, "u1", 16, 16)
    scales = f32(units, 0, 1, 16) * np.float32(1 / 8) * (packed & 15).astype(np.float32)
    signs = np.stack([packed >> 4 & 1, packed >> 5 & 1], axis=-2).repeat(8, axis=-2)
    values = 8 * _codes(units, 320, 2, 256).astype(np.float32) - 7 - 2 * signs.astype(np.float32)
    return flat(scaled(values, scales))


def _four_bits(name: str) -> Callable[[Bytes], F32Array]:
    """(d sc) value, sub-blocks of 32."""
    codebook = CODEBOOKS[name]

    def unpack(units: Bytes) -> F32Array:
        scales = f32(units, 0, 1, 16) * np.float32(codebook.factor) * _bytes(units, 64, 8, "i1")
        return flat(scaled(_looked_up(codebook, nibbles(units, 192, 8)), scales))

    return unpack


def unpack_iq4_nl(units: Bytes) -> F32Array:
    """d value."""
    values = _looked_up(CODEBOOKS["iq4_nl"], nibbles(units, 0, 2))
    return flat(scaled(values, f32(units, 512, 2, 16)))


def unpack_mxfp4(units: Bytes) -> F32Array:
    """2^(e - 128) value."""
    values = _looked_up(CODEBOOKS["mxfp4"], nibbles(units, 0, 2))
    return flat(scaled(values, e8m0_halved(field(units, 512, "u1", 2, 16))))


def unpack_nvfp4(units: Bytes) -> F32Array:
    """d / 2 value, sub-blocks of 16."""
    values = _looked_up(CODEBOOKS["nvfp4"], nibbles(units, 0, 2))
    scales = e4m3_halved(field(units, 512, "u1", 4, 16))
    return flat(scaled(values.reshape(*units.shape[:-1], 4, 16, 16), scales))


def unpack_tq2_0(units: Bytes) -> F32Array:
    """d (q - 1)."""
    return flat(scaled(_codes(units, 0, 2, 256), f32(units, 1024, 1, 16), 1))


def unpack_q2_0(units: Bytes) -> F32Array:
    """d (q - 1)."""
    return flat(scaled(_codes(units, 0, 2, 64), f32(units, 256, 1, 16), 1))


def unpack_q1_0(units: Bytes) -> F32Array:
    """d (2 q - 1)."""
    return flat(scaled(2 * _codes(units, 0, 1, 128), f32(units, 256, 1, 16), 1))


# By the layout's own type.
UNPACKERS: dict[str, Callable[[Bytes], F32Array]] = {
    "q2_k": unpack_q2_k,
    "q3_k": unpack_q3_k,
    "iq1_m": unpack_iq1_m,
    "iq2_s": unpack_iq2_s,
    "iq3_xxs": _four_bits("iq3_xxs"),
    "iq3_s": _four_bits("iq3_s"),
    "iq4_nl": unpack_iq4_nl,
    "iq4_xs": _four_bits("iq4_xs"),
    "tq2_0": unpack_tq2_0,
    "mxfp4": unpack_mxfp4,
    "nvfp4": unpack_nvfp4,
    "q1_0": unpack_q1_0,
    "q2_0": unpack_q2_0,
}
