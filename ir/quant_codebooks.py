"""Decoders of the types whose codes index a grid of vectors: IQ1, IQ2 and IQ3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir.numerics import F32Array
from ggufc.ir.quant_fields import bit_fields_in_order, bits, scale, signs, signs_of_index
from ggufc.ir.quant_grids import GRIDS

Array = npt.NDArray[Any]

_IQ1_DELTA = np.float32(0.125)
_SIGN_SHIFTS = np.array([0, 7, 14, 21], np.uint32)
_IQ1_SHIFTS = np.array([0, 3, 6, 9], np.uint16)


def _scaled(factors: Array, vectors: F32Array) -> F32Array:
    """Vectors [n, v, length] times factors [n, f], each for v / f vectors; float32 [n, 256]."""
    repeated = np.repeat(factors, vectors.shape[1] // factors.shape[1], axis=1)
    return (repeated[..., None] * vectors).reshape(len(vectors), 256)


def _iq2_factors(blocks: Array, codes: Array) -> F32Array:
    return scale(blocks, "d") * (np.float32(0.5) + codes.astype(np.float32)) * np.float32(0.25)


def _iq2_xxs(blocks: Array) -> F32Array:
    """Per 32: four grid indices in one word; four sign codes and a four-bit scale in the next."""
    words = blocks["qs"]
    index = np.ascontiguousarray(words[..., 0]).view(np.uint8).reshape(len(blocks), 32)
    sign = signs_of_index(words[..., 1:] >> _SIGN_SHIFTS).reshape(len(blocks), 32, 8)
    factors = _iq2_factors(blocks, words[..., 1] >> 28)
    return _scaled(factors, GRIDS["iq2_xxs"][index]) * sign.reshape(len(blocks), 256)


def _iq2_xs(blocks: Array) -> F32Array:
    """Per 8: nine bits of grid index and seven of signs; a four-bit scale per 16."""
    codes = blocks["qs"]
    sign = signs_of_index(codes >> 9).reshape(len(blocks), 256)
    factors = _iq2_factors(blocks, bit_fields_in_order(blocks["scales"], 4))
    return _scaled(factors, GRIDS["iq2_xs"][codes & 511]) * sign


def _iq2_s(blocks: Array) -> F32Array:
    """Per 8: ten bits of grid index (two of them in qh) and a byte of signs; scales as iq2_xs."""
    high = bit_fields_in_order(blocks["qh"], 2).astype(np.uint16)
    vectors = GRIDS["iq2_s"][blocks["qs"] | (high << 8)]
    factors = _iq2_factors(blocks, bit_fields_in_order(blocks["scales"], 4))
    return _scaled(factors, vectors) * signs(blocks["signs"]).reshape(len(blocks), 256)


def _iq3_xxs(blocks: Array) -> F32Array:
    """Per 4: a byte of grid index; per 32 a word of four sign codes and a four-bit scale."""
    words = blocks["signs"]
    sign = signs_of_index(words[..., None] >> _SIGN_SHIFTS).reshape(len(blocks), 256)
    codes = (words >> 28).astype(np.float32)
    factors = scale(blocks, "d") * (np.float32(0.5) + codes) * np.float32(0.5)
    return _scaled(factors, GRIDS["iq3_xxs"][blocks["qs"]]) * sign


def _iq3_s(blocks: Array) -> F32Array:
    """Per 4: nine bits of grid index (one in qh); a byte of signs per 8; a scale per 32."""
    high = bits(blocks["qh"]).astype(np.uint16)
    vectors = GRIDS["iq3_s"][blocks["qs"] | (high << 8)]
    codes = bit_fields_in_order(blocks["scales"], 4).astype(np.float32)
    factors = scale(blocks, "d") * (1 + 2 * codes)
    return _scaled(factors, vectors) * signs(blocks["signs"]).reshape(len(blocks), 256)


def _iq1_s(blocks: Array) -> F32Array:
    """Per 8: eleven bits of grid index; per 32 a three-bit scale and the sign of the offset."""
    n, high = len(blocks), blocks["qh"]
    index_high = (high[..., None] >> _IQ1_SHIFTS & 7).reshape(n, 32)
    grid = GRIDS["iq1_s"][blocks["qs"] | (index_high << 8)]
    delta = np.where(high & 0x8000, -_IQ1_DELTA, _IQ1_DELTA)
    factors = scale(blocks, "d") * (2 * (high >> 12 & 7) + 1).astype(np.float32)
    return _scaled(factors, grid + np.repeat(delta, 4, axis=1)[..., None])


def _iq1_m_scale(words: Array) -> F32Array:
    """The block's float16 scale, whose nibbles are the top ones of the four scale words."""
    nibble = words >> 12
    code = nibble[:, 0] | nibble[:, 1] << 4 | nibble[:, 2] << 8 | nibble[:, 3] << 12
    values: F32Array = code.astype(np.uint16).view(np.float16).astype(np.float32)[:, None]
    return values


def _iq1_m(blocks: Array) -> F32Array:
    """Grid as iq1_s; a three-bit scale per 16, the sign of the offset per 8."""
    words = blocks["scales"]
    high = bit_fields_in_order(blocks["qh"], 4)
    grid = GRIDS["iq1_s"][blocks["qs"] | ((high & 7).astype(np.uint16) << 8)]
    delta = np.where(high & 8, -_IQ1_DELTA, _IQ1_DELTA)
    codes = (words[..., None] >> _IQ1_SHIFTS & 7).reshape(len(blocks), 16)
    factors = _iq1_m_scale(words) * (2 * codes + 1).astype(np.float32)
    return _scaled(factors, grid + delta[..., None])


DECODERS: dict[str, Callable[[Array], F32Array]] = {
    "iq1_m": _iq1_m,
    "iq1_s": _iq1_s,
    "iq2_s": _iq2_s,
    "iq2_xs": _iq2_xs,
    "iq2_xxs": _iq2_xxs,
    "iq3_s": _iq3_s,
    "iq3_xxs": _iq3_xxs,
}
