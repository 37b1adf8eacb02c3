"""Unpacking helpers shared by the decoders: scales, nibbles, bit fields and signs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir.numerics import F32Array

Array = npt.NDArray[Any]


def as_f32(values: Array) -> F32Array:
    """The same numbers as float32."""
    out: F32Array = values.astype(np.float32)
    return out


def scale(blocks: Array, field: str) -> F32Array:
    """A float16 field as float32 [n, 1]."""
    return as_f32(blocks[field])[:, None]


def nibbles(qs: Array) -> Array:
    """uint8 [..., m] -> [..., 2 m]: all low nibbles, then all high ones."""
    return np.concatenate([qs & 15, qs >> 4], axis=-1)


def bit_fields(qs: Array, width: int) -> Array:
    """uint8 [..., m] -> [..., 8 / width, m]: first the lowest `width` bits of all m, and so on."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return (qs[..., None, :] >> shifts) & np.uint8((1 << width) - 1)


def bit_fields_in_order(qs: Array, width: int) -> Array:
    """uint8 [n, m] -> [n, m * 8 / width]: the fields of the first byte, lowest first, and so on."""
    return bit_fields(qs, width).swapaxes(-1, -2).reshape(len(qs), -1)


def bits(packed: Array) -> Array:
    """uint8 [..., m] -> [..., 8 m] of 0 and 1, lowest bit of the first byte first."""
    return np.unpackbits(packed, axis=-1, bitorder="little")


def sign_bits(index: Array) -> Array:
    """Seven-bit sign codes [...] -> 0 and 1 [..., 8]; the eighth makes the number of ones even."""
    low = (index & 127).astype(np.uint8)
    parity = bits(low[..., None]).sum(axis=-1, dtype=np.uint8) & 1
    return bits((low | (parity << 7))[..., None])
