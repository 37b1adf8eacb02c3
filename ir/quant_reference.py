"""The meaning of the bytes of every type in `quants.py`: decoding to float32, bit for bit.

Formulas and rounding follow ggml: products and differences in float32, in its order. Each decoder
gets an array of n blocks (the structured type of its row in the table) and returns float32
[n, block_size].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir import quant_codebooks, quant_codes
from ggufc.ir.errors import IRError
from ggufc.ir.numerics import F32Array, bf16_to_f32
from ggufc.ir.quant_fields import as_f32, bit_fields, bit_fields_in_order, bits, nibbles, scale
from ggufc.ir.quants import quant

Array = npt.NDArray[Any]
Decoder = Callable[[Array], F32Array]

IQ4_NL_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
# Twice the values of a 4-bit float (E2M1); the decoders halve the scale instead.
E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def decode(type_name: str, raw: bytes | npt.NDArray[np.uint8], shape: Sequence[int]) -> F32Array:
    """Decode packed little-endian bytes of a GGUF type (either case) to float32 of `shape`.

    The last dimension must be whole blocks and the bytes exactly those of the shape.
    """
    row = quant(type_name)
    rows, width = math.prod(shape[:-1]), shape[-1] if shape else 1
    expected = rows * row.nbytes(width)
    data = np.frombuffer(raw, np.uint8) if isinstance(raw, bytes) else raw.reshape(-1)
    if data.dtype != np.uint8 or data.size != expected:
        raise IRError(
            f"{row.name}: expected {expected} bytes for {list(shape)}, "
            f"found {data.size} of {data.dtype}"
        )
    blocks = np.ascontiguousarray(data).view(row.fields)
    with np.errstate(over="ignore", invalid="ignore"):  # hostile scales may be inf or NaN
        return _DECODERS[row.name](blocks).reshape(tuple(shape))


def _plain(blocks: Array) -> F32Array:
    return as_f32(blocks["x"])[:, None]


def _bf16(blocks: Array) -> F32Array:
    return bf16_to_f32(blocks["x"])[:, None]


def _q4_0(blocks: Array) -> F32Array:
    return (as_f32(nibbles(blocks["qs"])) - 8) * scale(blocks, "d")


def _q4_1(blocks: Array) -> F32Array:
    return as_f32(nibbles(blocks["qs"])) * scale(blocks, "d") + scale(blocks, "m")


def _five_bits(blocks: Array) -> F32Array:
    return as_f32(nibbles(blocks["qs"]) | (bits(blocks["qh"]) << 4))


def _q5_0(blocks: Array) -> F32Array:
    return (_five_bits(blocks) - 16) * scale(blocks, "d")


def _q5_1(blocks: Array) -> F32Array:
    return _five_bits(blocks) * scale(blocks, "d") + scale(blocks, "m")


def _q8_0(blocks: Array) -> F32Array:
    return as_f32(blocks["qs"]) * scale(blocks, "d")


def _q2_k(blocks: Array) -> F32Array:
    n = len(blocks)
    scales = blocks["scales"]
    factors = scale(blocks, "d") * as_f32(scales & 15)
    offsets = scale(blocks, "dmin") * as_f32(scales >> 4)
    q = quant_codes.two_bits(blocks).reshape(n, 16, 16)
    return (factors[..., None] * as_f32(q) - offsets[..., None]).reshape(n, 256)


def _q3_k(blocks: Array) -> F32Array:
    n = len(blocks)
    factors = scale(blocks, "d") * as_f32(quant_codes.q3_k_scales(blocks))
    q = as_f32(quant_codes.q3_k(blocks)).reshape(n, 16, 16) - 4
    return (factors[..., None] * q).reshape(n, 256)


def k_scales(packed: Array) -> tuple[Array, Array]:
    """12 bytes -> 8 scales and 8 minima of six bits (Q4_K and Q5_K), uint8 [n, 8] each."""
    low_scales, low_minima, mixed = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    high_scales = (mixed & 15) | ((low_scales >> 6) << 4)
    high_minima = (mixed >> 4) | ((low_minima >> 6) << 4)
    scales = np.concatenate([low_scales & 63, high_scales], axis=1)
    return scales, np.concatenate([low_minima & 63, high_minima], axis=1)


def _scaled_k(blocks: Array, q: Array) -> F32Array:
    """q [n, 8, 32] times each sub-block's scale less its minimum."""
    scales, minima = k_scales(blocks["scales"])
    factors = scale(blocks, "d") * as_f32(scales)
    offsets = scale(blocks, "dmin") * as_f32(minima)
    values = factors[..., None] * as_f32(q) - offsets[..., None]
    return values.reshape(len(blocks), 256)


