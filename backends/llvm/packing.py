"""From blocks as GGUF stores them to packed units, in NumPy: one function for each element type.

Every packer takes blocks [groups, 16, units, blocks of a unit] and fills units [groups, units,
unit_bytes].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm import packing_codes
from ggufc.backends.llvm.packing_fields import f16, put, quads

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Packer = Callable[[npt.NDArray[np.void], Bytes], None]


def _fifth_bits_table() -> npt.NDArray[np.uint32]:
    """[4, 256]: what byte c of 32 fifth bits contributes to the word of a row (see `r16.q5_0`)."""
    table = np.zeros((4, 256), np.uint32)
    for k in range(32):
        half, i, j = k // 16, k % 16 // 4, k % 4
        target = np.uint32(1 << (8 * j + 4 * half + i))
        has = (np.arange(256) >> (k % 8)) & 1
        table[k // 8] |= np.where(has, target, np.uint32(0))
    return table


_FIFTH = _fifth_bits_table()


def _fifth_bits(qh: Array) -> Array:
    """Bit k of four bytes [..., 4] moved to where the quads of a row want it: words [...]."""
    words: Array = _FIFTH[0][qh[..., 0]]
    for byte in range(1, 4):
        words |= _FIFTH[byte][qh[..., byte]]
    return words


def _pack_nibbles(
    blocks: npt.NDArray[np.void], units: Bytes, *, fifth: bool, minimum: bool
) -> None:
    put(units, 0, quads(blocks["qs"]))
    offset = 512
    if fifth:
        put(units, offset, _fifth_bits(blocks["qh"]))
        offset += 128
    put(units, offset, f16(blocks["d"]))
    if minimum:
        put(units, offset + 64, f16(blocks["m"]))


def pack_q4_0(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """Nibbles keep their order: a file's block pairs k with k + 16 as the layout does."""
    _pack_nibbles(blocks, units, fifth=False, minimum=False)


def pack_q4_1(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """As q4_0, with minima."""
    _pack_nibbles(blocks, units, fifth=False, minimum=True)


def pack_q5_0(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """As q4_0, with fifth bits."""
    _pack_nibbles(blocks, units, fifth=True, minimum=False)


def pack_q5_1(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """As q5_0, with minima."""
    _pack_nibbles(blocks, units, fifth=True, minimum=True)


def pack_q8_0(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """Signed bytes become unsigned with a zero point of 128."""
    codes = np.ascontiguousarray(blocks["qs"]).view(np.uint8) ^ np.uint8(0x80)
    put(units, 0, quads(codes))
    put(units, 1024, f16(blocks["d"]))


def _scales_and_mins(packed: Array) -> tuple[Array, Array]:
    """The eight 6-bit scales and eight 6-bit minima in 12 bytes [..., 12]."""
    low, mid, high = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1)
    minima = np.concatenate([mid & 63, (high >> 4) | ((mid >> 6) << 4)], axis=-1)
    return scales, minima


def _nibbles_by_sub_block(qs: Array) -> Array:
    """K-quant nibbles [..., 128] (32 bytes hold two sub-blocks) as [..., 8, 16] in q4_0's order."""
    chunks = np.ascontiguousarray(qs).reshape(*qs.shape[:-1], 4, 2, 16)
    first, second = chunks[..., 0, :], chunks[..., 1, :]
    low = (first & 15) | (second << 4)
    high = (first >> 4) | (second & 0xF0)
    return np.stack([low, high], axis=-2).reshape(*qs.shape[:-1], 8, 16)


def _fifth_bits_by_sub_block(qh: Array) -> Array:
    """Fifth bits [..., 32], bit s of byte l for element l of sub-block s, as words [..., 8]."""
    bits = np.unpackbits(np.ascontiguousarray(qh)[..., None], axis=-1, bitorder="little")
    by_sub_block = np.moveaxis(bits, -1, -2)
    return _fifth_bits(np.packbits(by_sub_block, axis=-1, bitorder="little"))


def pack_q4_k(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """Six-bit scales and minima widen to bytes."""
    scales, minima = _scales_and_mins(blocks["scales"])
    put(units, 0, f16(blocks["d"]))
    put(units, 32, f16(blocks["dmin"]))
    put(units, 64, scales)
    put(units, 192, minima)
    put(units, 320, quads(_nibbles_by_sub_block(blocks["qs"])))


def pack_q5_k(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """As q4_k, with fifth bits."""
    pack_q4_k(blocks, units)
    put(units, 2368, _fifth_bits_by_sub_block(blocks["qh"]))


def pack_q6_k(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """A file's 128 elements are four runs of 32; here 64 elements are four runs of 16."""
    ql = np.ascontiguousarray(blocks["ql"]).reshape(*blocks.shape, 2, 64)
    qh = np.ascontiguousarray(blocks["qh"]).reshape(*blocks.shape, 2, 1, 32)
    low = np.concatenate([ql & 15, ql >> 4], axis=-1).reshape(*blocks.shape, 4, 2, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = ((qh >> shifts) & 3).reshape(*blocks.shape, 4, 4, 16)
    packed_low = low[..., 0, :] | (low[..., 1, :] << 4)
    packed_high = np.bitwise_or.reduce(high << shifts, axis=-2)
    units[..., 32:64] = 0
    put(units, 0, f16(blocks["d"]))
    put(units, 64, blocks["scales"])
    put(units, 320, quads(packed_low))
    put(units, 2368, quads(packed_high))


def pack_f32(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """Transposed groups of 16 rows."""
    put(units, 0, blocks["x"])


def pack_16_bit(blocks: npt.NDArray[np.void], units: Bytes) -> None:
    """Pairs of consecutive k side by side."""
    put(units, 0, np.ascontiguousarray(blocks["x"]).view("<u4"))


PACKERS: dict[str, Packer] = {
    "q4_0": pack_q4_0,
    "q4_1": pack_q4_1,
    "q5_0": pack_q5_0,
    "q5_1": pack_q5_1,
    "q8_0": pack_q8_0,
    "q4_k": pack_q4_k,
    "q5_k": pack_q5_k,
    "q6_k": pack_q6_k,
    "f32": pack_f32,
    "f16": pack_16_bit,
    "bf16": pack_16_bit,
    **packing_codes.PACKERS,
}
