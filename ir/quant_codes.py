"""The integers in the blocks of types that compilers repack: codes and scales without arithmetic.

Decoders multiply them out, packers store them elsewhere. Every function gets n blocks (the
structured type of its row in the table).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir.quant_fields import bit_fields, bit_fields_in_order, bits, nibbles, sign_bits

Array = npt.NDArray[Any]

_SIGN_SHIFTS = np.array([0, 7, 14, 21], np.uint32)
_THREE_BITS = np.array([0, 3, 6, 9], np.uint16)


@dataclass(frozen=True)
class GridCodes:
    """Blocks of a grid type: `index` [n, vectors] of a grid's vectors, `scales` uint8 [n, runs].

    `negative` is uint8 of 0 and 1: of IQ2 and IQ3 [n, 256], the sign of each element; of IQ1
    [n, 32], the sign of what is added to each vector.
    """

    index: Array
    negative: Array
    scales: Array


def iq2_xxs(blocks: Array) -> GridCodes:
    """Per 32: four grid indices in one word; four sign codes and a four-bit scale in the next."""
    words = blocks["qs"]
    index = np.ascontiguousarray(words[..., 0]).view(np.uint8).reshape(len(blocks), 32)
    negative = sign_bits(words[..., 1:] >> _SIGN_SHIFTS)
    return GridCodes(index, _flat(negative), (words[..., 1] >> 28).astype(np.uint8))


def iq2_xs(blocks: Array) -> GridCodes:
    """Per 8: nine bits of grid index and seven of signs; a four-bit scale per 16."""
    codes = blocks["qs"]
    scales = bit_fields_in_order(blocks["scales"], 4)
    return GridCodes(codes & 511, _flat(sign_bits(codes >> 9)), scales)


def iq2_s(blocks: Array) -> GridCodes:
    """Per 8: ten bits of grid index (two of them in qh) and a byte of signs; scales as iq2_xs."""
    high = bit_fields_in_order(blocks["qh"], 2).astype(np.uint16)
    scales = bit_fields_in_order(blocks["scales"], 4)
    return GridCodes(blocks["qs"] | (high << 8), bits(blocks["signs"]), scales)


def iq3_xxs(blocks: Array) -> GridCodes:
    """Per 4: a byte of grid index; per 32 a word of four sign codes and a four-bit scale."""
    words = blocks["signs"]
    negative = sign_bits(words[..., None] >> _SIGN_SHIFTS)
    return GridCodes(blocks["qs"], _flat(negative), (words >> 28).astype(np.uint8))


def iq3_s(blocks: Array) -> GridCodes:
    """Per 4: nine bits of grid index (one in qh); a byte of signs per 8; a scale per 32."""
    high = bits(blocks["qh"]).astype(np.uint16)
    scales = bit_fields_in_order(blocks["scales"], 4)
    return GridCodes(blocks["qs"] | (high << 8), bits(blocks["signs"]), scales)


def iq1_s(blocks: Array) -> GridCodes:
    """Per 8: eleven bits of grid index; per 32 a three-bit scale and the sign of the offset."""
    words = blocks["qh"]
    high = (words[..., None] >> _THREE_BITS & 7).reshape(len(blocks), 32)
    negative = np.repeat((words >> 15).astype(np.uint8), 4, axis=1)
    scales = (words >> 12 & 7).astype(np.uint8)
    return GridCodes(blocks["qs"] | (high << 8), negative, scales)


def iq1_m(blocks: Array) -> GridCodes:
    """Grid as iq1_s; a three-bit scale per 16, the sign of the offset per 8."""
    high = bit_fields_in_order(blocks["qh"], 4)
    index = blocks["qs"] | ((high & 7).astype(np.uint16) << 8)
    scales = blocks["scales"][..., None] >> _THREE_BITS & 7
    return GridCodes(index, high >> 3, scales.astype(np.uint8).reshape(len(blocks), 16))


def iq1_m_scale(blocks: Array) -> npt.NDArray[np.float16]:
    """The block's scale, float16 [n], whose nibbles are the top ones of the four scale words."""
    nibble = blocks["scales"] >> 12
    code = nibble[:, 0] | nibble[:, 1] << 4 | nibble[:, 2] << 8 | nibble[:, 3] << 12
    values: npt.NDArray[np.float16] = code.astype(np.uint16).view(np.float16)
    return values


def two_bits(blocks: Array) -> Array:
    """Codes 0 .. 3 [n, 256] of q2_k and tq2_0, and the low bits of q3_k."""
    return bit_fields(blocks["qs"].reshape(-1, 2, 32), 2).reshape(-1, 256)


def q3_k_scales(blocks: Array) -> Array:
    """Six bits less 32, int8 [n, 16]: low four bits in bytes 0-7, high two in bytes 8-11."""
    packed = blocks["scales"]
    low = nibbles(packed[:, :8])
    high = bit_fields(packed[:, 8:], 2).reshape(len(packed), 16)
    scales: Array = (low | (high << 4)).view(np.int8) - np.int8(32)
    return scales


def q3_k(blocks: Array) -> Array:
    """Codes 0 .. 7 [n, 256]; 4 stands for the value 0."""
    codes: Array = two_bits(blocks) | (bit_fields(blocks["hmask"], 1).reshape(-1, 256) << 2)
    return codes


def iq4_xs_scales(blocks: Array) -> Array:
    """Six bits less 32, int8 [n, 8]: low four bits in order, high two in a word."""
    low = bit_fields_in_order(blocks["scales_l"], 4)
    high = blocks["scales_h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales: Array = (low | (high << 4)).astype(np.int8) - np.int8(32)
    return scales


def tq1_0(blocks: Array) -> Array:
    """Digits 0 .. 2 [n, 256]: five a byte, in the last four bytes four."""
    qs = blocks["qs"]
    parts = [_trits(qs[:, :32], 5), _trits(qs[:, 32:], 5), _trits(blocks["qh"], 4)]
    return np.concatenate(parts, axis=1)


def _trits(packed: Array, count: int) -> Array:
    """uint8 [n, m] -> [n, count * m] in 0..2: digit i of the fraction packed / 256 in base 3."""
    powers = np.array([1, 3, 9, 27, 81][:count], np.uint8)[:, None]
    shifted = (packed[:, None, :] * powers).astype(np.uint16)
    return ((shifted * 3) >> 8).astype(np.uint8).reshape(len(packed), -1)


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


GRID_CODES: dict[str, Callable[[Array], GridCodes]] = {
    "iq1_m": iq1_m,
    "iq1_s": iq1_s,
    "iq2_s": iq2_s,
    "iq2_xs": iq2_xs,
    "iq2_xxs": iq2_xxs,
    "iq3_s": iq3_s,
    "iq3_xxs": iq3_xxs,
}
