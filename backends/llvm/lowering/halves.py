"""Conversions between float32 and the 16-bit floats, on scalars or vectors, without library calls.

Sixteen-bit values are held as their bits (i16), since LLVM may call a library for operations on
`half` and `bfloat`.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import BF16, F16, F32, I16, I32, Type, Val

_INFINITY = 0x7F800000
_QUIET_F16 = 0x7E00
_LANES = 16


def _like(element: Type, x: Val) -> Type:
    return Type(element.scalar, element.bits, x.type.lanes)


def bf16_to_f32(bits: Val) -> Val:
    """The float32 values of bf16 bits, exactly."""
    return (bits.zext(I32) << 16).bitcast(_like(F32, bits))


def f32_to_bf16(x: Val) -> Val:
    """bf16 bits, rounded to nearest even; NaN stays a quiet NaN."""
    f, bits = x.f, x.bitcast(_like(I32, x))
    high = bits >> 16
    rounded = (bits + 0x7FFF + (high & 1)) >> 16
    return f.select(x.ne(x), high | 0x40, rounded).trunc(I16)


def rounded_to_bf16(isa: Isa, x: Val) -> Val:
    """As `f32_to_bf16`, of 16 lanes by one instruction where there is one, which takes denormals
    for zero as products of bf16 do."""
    if not isa.has_bf16_dot or x.type.lanes != _LANES:
        return f32_to_bf16(x)
    found = x.f.intrinsic("x86.avx512bf16.cvtneps2bf16.512", _like(BF16, x), [x])
    return found.bitcast(_like(I16, x))


def f16_to_f32(isa: Isa, bits: Val) -> Val:
    """The float32 values of f16 bits, exactly."""
    if isa.has_f16:
        return bits.bitcast(_like(F16, bits)).fpext(F32)
    f, wide = bits.f, bits.zext(I32)
    magnitude = wide & 0x7FFF
    # Shifted into place the exponent is 112 too small; the product also normalises denormals.
    scaled = (magnitude << 13).bitcast(_like(F32, bits)) * 2.0**112
    special = f.select(magnitude > 0x7BFF, f.const(wide.type, _INFINITY), f.const(wide.type, 0))
    sign = (wide & 0x8000) << 16
    return (scaled.bitcast(wide.type) | special | sign).bitcast(_like(F32, bits))


def f32_to_f16(isa: Isa, x: Val) -> Val:
    """f16 bits, rounded to nearest even; what is too large becomes infinity, NaN a quiet NaN."""
    if isa.has_f16:
        return x.fptrunc(F16).bitcast(_like(I16, x))
    f, bits = x.f, x.bitcast(_like(I32, x))
    magnitude = bits & 0x7FFFFFFF
    odd = (magnitude >> 13) & 1
    normal = (magnitude - (112 << 23) + 0xFFF + odd) >> 13
    # Adding 1/2 leaves the denormal's bits, rounded, at the bottom of the sum.
    denormal = (magnitude.bitcast(x.type) + 0.5).bitcast(bits.type) - 0x3F000000
    result = f.select(magnitude < 0x38800000, denormal, normal)
    special = f.select(
        magnitude > _INFINITY, f.const(bits.type, _QUIET_F16), f.const(bits.type, 0x7C00)
    )
    result = f.select(magnitude > 0x477FFFFF, special, result)
    return (result | ((bits >> 16) & 0x8000)).trunc(I16)
