"""Matrix tiles: eight registers of 16 rows by 64 bytes, and products of bf16 tiles in float32.

AMX where the instruction set has it. Elsewhere the same operations are emulated in plain code on
stack memory: slow, but kernels written for tiles run, and are tested, on any machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I8, I16, I32, I64, VOID, Function, Val, vec
from ggufc.backends.llvm.lowering.halves import bf16_to_f32
from ggufc.backends.llvm.vector_math import muladd

TILE_ROWS, TILE_ROW_BYTES = 16, 64
TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES
_TILES = 8
_CONFIG_BYTES, _CONFIG_COLUMNS, _CONFIG_ROWS = 64, 16, 48


class Tiles(Protocol):
    """The tile registers of one function, numbered from 0."""

    def configure(self, rows: Sequence[Val | int]) -> None:
        """Give tile i `rows[i]` rows (1 .. 16) of 64 bytes; their contents become zero."""

    def zero(self, tile: int) -> None:
        """Set a tile to zero."""

    def load(self, tile: int, pointer: Val, stride: Val | int, *, once: bool = False) -> None:
        """Load rows `stride` bytes apart; `once` says that they need not stay in the cache."""

    def store(self, tile: int, pointer: Val, stride: Val | int) -> None:
        """Store rows `stride` bytes apart."""

    def multiply_bf16(self, c: int, a: int, b: int) -> None:
        """c[m][n] += sum over p < 16, h < 2 of a[m][2 p + h] * b[p][2 n + h]."""

    def release(self) -> None:
        """Give the tiles up; at the end of the work of a thread."""


def tiles_of(f: Function, isa: Isa) -> Tiles:
    """The tiles of a function."""
    return _Amx(f) if "amx-bf16" in isa.features else _Emulated(f)


class _Amx:
    """Intrinsics that name their registers: tiles that LLVM allocates are spilt in loops."""

    def __init__(self, f: Function) -> None:
        self._f = f

    def _tile(self, number: int) -> Val:
        return self._f.const(I8, number)

    def _call(self, name: str, *args: Val) -> None:
        self._f.intrinsic(f"x86.{name}", VOID, list(args))

    def configure(self, rows: Sequence[Val | int]) -> None:
        f, config = self._f, self._f.alloca(_CONFIG_BYTES)
        f.store(f.const(vec(I8, _CONFIG_BYTES), 0), config)
        f.store(f.const(I8, 1), config)  # the palette
        for tile, count in enumerate(rows):
            f.store(f.const(I16, TILE_ROW_BYTES), config, _CONFIG_COLUMNS + 2 * tile)
            count8 = f.const(I8, count) if isinstance(count, int) else count.trunc(I8)
            f.store(count8, config, _CONFIG_ROWS + tile)
        self._call("ldtilecfg", config)

    def zero(self, tile: int) -> None:
        self._call("tilezero", self._tile(tile))

    def load(self, tile: int, pointer: Val, stride: Val | int, *, once: bool = False) -> None:
        name = "tileloaddt164" if once else "tileloadd64"
        self._call(name, self._tile(tile), pointer, self._f.coerce(stride, I64))

    def store(self, tile: int, pointer: Val, stride: Val | int) -> None:
        self._call("tilestored64", self._tile(tile), pointer, self._f.coerce(stride, I64))

    def multiply_bf16(self, c: int, a: int, b: int) -> None:
        self._call("tdpbf16ps", self._tile(c), self._tile(a), self._tile(b))

    def release(self) -> None:
        self._call("tilerelease")


class _Emulated:
    """Tiles in stack memory. Rows beyond those configured are neither read nor written."""

    def __init__(self, f: Function) -> None:
        self._f = f
        self._memory = f.alloca(_TILES * TILE_BYTES)
        self._rows = [f.var(I64, 0) for _ in range(_TILES)]

    def _at(self, tile: int, row: Val) -> Val:
        return self._memory + row * TILE_ROW_BYTES + tile * TILE_BYTES

    def configure(self, rows: Sequence[Val | int]) -> None:
        for tile, count in enumerate(rows):
            self._rows[tile].set(count)
            self.zero(tile)

    def zero(self, tile: int) -> None:
        f = self._f
        with f.loop(TILE_ROWS, name="zero") as row:
            f.store(f.const(vec(I32, 16), 0), self._at(tile, row))

    def load(self, tile: int, pointer: Val, stride: Val | int, *, once: bool = False) -> None:
        f = self._f
        with f.loop(self._rows[tile].get(), name="load") as row:
            f.store(f.load(pointer + row * stride, vec(I32, 16)), self._at(tile, row))

    def store(self, tile: int, pointer: Val, stride: Val | int) -> None:
        f = self._f
        with f.loop(self._rows[tile].get(), name="store") as row:
            f.store(f.load(self._at(tile, row), vec(I32, 16)), pointer + row * stride)

    def multiply_bf16(self, c: int, a: int, b: int) -> None:
        f = self._f
        with f.loop(self._rows[c].get(), name="row") as row, f.loop(16, name="pair") as pair:
            at = self._at(c, row)
            total = f.load(at, vec(F32, 16))
            pairs = f.load(self._at(b, pair), vec(I32, 16))
            for half in range(2):
                x = bf16_to_f32(f.load(self._at(a, row) + pair * 4, I16, 2 * half))
                y = bf16_to_f32((pairs >> (16 * half)).trunc(I16))
                total = muladd(y, x, total)
            f.store(total, at)

    def release(self) -> None:
        """Nothing to give up."""
