"""The innermost functions of `linear`: 16 rows of a weight by a few tokens, over all of K.

A tile function `(weights, x, sums)` reads one row group of a weight and `tokens` consecutive rows of x, and
stores float32 sums [tokens][16]. Every element is the sum of the same operations in the same order whatever the tile, so
results do not depend on how tokens and rows were divided. One function serves all weights of its layout and K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import (
    F32,
    I16,
    I32,
    I64,
    PTR,
    Function,
    Module,
    Val,
    Var,
    vec,
)
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.layouts import GROUP_ROWS, Layout
from ggufc.backends.llvm.lowering.dot import block_dot, prepare_codes
from ggufc.backends.llvm.lowering.halves import f16_to_f32
from ggufc.backends.llvm.quants import Block, Format, Part, Rows, format_for
from ggufc.backends.llvm.quants.format import BLOCK_K
from ggufc.backends.llvm.vector_math import muladd

# How far ahead of the weights that are being multiplied the next ones are asked for.
_PREFETCH_BYTES = 2304
_LINE = 64


@dataclass(frozen=True)
class TileShape:
    """`tokens` rows of x by `lanes` of the 16 weight rows at a time."""

    tokens: int
    lanes: int


_SHAPES = {
    "vnni512": ((8, 16), (4, 16), (2, 16), (1, 16)),
    "avx2": ((4, 8), (2, 8), (1, 8)),
    "sdot": ((4, 8), (2, 16), (1, 16)),
    "generic": ((2, 4), (1, 8)),
}


def tile_shapes(isa: Isa) -> tuple[TileShape, ...]:
    """The shapes of an instruction set, most tokens first; the last takes one token."""
    return tuple(TileShape(*shape) for shape in _SHAPES[isa.dot])


def tile_function(
    module: Module, isa: Isa, layout: Layout, k: int, shape: TileShape, *, prefetch: bool
) -> str:
    """The reference of the tile function of a layout, defined in the module when first asked for."""
    suffix = ".ahead" if prefetch else ""
    name = f"tile.{layout.name}.k{k}.t{shape.tokens}{suffix}"
    if name not in module.functions:
        params = [("weights", PTR), ("x", PTR), ("sums", PTR)]
        f = module.function(name, params, attributes="nounwind noinline")
        tile = _FloatTile if layout.type_name in ("f32", "f16", "bf16") else _Int8Tile
        tile(f, isa, layout, k, shape, prefetch).emit()
    return module.functions[name].ref


class _Tile:
    """State shared by the two kinds of tile: the function, its pointers and its accumulators."""

    def __init__(
        self, f: Function, isa: Isa, layout: Layout, k: int, shape: TileShape, prefetch: bool
    ) -> None:
        self.f, self.isa, self.layout, self.k, self.shape = f, isa, layout, k, shape
        self.weights, self.x, self.out = f.arg("weights"), f.arg("x"), f.arg("sums")
        self.prefetch = prefetch

    def emit(self) -> None:
        """Write the function: the rows of a group in slices of `lanes`."""
        for first in range(0, GROUP_ROWS, self.shape.lanes):
            sums = self.slice_sums(first)
            for token, value in enumerate(sums):
                self.f.store(value, self.out, 4 * (GROUP_ROWS * token + first))

    def slice_sums(self, first: int) -> list[Val]:
        """The sums of `lanes` rows from `first`, one vector for each token."""
        raise NotImplementedError

    def accumulators(self) -> list[Var]:
        zero = self.f.const(vec(F32, self.shape.lanes), 0)
        return [self.f.var(zero.type, zero) for _ in range(self.shape.tokens)]

    def prefetch_unit(self, unit: Val, first: int) -> None:
        if self.prefetch and not first:
            for line in range(0, self.layout.unit_bytes, _LINE):
                self.f.prefetch(unit, _PREFETCH_BYTES + line)


class _Int8Tile(_Tile):
    """Quantised weights by quantised activations."""

    def slice_sums(self, first: int) -> list[Val]:
        f, fmt = self.f, format_for(self.layout.name)
        sums = self.accumulators()
        with f.loop(self.layout.units(self.k), name="unit") as unit:
            pointer = self.weights + unit * self.layout.unit_bytes
            self.prefetch_unit(pointer, first)
            view = Rows(f, self.isa, pointer, self.shape.lanes, first)
            header = fmt.header(view)
            with f.loop(fmt.steps, name="step") as step:
                k = unit * self.layout.unit_k + step * fmt.step_k
                for i, block in enumerate(fmt.blocks(view, header, step)):
                    self._block(fmt, block, k, i, sums)
        return [s.get() for s in sums]

    def _block(self, fmt: Format, block: Block, k: Val, i: int, sums: list[Var]) -> None:
        """Add block i of the step that starts at k to all sums."""
        row, per_block = Q8aRow(self.k), self.x + (k >> 3)
        totals = [self._totals(fmt, block, part, k, i) for part in range(len(block.parts))]
        for token, acc in enumerate(sums):
            at = token * row.stride + 4 * i
            d = self.f.load(per_block, F32, row.scales + at).splat(self.shape.lanes)
            value = self._scaled([t[token] for t in totals], block.parts, d, acc.get())
            if block.minimum is not None:
                s = self.f.load(per_block, F32, row.scaled_sums + at).splat(self.shape.lanes)
                value = muladd(block.minimum, s, value)
            acc.set(value)

    def _scaled(self, totals: list[Val], parts: Sequence[Part], d: Val, acc: Val) -> Val:
        """acc + d * sum of (total * scale)."""
        scales = [part.scale for part in parts]
        if len(totals) == 1:
            return muladd(totals[0].sitofp(), scales[0] * d, acc)
        value = muladd(totals[1].sitofp(), scales[1], totals[0].sitofp() * scales[0])
        return muladd(value, d, acc)

    def _totals(self, fmt: Format, block: Block, part: int, k: Val, i: int) -> list[Val]:
        """The integer sums of one part of block i, for all tokens."""
        row, parts = Q8aRow(self.k), len(block.parts)
        start = BLOCK_K * i + BLOCK_K // parts * part
        if parts == 1:
            sums = self.x + (k >> 3) + (row.negative_sums + start // 8)
        else:
            sums = self.x + (k >> 2) + (row.negative_half_sums + start // 4)
        dots = [
            block_dot(
                self.f,
                self.isa,
                self.shape.lanes,
                self.x + k + (start + token * row.stride),
                sums + token * row.stride,
                fmt.bits,
                fmt.zero,
            )
            for token in range(self.shape.tokens)
        ]
        for quad, codes in enumerate(block.parts[part].codes):
            ready = prepare_codes(self.isa, codes, fmt.zero)
            for dot in dots:
                dot.add(quad, ready)
        return [dot.total() for dot in dots]


class _FloatTile(_Tile):
    """Float weights by float32 activations; even and odd k are summed apart."""

    _UNROLL = 4

    def slice_sums(self, first: int) -> list[Val]:
        even, odd = self.accumulators(), self.accumulators()
        whole = self.k // self._UNROLL * self._UNROLL
        with self.f.loop(whole, step=self._UNROLL, name="k") as k:
            self._columns(k, self._UNROLL, first, (even, odd))
        rest = self.k - whole
        if rest:
            self._columns(self.f.coerce(whole, I64), rest, first, (even, odd))
        return [a.get() + b.get() for a, b in zip(even, odd, strict=True)]

    def _columns(self, k: Val, count: int, first: int, sums: tuple[list[Var], list[Var]]) -> None:
        """Add `count` (at most 4) consecutive k."""
        unit_k = self.layout.unit_k
        pointer = self.weights + k * (_LINE // unit_k)
        if self.prefetch and not first:
            for line in range(0, count * _LINE // unit_k, _LINE):
                self.f.prefetch(pointer, _PREFETCH_BYTES + line)
        columns: list[Val] = []
        for unit in range(-(-count // unit_k)):
            columns += self._weights(pointer + (unit * _LINE + _LINE // GROUP_ROWS * first))
        for i in range(count):
            for token, acc in enumerate(sums[i % 2]):
                at = 4 * (token * self.k + i)
                x = self.f.load(self.x + k * 4, F32, at).splat(self.shape.lanes)
                acc.set(muladd(columns[i], x, acc.get()))

    def _weights(self, pointer: Val) -> list[Val]:
        """The float32 columns of a unit: one for f32, two for the 16-bit types."""
        f, lanes = self.f, self.shape.lanes
        if self.layout.type_name == "f32":
            return [f.load(pointer, vec(F32, lanes))]
        pairs = f.load(pointer, vec(I32, lanes))
        if self.layout.type_name == "bf16":
            return [b.bitcast(vec(F32, lanes)) for b in (pairs << 16, pairs & -65536)]
        return [f16_to_f32(self.isa, b.trunc(I16)) for b in (pairs, pairs >> 16)]
