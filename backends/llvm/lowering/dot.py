"""The product of weight codes (unsigned bytes) with an activation's int8 bytes, block by block.

A block is 16 or 32 consecutive k of `lanes` rows. Its codes come as quads: vector i holds, for
every row, the four codes k = 4 i .. 4 i + 3 in one 32-bit lane. The total is the sum over k of
(code - zero) * x in i32, the same on every instruction set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I1, I8, I16, I32, Function, Val, vec

_MAX_X = 127
_MAX_I16 = 32767


@dataclass(frozen=True)
class CodeType:
    """Codes of `bits` bits, of which `zero` (0, or half the range) stands for the value 0."""

    bits: int
    zero: int

    @property
    def largest(self) -> int:
        """The largest code."""
        return (1 << self.bits) - 1

    @property
    def largest_signed(self) -> int:
        """The largest magnitude of code - zero."""
        return max(self.zero, self.largest - self.zero)


class BlockDot(Protocol):
    """The running total of one block and one token."""

    def add(self, i: int, codes: Val) -> None:
        """Add quad i; `codes` as `prepare_codes` gives them."""

    def total(self) -> Val:
        """The sum, <lanes x i32>."""


def _signed(isa: Isa, codes: CodeType) -> bool:
    """Whether codes lose their zero point before they are multiplied: sums need no correction."""
    if isa.dot in ("vnni512", "avx2"):
        return isa.dot == "avx2" and codes.bits == 8
    return isa.machine != "x86_64" or codes.bits == 8


def prepare_codes(isa: Isa, values: Val, codes: CodeType) -> Val:
    """Codes in the form that this instruction set multiplies, shared by all tokens."""
    if not codes.zero or not _signed(isa, codes):
        return values
    return values ^ 0x80 if codes.zero == 128 else values - codes.zero


def block_dot(
    f: Function, isa: Isa, lanes: int, x: Val, negative_sum: Val | None, codes: CodeType
) -> BlockDot:
    """Start a block: `x` points to its int8 bytes; `negative_sum` is the i32 -sum(x) of all of it,
    None where another run of products takes it into account."""
    signed = _signed(isa, codes)
    bias = f.const(vec(I32, lanes), 0)
    if codes.zero and not signed and negative_sum is not None:
        bias = negative_sum.splat(lanes) << (codes.zero.bit_length() - 1)
    if isa.dot == "vnni512":
        return _Vnni(f, x, bias)
    if isa.dot == "sdot":
        return _Sdot(f, lanes, x)
    largest = codes.largest_signed if signed else codes.largest
    if isa.dot == "avx2":
        return (_SignedAvx2 if signed else _Avx2)(f, x, bias, largest)
    return _Generic(f, x, bias, largest, signed)


def _quad(f: Function, x: Val, i: int, lanes: int) -> Val:
    """Bytes 4 i .. 4 i + 3 of x, repeated for every row."""
    word = f.load(x, I32, 4 * i, align=4)
    return word.splat(lanes).bitcast(vec(I8, 4 * lanes))


class _Vnni:
    """AVX-512 VNNI: one instruction a quad, with the quad broadcast from memory."""

    def __init__(self, f: Function, x: Val, bias: Val) -> None:
        self._f, self._x, self._sum = f, x, bias

    def add(self, i: int, codes: Val) -> None:
        lanes = self._sum.type.lanes
        args = [self._sum, codes, _quad(self._f, self._x, i, lanes)]
        name = f"x86.avx512.vpdpbusd.{32 * lanes}"
        self._sum = self._f.intrinsic(name, self._sum.type, args)

    def total(self) -> Val:
        return self._sum


class _Narrow(ABC):
    """Sums of products in i16, widened to i32 before they can overflow; `limit` products fit."""

    def __init__(self, f: Function, x: Val, bias: Val, limit: int) -> None:
        self._f, self._x, self._total, self._limit = f, x, bias, limit
        self._narrow: list[Val] = []

    def _accumulate(self, products: Val) -> None:
        if len(self._narrow) == self._limit:
            self._flush()
        total = self._narrow[-1] + products if self._narrow else products
        self._narrow.append(total)

    def _flush(self) -> None:
        self._total = self._total + self._widen(self._narrow[-1])
        self._narrow = []

    def total(self) -> Val:
        self._flush()
        return self._total

    @abstractmethod
    def _widen(self, narrow: Val) -> Val:
        """Sums in i16 as sums of each row in i32."""


class _Avx2(_Narrow):
    """AVX2: pairs of products in i16, which cannot saturate where codes are at most 127."""

    def __init__(self, f: Function, x: Val, bias: Val, largest: int) -> None:
        super().__init__(f, x, bias, _MAX_I16 // (2 * _MAX_X * largest))

    def add(self, i: int, codes: Val) -> None:
        self._multiply(codes, _quad(self._f, self._x, i, 8))

    def _multiply(self, unsigned: Val, signed: Val) -> None:
        args = [unsigned, signed]
        self._accumulate(self._f.intrinsic("x86.avx2.pmadd.ub.sw", vec(I16, 16), args))

    def _widen(self, narrow: Val) -> Val:
        args = [narrow, self._f.const(narrow.type, 1)]
        return self._f.intrinsic("x86.avx2.pmadd.wd", vec(I32, 8), args)


class _SignedAvx2(_Avx2):
    """AVX2, signed codes: |code| times x with the code's sign."""

    def add(self, i: int, codes: Val) -> None:
        f, x = self._f, _quad(self._f, self._x, i, 8)
        magnitude = f.intrinsic("abs", codes.type, [codes, f.const(I1, 0)], (codes.type,))
        self._multiply(magnitude, f.intrinsic("x86.avx2.psign.b", codes.type, [x, codes]))


