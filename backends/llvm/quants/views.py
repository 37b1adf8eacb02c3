"""Two ways to look at a unit of 16 rows: several rows side by side in lanes, or one row along k.

Formats are written once over either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I8, I16, I32, Function, Operand, Val, vec
from ggufc.backends.llvm.lowering.halves import f16_to_f32

_VECTOR_BYTES = 64


class View(Protocol):
    """Reads fields of the unit at a pointer; offsets are those of docs/architecture.md."""

    isa: Isa

    def quads(self, offset: Operand, count: int) -> list[Val]:
        """The bytes of `count` consecutive vectors of the quad rule."""

    def f16(self, offset: Operand) -> Val:
        """A float16 of each row, as float32."""

    def i8(self, offset: Operand) -> Val:
        """A byte of each row."""

    def fifth_bits(self, offset: Operand) -> tuple[list[Val], list[Val]]:
        """16 where the fifth bit is set: for four vectors' low nibbles, and for their high ones."""

    def spread(self, first: Val, second: Val) -> list[Val]:
        """Bytes of each row as 16 codes: `first` for the first eight of them, then `second`."""


def shift_bytes(codes: Val, by: int) -> Val:
    """Bytes shifted left (right where negative) in 16-bit lanes: mask what crosses over.

    One instruction, where a shift of bytes takes a mask as well.
    """
    wide = codes.bitcast(vec(I16, codes.type.lanes // 2))
    return (wide << by if by >= 0 else wide >> -by).bitcast(codes.type)


def shift_bytes_right(codes: Val, by: Val) -> Val:
    """Bytes shifted right by an i64 in 16-bit lanes: mask what crosses over."""
    wide = codes.bitcast(vec(I16, codes.type.lanes // 2))
    return (wide >> by.trunc(I16)).bitcast(codes.type)


class Rows:
    """`lanes` rows from row `first`: a quad vector has 4 * lanes bytes, a field `lanes` values."""

    def __init__(self, f: Function, isa: Isa, pointer: Val, lanes: int, first: Operand = 0) -> None:
        self._f, self.isa, self._pointer = f, isa, pointer
        self._lanes, self._first = lanes, first

    def quads(self, offset: Operand, count: int) -> list[Val]:
        type_ = vec(I8, 4 * self._lanes)
        start = self._pointer + (offset + 4 * self._first)
        return [self._f.load(start, type_, _VECTOR_BYTES * i) for i in range(count)]

    def f16(self, offset: Operand) -> Val:
        bits = self._f.load(self._pointer, vec(I16, self._lanes), offset + 2 * self._first)
        return f16_to_f32(self.isa, bits)

    def i8(self, offset: Operand) -> Val:
        return self._f.load(self._pointer, vec(I8, self._lanes), offset + self._first)

    def fifth_bits(self, offset: Operand) -> tuple[list[Val], list[Val]]:
        (bits,) = self.quads(offset, 1)
        moved = [shift_bytes(bits, 4 - i) & 16 for i in range(8)]
        return moved[:4], moved[4:]

    def spread(self, first: Val, second: Val) -> list[Val]:
        every_row = [row for row in range(self._lanes) for _ in range(4)]
        low, high = (self._f.shuffle(byte, None, every_row) for byte in (first, second))
        return [low, low, high, high]


class OneRow:
    """One row (0 .. 15): `count` vectors become the row's 4 * count bytes, a field a scalar."""

    def __init__(self, f: Function, isa: Isa, pointer: Val, row: Val) -> None:
        self._f, self.isa, self._pointer, self._row = f, isa, pointer, row

    def quads(self, offset: Operand, count: int) -> list[Val]:
        f = self._f
        start = self._pointer + self._row * 4 + offset
        words = f.poison(vec(I32, count))
        for i in range(count):
            words = words.with_lane(i, f.load(start, I32, _VECTOR_BYTES * i))
        return [words.bitcast(vec(I8, 4 * count))]

    def f16(self, offset: Operand) -> Val:
        return f16_to_f32(self.isa, self._f.load(self._pointer + self._row * 2, I16, offset))

    def i8(self, offset: Operand) -> Val:
        return self._f.load(self._pointer + self._row, I8, offset)

    def fifth_bits(self, offset: Operand) -> tuple[list[Val], list[Val]]:
        (quad,) = self.quads(offset, 1)
        repeated = self._f.shuffle(quad, None, list(range(4)) * 4)
        return [self._bits(repeated, 0)], [self._bits(repeated, 4)]

    def spread(self, first: Val, second: Val) -> list[Val]:
        return [self._f.shuffle(first.splat(8), second.splat(8), range(16))]

    def _bits(self, quads: Val, first: int) -> Val:
        shifts: Sequence[int] = [first + i // 4 for i in range(16)]
        return ((quads >> self._f.const_lanes(I8, shifts)) & 1) << 4
