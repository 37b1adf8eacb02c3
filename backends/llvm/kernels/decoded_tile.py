"""The tile of quantised weights and float32 activations: weights are decoded on the way."""

from __future__ import annotations

from collections.abc import Sequence

from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Val, Var, vec
from ggufc.backends.llvm.kernels.tile import Tile
from ggufc.backends.llvm.quants import BLOCK_K, Block, Format, Part, Rows, format_for
from ggufc.backends.llvm.vector_math import muladd


class DecodedTile(Tile):
    """Each value is scale * (code - zero) + what is added to it; a row of x ends with its K."""

    def one_pass(self, firsts: list[Val]) -> list[list[Val]]:
        f, fmt = self.f, format_for(self.layout.name)
        sums = [self.accumulators() for _ in firsts]
        whole, rest = divmod(self.k, self.layout.unit_k)
        with f.loop(whole, name="unit") as unit, f.loop(fmt.steps, name="step") as step:
            self._step(fmt, firsts, sums, unit, step, fmt.step_k)
        if rest:
            # Rows end inside a unit only where units are one step.
            self._step(fmt, firsts, sums, f.const(I64, whole), f.const(I64, 0), rest)
        return [[s.get() for s in slice_sums] for slice_sums in sums]

    def _step(
        self,
        fmt: Format,
        firsts: list[Val],
        sums: list[list[Var]],
        unit: Val,
        step: Val,
        columns: int,
    ) -> None:
        """Add the first `columns` k of a step."""
        pointer = self.weights + unit * self.layout.unit_bytes
        self.ask_ahead(pointer + step * fmt.step_bytes, fmt.step_bytes)
        x = self.x + (unit * self.layout.unit_k + step * fmt.step_k) * 4
        for first, accumulators in zip(firsts, sums, strict=True):
            view = Rows(self.f, self.isa, pointer, self.shape.lanes, first)
            blocks = fmt.blocks(view, fmt.header(view), step)
            for i, block in enumerate(blocks[: columns // BLOCK_K]):
                self._block(fmt, block, x + 4 * BLOCK_K * i, accumulators)

    def _block(self, fmt: Format, block: Block, x: Val, accumulators: Sequence[Var]) -> None:
        k = 0
        for part in block.parts:
            for quad in part.codes:
                for value in self._values(fmt, block, part, quad):
                    for token, acc in enumerate(accumulators):
                        factor = self.f.load(x, F32, 4 * (token * self.k + k))
                        acc.set(muladd(value, factor.splat(self.shape.lanes), acc.get()))
                    k += 1

    def _values(self, fmt: Format, block: Block, part: Part, quad: Val) -> list[Val]:
        """Four consecutive k of every row."""
        words, added = quad.bitcast(vec(I32, self.shape.lanes)), block.added(part)
        found = []
        for byte in range(4):
            code = ((words >> (8 * byte)) & 255) - fmt.codes.zero
            value = code.sitofp()
            found.append(value * part.scale if added is None else muladd(value, part.scale, added))
        return found
