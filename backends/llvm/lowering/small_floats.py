"""Eight-bit scales as float32, on scalars or vectors of their bits (i8)."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I16, I32, Type, Val
from ggufc.backends.llvm.lowering.halves import f16_to_f32


def e8m0_halved_to_f32(codes: Val) -> Val:
    """Half of each E8M0 value, 2^(code - 128), exactly; the two smallest are denormal."""
    wide = codes.zext(I32)
    denormal = wide.f.const(wide.type, 1 << 21) << (wide & 1)
    bits = wide.f.select(wide < 2, denormal, (wide - 1) << 23)
    return bits.bitcast(Type(F32.scalar, F32.bits, codes.type.lanes))


def e4m3_halved_to_f32(isa: Isa, codes: Val) -> Val:
    """Half of each E4M3 value (positive and finite), exactly: float16 has the same mantissa."""
    return f16_to_f32(isa, codes.zext(I16) << 7) * 128.0
