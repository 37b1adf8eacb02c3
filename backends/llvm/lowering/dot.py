"""The product of 16-row weight codes (unsigned bytes) with an activation's int8 bytes, per block.

A block is 16 or 32 consecutive k of `lanes` rows. Its codes come as quads: vector i holds, for every row, the
four codes k = 4 i .. 4 i + 3 in one 32-bit lane. The total is the sum over k of (code - zero) * x in i32, the same on
every instruction set.
"""

from __future__ import annotations

from typing import Protocol

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I1, I8, I16, I32, Function, Val, vec

_MAX_X = 127
_MAX_I16 = 32767


class BlockDot(Protocol):
    """The running total of one block and one token."""

    def add(self, i: int, codes: Val) -> None:
        """Add quad i; `codes` as `prepare_codes` gives them."""

    def total(self) -> Val:
        """The sum, <lanes x i32>."""


def dot_lanes(isa: Isa) -> int:
    """Rows that one register of 32-bit sums holds at best."""
    return {"vnni512": 16, "avx2": 8, "sdot": 4, "generic": 4}[isa.dot]


def prepare_codes(isa: Isa, codes: Val, zero: int) -> Val:
    """Codes in the form that this instruction set multiplies, shared by all tokens."""
    if isa.dot == "vnni512":
        return codes
    if codes_are_signed(isa, zero):
        return codes ^ 0x80 if zero == 128 else codes - zero
    return codes


def codes_are_signed(isa: Isa, zero: int) -> bool:
    """Whether the zero point is taken from the codes themselves, so that the products need no correction."""
    if isa.dot == "vnni512":
        return False
    return isa.dot != "avx2" or zero == 128


def block_dot(
    f: Function, isa: Isa, lanes: int, x: Val, negative_sum: Val, bits: int, zero: int
) -> BlockDot:
    """Start a block: `x` points to its int8 bytes, `negative_sum` to the i32 -sum(x) of the block."""
    if isa.dot == "vnni512":
        return _Vnni(f, lanes, x, negative_sum, zero)
    if isa.dot == "avx2":
        return _SignedAvx2(f, x) if zero == 128 else _Avx2(f, x, negative_sum, bits, zero)
    if isa.dot == "sdot":
        return _Sdot(f, lanes, x)
    return _Generic(f, lanes, x, bits, zero)


def _quad(f: Function, x: Val, i: int, lanes: int) -> Val:
    """Bytes 4 i .. 4 i + 3 of x, repeated for every row."""
    word = f.load(x, I32, 4 * i, align=4)
    return word.splat(lanes).bitcast(vec(I8, 4 * lanes))


def _correction(f: Function, negative_sum: Val, zero: int, lanes: int) -> Val:
    """-zero * sum(x) in every lane; zero is a power of two, or 0."""
    if not zero:
        return f.const(vec(I32, lanes), 0)
    return f.load(negative_sum, I32).splat(lanes) << (zero.bit_length() - 1)


class _Vnni:
    """AVX-512 VNNI: one instruction a quad, with the quad broadcast from memory."""

    def __init__(self, f: Function, lanes: int, x: Val, negative_sum: Val, zero: int) -> None:
        self._f, self._lanes, self._x = f, lanes, x
        self._sum = _correction(f, negative_sum, zero, lanes)
        self._name = f"x86.avx512.vpdpbusd.{32 * lanes}"

    def add(self, i: int, codes: Val) -> None:
        args = [self._sum, codes, _quad(self._f, self._x, i, self._lanes)]
        self._sum = self._f.intrinsic(self._name, self._sum.type, args)

    def total(self) -> Val:
        return self._sum


class _Pairs16:
    """Sums of products in i16, widened to i32 before they can overflow."""

    def __init__(self, limit: int) -> None:
        self._limit, self._count = limit, 0
        self._narrow: Val | None = None
        self._wide: Val | None = None

    def _accumulate(self, products: Val) -> None:
        if self._count == self._limit:
            self._flush()
        self._narrow = products if self._narrow is None else self._narrow + products
        self._count += 1

    def _flush(self) -> None:
        assert self._narrow is not None
        wide = self._widen(self._narrow)
        self._wide = wide if self._wide is None else self._wide + wide
        self._narrow, self._count = None, 0

    def _sum(self) -> Val:
        self._flush()
        assert self._wide is not None
        return self._wide

    def _widen(self, narrow: Val) -> Val:
        raise NotImplementedError


class _Avx2(_Pairs16):
    """AVX2, codes of at most 6 bits: pairs of products in i16 cannot saturate."""

    def __init__(self, f: Function, x: Val, negative_sum: Val, bits: int, zero: int) -> None:
        super().__init__(_MAX_I16 // (2 * _MAX_X * ((1 << bits) - 1)))
        self._f, self._x = f, x
        self._correction = _correction(f, negative_sum, zero, 8) if zero else None

    def add(self, i: int, codes: Val) -> None:
        args = [codes, _quad(self._f, self._x, i, 8)]
        self._accumulate(self._f.intrinsic("x86.avx2.pmadd.ub.sw", vec(I16, 16), args))

    def _widen(self, narrow: Val) -> Val:
        args = [narrow, self._f.const(narrow.type, 1)]
        return self._f.intrinsic("x86.avx2.pmadd.wd", vec(I32, 8), args)

    def total(self) -> Val:
        products = self._sum()
        return products if self._correction is None else products + self._correction


class _SignedAvx2(_Avx2):
    """AVX2, signed 8-bit codes: |code| times x with the code's sign, at most 128 * 127 * 2 a pair."""

    def __init__(self, f: Function, x: Val) -> None:
        super().__init__(f, x, x, 7, 0)

    def add(self, i: int, codes: Val) -> None:
        f, x = self._f, _quad(self._f, self._x, i, 8)
        magnitude = f.intrinsic("abs", codes.type, [codes, f.const(I1, 0)], (codes.type,))
        signed = f.intrinsic("x86.avx2.psign.b", codes.type, [x, codes])
        self._accumulate(f.intrinsic("x86.avx2.pmadd.ub.sw", vec(I16, 16), [magnitude, signed]))


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


class _Generic(_Pairs16):
    """Plain vector arithmetic: every product fits 16 bits."""

    def __init__(self, f: Function, lanes: int, x: Val, bits: int, zero: int) -> None:
        largest = max(zero, (1 << bits) - 1 - zero)
        super().__init__(max(1, _MAX_I16 // (_MAX_X * largest)))
        self._f, self._lanes, self._x = f, lanes, x

    def add(self, i: int, codes: Val) -> None:
        f, lanes = self._f, self._lanes
        quad = f.load(self._x, vec(I8, 4), 4 * i, align=4).sext(I16)
        repeated = f.shuffle(quad, None, list(range(4)) * lanes)
        self._accumulate(codes.sext(I16) * repeated)

    def _widen(self, narrow: Val) -> Val:
        n = narrow.type.lanes
        even = self._f.shuffle(narrow, None, range(0, n, 2)).sext(I32)
        odd = self._f.shuffle(narrow, None, range(1, n, 2)).sext(I32)
        return even + odd

    def total(self) -> Val:
        pairs = self._sum()
        n = pairs.type.lanes
        even, odd = (self._f.shuffle(pairs, None, range(start, n, 2)) for start in (0, 1))
        return even + odd
