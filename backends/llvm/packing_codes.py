"""Packers of the types with codes of 1 to 3 bits, and of those whose codes index a codebook.

As in `packing.py`: blocks [groups, 16, units, blocks of a unit] fill units [groups, units,
unit_bytes]. Several types may share a layout where the values stay the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.packing_fields import f16, put, quads
from ggufc.ir import quant_codes
from ggufc.ir.quant_codes import GRID_CODES
from ggufc.ir.quant_fields import bit_fields_in_order, bits
from ggufc.ir.quant_grids import GRIDS

Array = npt.NDArray[Any]
Blocks = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]


def _by_unit(blocks: Blocks, of_blocks: Array) -> Array:
    """What n blocks have each, [n, m], as [groups, 16, units, all of a unit]."""
    return of_blocks.reshape(*blocks.shape[:3], -1)


def _fields(codes: Array, width: int) -> Array:
    """Codes [..., k] of `width` bits as words [..., k / (128 / width), 4].

    A byte holds the codes of the same place in consecutive runs of 16 k, the first lowest.
    """
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    runs = codes.reshape(*codes.shape[:-1], -1, 8 // width, 16)
    return quads(np.bitwise_or.reduce(runs << shifts, axis=-2))


def pack_q2_k(blocks: Blocks, units: Bytes) -> None:
    """Scale and minimum stay in one byte."""
    put(units, 0, f16(blocks["d"]))
    put(units, 32, f16(blocks["dmin"]))
    put(units, 64, blocks["scales"])
    put(units, 320, _fields(_by_unit(blocks, quant_codes.two_bits(blocks.reshape(-1))), 2))


def _pack_three_bits(units: Bytes, d: Array, scales: Array, codes: Array) -> None:
    """The bytes of `r16.q3_k`; `scales` has one for each 16 k."""
    units[..., 32:64] = 0
    put(units, 0, f16(d))
    put(units, 64, scales)
    put(units, 320, _fields(codes & 3, 2))
    put(units, 1344, _fields(codes >> 2, 1))


def pack_q3_k(blocks: Blocks, units: Bytes) -> None:
    """Six-bit scales widen to bytes."""
    flat = blocks.reshape(-1)
    scales, codes = quant_codes.q3_k_scales(flat), quant_codes.q3_k(flat)
    _pack_three_bits(units, blocks["d"], _by_unit(blocks, scales), _by_unit(blocks, codes))


def _levels(name: str) -> npt.NDArray[np.uint8]:
    """A grid's vectors with the numbers of their levels, smallest 0, in place of the levels."""
    grid = GRIDS[name]
    return np.searchsorted(np.unique(grid), grid).astype(np.uint8)


def _signed_levels(name: str, sign: int) -> Callable[[Blocks], tuple[Array, Array]]:
    """(scales 2 s + 1, codes) of blocks of a grid type; bit `sign` of a code is its sign."""
    levels = _levels(name)

    def read(blocks: Blocks) -> tuple[Array, Array]:
        grid = GRID_CODES[name](blocks.reshape(-1))
        codes = levels[grid.index].reshape(grid.negative.shape) | (grid.negative << sign)
        return _by_unit(blocks, 2 * grid.scales + 1), _by_unit(blocks, codes)

    return read


