"""Products of rows with the vectors of a cache, in the arithmetic that cache and target allow.

A *step* is one 64-byte vector of a cache: 16 lanes of P elements each. It is multiplied with P
numbers of a row, the *factors*, and added to 16 float32 sums. Where the target multiplies pairs of
bf16 directly the factors are bf16 and a step is one instruction; elsewhere the vector is widened
to P float32 vectors, which pays because each of them serves many rows.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import (
    BF16,
    F32,
    I16,
    I32,
    Function,
    Val,
    vec,
)
from ggufc.backends.llvm.lowering import f16_to_f32
from ggufc.backends.llvm.lowering.halves import rounded_to_bf16
from ggufc.backends.llvm.states import LANES, CacheLayout
from ggufc.backends.llvm.vector_math import EXP2, EXP2_SHORT, muladd

SUMS = vec(F32, LANES)
SUM_BYTES = SUMS.nbytes
_WORDS = vec(I32, LANES)
_PAIRS = vec(BF16, 2 * LANES)


class Operands:
    """How vectors of one cache enter products, and how rows must be stored to meet them."""

    def __init__(self, f: Function, isa: Isa, layout: CacheLayout, bf16_factors: bool) -> None:
        self.f, self.isa, self.layout, self.bf16_factors = f, isa, layout, bf16_factors
        self.pair = layout.pair

    @property
    def factor_bytes(self) -> int:
        """Bytes of a factor."""
        return 2 if self.bf16_factors else 4

    @property
    def step_factor_bytes(self) -> int:
        """Bytes of the factors of one step."""
        return self.factor_bytes * self.pair

    @property
    def exp2_coefficients(self) -> tuple[float, ...]:
        """A polynomial as exact as factors of this type deserve."""
        return EXP2_SHORT if self.bf16_factors else EXP2

    def step(self, pointer: Val, offset: int = 0, *, first_only: bool = False) -> list[Val]:
        """The operands of the vector at pointer + offset.

        With `first_only` the second elements may be memory that nobody wrote: they become 0.
        """
        if self.pair == 1:
            return [self.f.load(pointer, SUMS, offset)]
        words = self.f.load(pointer, _WORDS, offset)
        if first_only:
            words = words & 0xFFFF
        if self.bf16_factors:
            return [words.bitcast(_PAIRS)]
        if self.layout.element.name == "bf16":
            return [(words << 16).bitcast(SUMS), (words & 0xFFFF0000 - (1 << 32)).bitcast(SUMS)]
        return [f16_to_f32(self.isa, half.trunc(I16)) for half in (words, words >> 16)]

    def factors(self, pointer: Val, offset: int) -> list[Val]:
        """The factors of a step, each in every lane."""
        if self.bf16_factors:
            return [self.f.load(pointer, I32, offset, align=4).splat(LANES).bitcast(_PAIRS)]
        return [self.f.load(pointer, F32, offset + 4 * i).splat(LANES) for i in range(self.pair)]

    def multiply_add(self, sums: Val, operand: Val, factor: Val) -> Val:
        """sums + operand * factor, lane by lane."""
        if not self.bf16_factors:
            return muladd(operand, factor, sums)
        name = "x86.avx512bf16.dpbf16ps.512"
        return self.f.intrinsic(name, SUMS, (sums, operand, factor))

    def store_factors(self, row: Val, pointer: Val, offset: int = 0) -> None:
        """Store float32 lanes of a row as factors."""
        stored = rounded_to_bf16(self.isa, row) if self.bf16_factors else row
        self.f.store(stored, pointer, offset)