class _Sdot:
    """NEON dot product: four rows a register, the quad picked by lane of a register of 16 bytes."""

    def __init__(self, f: Function, lanes: int, x: Val) -> None:
        self._f, self._x = f, x
        self._sums = [f.const(vec(I32, 4), 0) for _ in range(lanes // 4)]
        self._bytes: dict[int, Val] = {}

    def _lane(self, i: int) -> Val:
        if i // 4 not in self._bytes:
            self._bytes[i // 4] = self._f.load(self._x, vec(I32, 4), 16 * (i // 4))
        picked = self._f.shuffle(self._bytes[i // 4], None, [i % 4] * 4)
        return picked.bitcast(vec(I8, 16))

    def add(self, i: int, codes: Val) -> None:
        f, quad = self._f, self._lane(i)
        for part, total in enumerate(self._sums):
            rows = f.shuffle(codes, None, range(16 * part, 16 * part + 16))
            overload = (total.type, rows.type)
            args = [total, rows, quad]
            self._sums[part] = f.intrinsic("aarch64.neon.sdot", total.type, args, overload)

    def total(self) -> Val:
        parts = self._sums
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._f.shuffle(a, b, range(2 * a.type.lanes)) for a, b in pairs]
        return parts[0]


class _Generic(_Narrow):
    """Plain vector arithmetic: every product fits 16 bits."""

    def __init__(self, f: Function, x: Val, bias: Val, largest: int, signed: bool) -> None:
        super().__init__(f, x, bias, _MAX_I16 // (_MAX_X * largest))
        self._signed = signed

    def add(self, i: int, codes: Val) -> None:
        f = self._f
        quad = f.load(self._x, vec(I8, 4), 4 * i, align=4).sext(I16)
        repeated = f.shuffle(quad, None, list(range(4)) * (codes.type.lanes // 4))
        self._accumulate((codes.sext(I16) if self._signed else codes.zext(I16)) * repeated)

    def _widen(self, narrow: Val) -> Val:
        return self._pairs(self._pairs(narrow.sext(I32)))

    def _pairs(self, x: Val) -> Val:
        """Sums of neighbours."""
        even, odd = (self._f.shuffle(x, None, range(i, x.type.lanes, 2)) for i in (0, 1))
        return even + odd