def _iq2_packer(name: str) -> Callable[[Blocks, Bytes], None]:
    read = _signed_levels(name, 2)

    def pack(blocks: Blocks, units: Bytes) -> None:
        scales, codes = read(blocks)
        repeated = np.repeat(scales, 16 // scales.shape[-1], axis=-1)
        _pack_three_bits(units, blocks["d"], repeated, codes)

    return pack


def _iq3_packer(name: str) -> Callable[[Blocks, Bytes], None]:
    read = _signed_levels(name, 3)

    def pack(blocks: Blocks, units: Bytes) -> None:
        scales, codes = read(blocks)
        halves = codes.reshape(*codes.shape[:-1], 8, 2, 16)
        _pack_four_bits(units, blocks["d"], scales, halves[..., 0, :] | (halves[..., 1, :] << 4))

    return pack


def _iq1_packer(name: str, d: Callable[[Blocks], Array]) -> Callable[[Blocks, Bytes], None]:
    """The scale's byte also has the signs of its two vectors' offsets."""
    levels = _levels("iq1_s")

    def pack(blocks: Blocks, units: Bytes) -> None:
        flat = blocks.reshape(-1)
        grid = GRID_CODES[name](flat)
        scales = np.repeat(2 * grid.scales + 1, 16 // grid.scales.shape[1], axis=1)
        signs = grid.negative[:, 0::2] << 4 | grid.negative[:, 1::2] << 5
        units[..., 32:64] = 0
        put(units, 0, f16(d(flat).reshape(blocks.shape)))
        put(units, 64, _by_unit(blocks, scales | signs))
        put(units, 320, _fields(_by_unit(blocks, levels[grid.index]), 2))

    return pack


def _pack_four_bits(units: Bytes, d: Array, scales: Array, qs: Array) -> None:
    """The bytes of `r16.iq4_xs`; `qs` [..., 8, 16] in q4_0's order."""
    units[..., 32:64] = 0
    put(units, 0, f16(d))
    put(units, 64, scales)
    put(units, 192, quads(qs))


def pack_iq4_xs(blocks: Blocks, units: Bytes) -> None:
    """Six-bit scales widen to bytes."""
    scales = quant_codes.iq4_xs_scales(blocks.reshape(-1))
    qs = blocks["qs"].reshape(*blocks.shape, 8, 16)
    _pack_four_bits(units, blocks["d"], _by_unit(blocks, scales), qs)


def pack_iq4_nl(blocks: Blocks, units: Bytes) -> None:
    """As q4_0."""
    put(units, 0, quads(blocks["qs"]))
    put(units, 512, f16(blocks["d"]))


def pack_mxfp4(blocks: Blocks, units: Bytes) -> None:
    """As q4_0, with exponents."""
    put(units, 0, quads(blocks["qs"]))
    put(units, 512, blocks["e"])


def pack_nvfp4(blocks: Blocks, units: Bytes) -> None:
    """Two sub-blocks of 16 become the low and the high nibbles; a scale that is NaN becomes 0."""
    qs = np.ascontiguousarray(blocks["qs"]).reshape(*blocks.shape, 2, 2, 8)
    low = np.concatenate([qs & 15, qs >> 4], axis=-1)
    put(units, 0, quads(low[..., 0, :] | (low[..., 1, :] << 4)))
    scales = np.where(blocks["d"] == 0x7F, 0, blocks["d"] & 0x7F).astype(np.uint8)
    put(units, 512, scales)


def _pack_two_bits(units: Bytes, d: Array, codes: Array) -> None:
    """Codes, then one scale a unit."""
    words = _fields(codes, 2)
    put(units, 0, words)
    put(units, 256 * words.shape[-2], f16(d))


def pack_tq2_0(blocks: Blocks, units: Bytes) -> None:
    """Runs of 32 become runs of 16."""
    codes = quant_codes.two_bits(blocks.reshape(-1))
    _pack_two_bits(units, blocks["d"], _by_unit(blocks, codes))


def pack_tq1_0(blocks: Blocks, units: Bytes) -> None:
    """Digits become two-bit codes of the same values."""
    codes = quant_codes.tq1_0(blocks.reshape(-1))
    _pack_two_bits(units, blocks["d"], _by_unit(blocks, codes))


def pack_q2_0(blocks: Blocks, units: Bytes) -> None:
    """Codes in order become runs of 16."""
    codes = bit_fields_in_order(blocks["qs"].reshape(-1, 16), 2)
    _pack_two_bits(units, blocks["d"], _by_unit(blocks, codes))


def pack_q1_0(blocks: Blocks, units: Bytes) -> None:
    """Bits in order become runs of 16."""
    put(units, 0, _fields(_by_unit(blocks, bits(blocks["qs"])), 1))
    put(units, 256, f16(blocks["d"]))


PACKERS: dict[str, Callable[[Blocks, Bytes], None]] = {
    "q2_k": pack_q2_k,
    "q3_k": pack_q3_k,
    "iq1_s": _iq1_packer("iq1_s", lambda blocks: blocks["d"]),
    "iq1_m": _iq1_packer("iq1_m", quant_codes.iq1_m_scale),
    "iq2_xxs": _iq2_packer("iq2_xxs"),
    "iq2_xs": _iq2_packer("iq2_xs"),
    "iq2_s": _iq2_packer("iq2_s"),
    "iq3_xxs": _iq3_packer("iq3_xxs"),
    "iq3_s": _iq3_packer("iq3_s"),
    "iq4_nl": pack_iq4_nl,
    "iq4_xs": pack_iq4_xs,
    "tq1_0": pack_tq1_0,
    "tq2_0": pack_tq2_0,
    "mxfp4": pack_mxfp4,
    "nvfp4": pack_nvfp4,
    "q1_0": pack_q1_0,
    "q2_0": pack_q2_0,
}
