"""The tile of quantised weights and activations, multiplied as integers block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ggufc.backends.llvm.kernel_builder import F32, I1, I8, I32, I64, Val, Var, vec
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.kernels.tile import Tile
from ggufc.backends.llvm.lowering import block_dot, prepare_codes
from ggufc.backends.llvm.quants import BLOCK_K, Block, Format, Rows, format_for
from ggufc.backends.llvm.vector_math import muladd


class Int8Tile(Tile):
    """For each block of 32 k: an integer sum, scaled and added to the float32 sum."""

    def one_pass(self, firsts: list[Val]) -> list[list[Val]]:
        f, fmt = self.f, format_for(self.layout.name)
        sums = [self.accumulators() for _ in firsts]
        rests = [self._memory() for _ in firsts]
        refined = self._refined()
        with f.loop(self.layout.units(self.k), name="unit") as unit:
            pointer = self.weights + unit * self.layout.unit_bytes
            views = [Rows(f, self.isa, pointer, self.shape.lanes, first) for first in firsts]
            headers = [fmt.header(view) for view in views]
            with self._steps(fmt) as step:
                k = unit * self.layout.unit_k + step * fmt.step_k
                self.ask_ahead(pointer + step * fmt.step_bytes, fmt.step_bytes)
                steps = [fmt.blocks(v, h, step) for v, h in zip(views, headers, strict=True)]
                for i, blocks in enumerate(zip(*steps, strict=True)):
                    self._block(fmt, blocks, k, i, sums)
                    self._residuals(fmt, views, step, k, i, refined, rests)
        size = vec(F32, self.shape.lanes)
        return [
            [s.get() + f.load(rest, size, size.nbytes * t) for t, s in enumerate(slice_sums)]
            for slice_sums, rest in zip(sums, rests, strict=True)
        ]

    def _memory(self) -> Val:
        """A zero vector for each token, in memory: few blocks have residuals."""
        size = vec(F32, self.shape.lanes)
        memory = self.f.alloca(size.nbytes * self.shape.tokens)
        for token in range(self.shape.tokens):
            self.f.store(self.f.const(size, 0.0), memory, size.nbytes * token)
        return memory

    def _refined(self) -> Val:
        """For each block a byte, whose bits say which tokens have residuals of it.

        Eight blocks of a token are looked at together: their bytes are 0 or 1.
        """
        f, row = self.f, Q8aRow(self.k)
        if self.shape.tokens == 1:
            return self.x + row.refined
        together = BLOCK_K * I64.nbytes
        memory = f.alloca(row.padded // BLOCK_K)
        with f.loop(row.padded // together, name="refined") as i:
            at, bits = self.x + i * I64.nbytes, f.const(I64, 0)
            for token in range(self.shape.tokens):
                bits = bits | f.load(at, I64, row.refined + token * row.stride) << token
            f.store(bits, memory + i * I64.nbytes)
        return memory

    def _residuals(
        self,
        fmt: Format,
        views: Sequence[Rows],
        step: Val,
        k: Val,
        i: int,
        refined: Val,
        rests: list[Val],
    ) -> None:
        """Add block i of those tokens that have residuals of it, one after another.

        They are few: codes are read again, since the registers that would keep them are needed.
        """
        f, row = self.f, Q8aRow(self.k)
        left = f.var(I32, f.load(refined + (k >> 5), I8, i).zext(I32))
        with f.while_("residual") as done:
            f.continue_unless(left.get().eq(0), done)
            bits = left.get()
            left.set(bits & (bits - 1))
            token = f.intrinsic("cttz", I32, [bits, f.const(I1, 1)], (I32,)).zext(I64)
            x = self.x + token * row.stride
            for view, rest in zip(views, rests, strict=True):
                block = fmt.blocks(view, fmt.header(view), step)[i]
                self._residual(fmt, block, x, k, i, rest + token * (4 * self.shape.lanes))

    def _residual(self, fmt: Format, block: Block, x: Val, k: Val, i: int, sums: Val) -> None:
        """sums + d / 256 * sum of (total * scale) of one token's residuals."""
        f, row, lanes = self.f, Q8aRow(self.k), self.shape.lanes
        value: Val | None = None
        size = BLOCK_K // len(block.parts)
        for number, part in enumerate(block.parts):
            start = BLOCK_K * i + size * number
            halves = x + (k >> 2) + (row.negative_residual_sums + start // 4)
            codes = x + k + (row.residuals + start)
            negative = [f.load(halves, I32, 4 * h) for h in range(size // 16)]
            # Two runs of products: one alone would wait for each of them.
            dots = [
                block_dot(f, self.isa, lanes, codes, n, fmt.codes) for n in (sum_of(negative), None)
            ]
            for quad, values in enumerate(part.codes):
                dots[quad % 2].add(quad, prepare_codes(self.isa, values, fmt.codes))
            total = (dots[0].total() + dots[1].total()).sitofp()
            scaled = total * part.scale
            if part.deduction is not None:
                scaled = muladd(part.deduction, sum_of(negative).splat(lanes).sitofp(), scaled)
            value = scaled if value is None else value + scaled
        assert value is not None
        d = f.load(x + (k >> 3), F32, row.scales + 4 * i) * (1.0 / 256.0)
        f.store(muladd(value, d.splat(lanes), f.load(sums, value.type)), sums)

    @contextmanager
    def _steps(self, fmt: Format) -> Iterator[Val]:
        """The steps of a unit; without a loop where there is one."""
        if fmt.steps == 1:
            yield self.f.const(I64, 0)
            return
        with self.f.loop(fmt.steps, name="step") as step:
            yield step

    def _block(
        self, fmt: Format, blocks: Sequence[Block], k: Val, i: int, sums: list[list[Var]]
    ) -> None:
        """Add block i of the step that starts at k to all sums; one block for each slice."""
        parts = range(len(blocks[0].parts))
        totals = [self._totals(fmt, blocks, part, k, i) for part in parts]
        for number, (block, accumulators) in enumerate(zip(blocks, sums, strict=True)):
            for token, acc in enumerate(accumulators):
                mine = [total[number][token] for total in totals]
                acc.set(self._scaled(mine, block, k, i, token, acc.get()))

    def _scaled(self, totals: list[Val], block: Block, k: Val, i: int, token: int, acc: Val) -> Val:
        """acc + d * sum of (total * scale) + minimum * (d * sum of x)."""
        row, scales = Q8aRow(self.k), [part.scale for part in block.parts]
        per_block, at = self.x + (k >> 3), token * row.stride + 4 * i
        d = self.f.load(per_block, F32, row.scales + at).splat(self.shape.lanes)
        if len(totals) == 1:
            value = muladd(totals[0].sitofp(), scales[0] * d, acc)
        else:
            both = muladd(totals[1].sitofp(), scales[1], totals[0].sitofp() * scales[0])
            value = muladd(self._deducted(both, block, k, i, token), d, acc)
        if block.minimum is None:
            return value
        scaled_sum = self.f.load(per_block, F32, row.scaled_sums + at)
        return muladd(block.minimum, scaled_sum.splat(self.shape.lanes), value)

    def _deducted(self, value: Val, block: Block, k: Val, i: int, token: int) -> Val:
        """value - deduction * sum of x, for the parts of a block that have a deduction."""
        row = Q8aRow(self.k)
        at = row.negative_half_sums + token * row.stride + 8 * i
        for number, part in enumerate(block.parts):
            if part.deduction is not None:
                negative = self.f.load(self.x + (k >> 2), I32, at + 4 * number)
                sums = negative.splat(self.shape.lanes).sitofp()
                value = muladd(part.deduction, sums, value)
        return value

    def _totals(
        self, fmt: Format, blocks: Sequence[Block], part: int, k: Val, i: int
    ) -> list[list[Val]]:
        """The integer sums of one part of block i: for each slice, one vector a token."""
        f, row, parts = self.f, Q8aRow(self.k), len(blocks[0].parts)
        start = BLOCK_K * i + BLOCK_K // parts * part
        if parts == 1:
            negative = self.x + (k >> 3) + (row.negative_sums + start // 8)
        else:
            negative = self.x + (k >> 2) + (row.negative_half_sums + start // 4)
        x, lanes, tokens = self.x + k + start, self.shape.lanes, range(self.shape.tokens)
        offsets = [token * row.stride for token in tokens]
        dots = [
            [
                block_dot(f, self.isa, lanes, x + at, f.load(negative + at, I32), fmt.codes)
                for at in offsets
            ]
            for _ in blocks
        ]
        for quad in range(len(blocks[0].parts[part].codes)):
            for block, slice_dots in zip(blocks, dots, strict=True):
                codes = prepare_codes(self.isa, block.parts[part].codes[quad], fmt.codes)
                for dot in slice_dots:
                    dot.add(quad, codes)
        return [[dot.total() for dot in slice_dots] for slice_dots in dots]


def sum_of(values: Sequence[Val]) -> Val:
    """One value, or the sum of two."""
    return values[0] if len(values) == 1 else values[0] + values[1]
