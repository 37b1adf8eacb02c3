"""The tile of float weights (f32, f16, bf16) and float32 activations."""

from __future__ import annotations

from ggufc.backends.llvm.kernel_builder import F32, I16, I32, I64, Val, Var, vec
from ggufc.backends.llvm.kernels.tile import LINE, Tile
from ggufc.backends.llvm.layouts import GROUP_ROWS
from ggufc.backends.llvm.lowering import f16_to_f32
from ggufc.backends.llvm.vector_math import muladd

_UNROLL = 4
Pairs = list[tuple[list[Var], list[Var]]]


class FloatTile(Tile):
    """Even and odd k are summed apart, which hides the latency of a sum and halves its error."""

    def one_pass(self, firsts: list[Val]) -> list[list[Val]]:
        sums: Pairs = [(self.accumulators(), self.accumulators()) for _ in firsts]
        whole = self.k // _UNROLL * _UNROLL
        with self.f.loop(whole, step=_UNROLL, name="k") as k:
            self._columns(k, _UNROLL, firsts, sums)
        if self.k > whole:
            self._columns(self.f.const(I64, whole), self.k - whole, firsts, sums)
        return [[a.get() + b.get() for a, b in zip(even, odd, strict=True)] for even, odd in sums]

    def _columns(self, k: Val, count: int, firsts: list[Val], sums: Pairs) -> None:
        """Add `count` (at most 4) consecutive k."""
        per_k = LINE // self.layout.unit_k
        pointer = self.weights + k * per_k
        self.ask_ahead(pointer, count * per_k)
        for first, pair in zip(firsts, sums, strict=True):
            columns: list[Val] = []
            for unit in range(-(-count // self.layout.unit_k)):
                columns += self._weights(pointer + (LINE // GROUP_ROWS * first + LINE * unit))
            for i in range(count):
                for token, acc in enumerate(pair[i % 2]):
                    x = self.f.load(self.x + k * 4, F32, 4 * (token * self.k + i))
                    acc.set(muladd(columns[i], x.splat(self.shape.lanes), acc.get()))

    def _weights(self, pointer: Val) -> list[Val]:
        """The float32 columns of a unit: one for f32, two for the 16-bit types."""
        f, lanes = self.f, self.shape.lanes
        if self.layout.type_name == "f32":
            return [f.load(pointer, vec(F32, lanes))]
        pairs = f.load(pointer, vec(I32, lanes))
        if self.layout.type_name == "bf16":
            return [bits.bitcast(vec(F32, lanes)) for bits in (pairs << 16, pairs & -65536)]
        return [f16_to_f32(self.isa, bits.trunc(I16)) for bits in (pairs, pairs >> 16)]