def _q4_k(blocks: Array) -> F32Array:
    q = bit_fields(blocks["qs"].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)
    return _scaled_k(blocks, q)


def _q5_k(blocks: Array) -> F32Array:
    low = bit_fields(blocks["qs"].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)
    return _scaled_k(blocks, low | (bit_fields(blocks["qh"], 1) << 4))


def _q6_k(blocks: Array) -> F32Array:
    n = len(blocks)
    low = bit_fields(blocks["ql"].reshape(n, 2, 64), 4).reshape(n, 16, 16)
    high = bit_fields(blocks["qh"].reshape(n, 2, 32), 2).reshape(n, 16, 16)
    q = as_f32(low | (high << 4)) - 32
    factors = scale(blocks, "d") * as_f32(blocks["scales"])
    return (factors[..., None] * q).reshape(n, 256)


def _tq1_0(blocks: Array) -> F32Array:
    return (as_f32(quant_codes.tq1_0(blocks)) - 1) * scale(blocks, "d")


def _tq2_0(blocks: Array) -> F32Array:
    return (as_f32(quant_codes.two_bits(blocks)) - 1) * scale(blocks, "d")


def e8m0_halved(codes: Array) -> F32Array:
    """Half of each E8M0 value: 2^(code - 128)."""
    values: F32Array = np.ldexp(np.float32(1), codes.astype(np.int32) - 128).astype(np.float32)
    return values


def _mxfp4(blocks: Array) -> F32Array:
    return E2M1_DOUBLED[nibbles(blocks["qs"])] * e8m0_halved(blocks["e"])[:, None]


def e4m3_halved(codes: Array) -> F32Array:
    """Half of each unsigned E4M3 value; 0x7f, which is NaN in the format, counts as 0."""
    exponent, mantissa = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float32)
    normal = np.ldexp(1 + mantissa / 8, exponent - 8)
    values = np.where(exponent == 0, np.ldexp(mantissa, -10), normal)
    return np.where(codes == 0x7F, 0, values).astype(np.float32)


def _nvfp4(blocks: Array) -> F32Array:
    q = E2M1_DOUBLED[nibbles(blocks["qs"].reshape(-1, 4, 8))]
    return (q * e4m3_halved(blocks["d"])[..., None]).reshape(-1, 64)


def _q1_0(blocks: Array) -> F32Array:
    d = scale(blocks, "d")
    return np.where(bits(blocks["qs"]) == 1, d, -d)


def _q2_0(blocks: Array) -> F32Array:
    q = bit_fields_in_order(blocks["qs"], 2)
    return (as_f32(q) - 1) * scale(blocks, "d")


def _iq4_nl(blocks: Array) -> F32Array:
    return IQ4_NL_VALUES[nibbles(blocks["qs"])] * scale(blocks, "d")


def _iq4_xs(blocks: Array) -> F32Array:
    n = len(blocks)
    factors = scale(blocks, "d") * as_f32(quant_codes.iq4_xs_scales(blocks))
    q = IQ4_NL_VALUES[nibbles(blocks["qs"].reshape(n, 8, 16))]
    return (factors[..., None] * q).reshape(n, 256)


_DECODERS: dict[str, Decoder] = {
    "f32": _plain,
    "f16": _plain,
    "bf16": _bf16,
    "f64": _plain,
    "i8": _plain,
    "i16": _plain,
    "i32": _plain,
    "i64": _plain,
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "tq1_0": _tq1_0,
    "tq2_0": _tq2_0,
    "mxfp4": _mxfp4,
    "nvfp4": _nvfp4,
    "q1_0": _q1_0,
    "q2_0": _q2_0,
    "iq4_nl": _iq4_nl,
    "iq4_xs": _iq4_xs,
    **quant_codebooks.DECODERS,
}
