"""The innermost functions of `linear`: 16 rows of a weight by a few tokens, over all of K.

A tile function `(weights, x, sums)` reads one row group of a weight and `tokens` consecutive rows
of x, and stores float32 sums [tokens][16]. Every element is the sum of the same operations in the
same order whatever the tile, so results do not depend on how tokens and rows were divided. One
function serves all weights of its layout and K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I64, Function, Val, Var, vec
from ggufc.backends.llvm.layouts import GROUP_ROWS, Layout

LINE = 64


@dataclass(frozen=True)
class Ahead:
    """How weights are asked for before they are multiplied: every `step` bytes, `distance` bytes
    ahead, into the first cache (`level` 1) or the second."""

    distance: int
    step: int
    level: int


# Measured, as share of the bandwidth that reading reaches. One token on Zen 4: with the second
# level 93 %, without prefetch 88 %, with every line 80 to 90 %; but layouts whose units are read in
# two streams reach 40 % without every line and 93 % with. Codes of one and two bits, whose steps
# are a few lines: three times as fast with every line as with every second. Several tokens, whose
# products should hide the reading: every line from far ahead, into the second level; into the
# first, whose lines the activations need, it takes 1.2 times (four bits) to 2.5 times (six) as
# long. Emerald Rapids, one token: so, too, 90 to 99 %; into the first level from near, 60 to 88 %.
_EVERY_LINE, _SECOND_LEVEL = Ahead(2304, LINE, 1), Ahead(4608, 2 * LINE, 2)
_EVERY_LINE_SECOND_LEVEL = Ahead(4608, LINE, 2)
_FAR = Ahead(9216, LINE, 2)
_TWO_STREAMS = ("q5_k", "q6_k", "q3_k", "iq2_s")
_SHORT_STEPS = ("q1_0", "q2_0", "tq2_0", "q2_k", "iq1_m")


def _ahead(isa: Isa, layout: Layout, tokens: int) -> Ahead:
    if tokens > 1 or isa.tiles:
        return _FAR
    if layout.type_name in _TWO_STREAMS:
        return _EVERY_LINE
    if layout.type_name in _SHORT_STEPS:
        return _EVERY_LINE_SECOND_LEVEL
    return _SECOND_LEVEL


@dataclass(frozen=True)
class TileShape:
    """`tokens` rows of x by slices of `lanes` weight rows, `together` of them in one pass of K."""

    tokens: int
    lanes: int
    together: int = 1

    @property
    def rows(self) -> int:
        """Rows of one pass."""
        return self.lanes * self.together


# Measured: more tokens amortise the decoding of weights until accumulators leave the registers.
_SHAPES = {
    "vnni512": (TileShape(8, 16), TileShape(4, 16), TileShape(2, 16), TileShape(1, 16)),
    "avx2": (TileShape(4, 8), TileShape(2, 8, 2), TileShape(1, 8, 2)),
    "sdot": (TileShape(4, 8), TileShape(2, 8, 2), TileShape(1, 16)),
    "generic": (TileShape(4, 8), TileShape(2, 8), TileShape(1, 8, 2)),
}


def tile_shapes(isa: Isa) -> tuple[TileShape, ...]:
    """The shapes of an instruction set, most tokens first; the last takes one token."""
    return _SHAPES[isa.dot]


class Tile(ABC):
    """A tile function being written: its pointers, and what the kinds of tile share."""

    def __init__(
        self, f: Function, isa: Isa, layout: Layout, k: int, shape: TileShape, prefetch: bool
    ) -> None:
        self.f, self.isa, self.layout, self.k, self.shape = f, isa, layout, k, shape
        self.weights, self.x = f.arg("weights"), f.arg("x")
        self._prefetch = prefetch

    def emit(self) -> None:
        """Write the function, a loop over passes where there are several."""
        if self.shape.rows == GROUP_ROWS:
            self._pass(self.f.const(I64, 0))
            return
        with self.f.loop(GROUP_ROWS, step=self.shape.rows, name="pass") as first:
            self._pass(first)

    def _pass(self, first: Val) -> None:
        firsts = [first + self.shape.lanes * i for i in range(self.shape.together)]
        for row, sums in zip(firsts, self.one_pass(firsts), strict=True):
            for token, value in enumerate(sums):
                self.f.store(value, self.f.arg("sums") + row * 4, 4 * GROUP_ROWS * token)

    @abstractmethod
    def one_pass(self, firsts: list[Val]) -> list[list[Val]]:
        """The sums of the slices that begin at these rows: for each slice, one vector a token."""

    def accumulators(self) -> list[Var]:
        """A zero vector for each token."""
        type_ = vec(F32, self.shape.lanes)
        return [self.f.var(type_, 0.0) for _ in range(self.shape.tokens)]

    def ask_ahead(self, pointer: Val, nbytes: int) -> None:
        """Prefetch for `nbytes` that are about to be read."""
        if self._prefetch:
            ahead = _ahead(self.isa, self.layout, self.shape.tokens)
            for line in range(0, nbytes, ahead.step):
                self.f.prefetch(pointer, ahead.distance + line, locality=4 - ahead.level)
