"""`expert_linear` and `expert_glu`: the products of `linear`, for each expert with its rows.

The loops of `linear` are run once for every expert that has rows. Work is counted in row groups of
weights times blocks of an expert's rows, so that threads get equal shares however tokens choose; a
row group of one expert is one thread's, so that its weights are read once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ggufc.backends.llvm import vector_math
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import I32, I64, Val
from ggufc.backends.llvm.kernels.linear import Output
from ggufc.backends.llvm.kernels.linear_loops import (
    Body,
    Epilogue,
    Loops,
    Matrix,
    Segment,
    Sums,
    TileLoops,
    check_activation,
)
from ggufc.backends.llvm.kernels.panel_loops import PanelLoops
from ggufc.backends.llvm.layouts import layout_named, packed_bytes
from ggufc.ir.ops.experts import CLAMP, STEEPNESS

# The results of a row, from the sums with each stack.
Finish = Callable[[list[Val]], Val]

# Rows of an expert that count as one block of work: fewer cost hardly less.
_BLOCK_ROWS = 8


def _clamped_swiglu(gate: Val, up: Val) -> Val:
    f = gate.f
    high = f.const(gate.type, CLAMP)
    g = f.fmin(high, gate)
    u = f.fmax(f.const(gate.type, -CLAMP), f.fmin(high, up))
    return g / (vector_math.exp(g * -STEEPNESS) + 1.0) * (u + 1.0)


_GLUS: dict[str, Callable[[Val, Val], Val]] = {
    "silu": lambda gate, up: vector_math.silu(gate) * up,
    "gelu_tanh": lambda gate, up: vector_math.gelu_tanh(gate) * up,
    "clamped_swiglu": _clamped_swiglu,
}


@dataclass(frozen=True)
class Stack:
    """Packed matrices [rows, k] of all experts, one after another, and their biases if any."""

    matrix: Matrix
    stride: int
    biases: tuple[Val, ...]

    @classmethod
    def of(cls, k: Kernel, name: str, bias: str) -> Stack:
        """The weight and bias of these names."""
        (operand,) = k.signature.named(name)
        _, rows, columns = operand.type.max_shape
        layout = layout_named(operand.layout or "")
        check_activation(k, layout)
        matrix = Matrix(k.pointer(name), layout, rows, columns)
        return cls(matrix, packed_bytes(layout, rows, columns), tuple(k.pointers(bias)))

    def of_expert(self, expert: Val) -> Matrix:
        """One expert's matrix."""
        own = self.matrix
        return Matrix(own.pointer + expert * self.stride, own.layout, own.rows, own.k)


@dataclass(frozen=True)
class ExpertSegment(Segment):
    """One expert's matrices."""

    expert: Val


class _OverExperts(Loops):
    """Goes over experts where `linear` goes over blocks of tokens."""

    def __init__(self, k: Kernel, stacks: tuple[Stack, ...], epilogue: Epilogue) -> None:
        self.stacks = stacks
        super().__init__(k, [Segment(tuple(s.matrix for s in stacks), 0)], epilogue)

    def each(self, size: int, block_tokens: int, body: Body, step: int = 1) -> None:
        """Call `body` for this thread's parts of the matrices of every expert that has rows."""
        f, experts = self.f, self.k.signature.named("starts")[0].type.max_shape[0] - 1
        pieces = -(-self.segments[0].groups // size)
        total, done = f.var(I64, 0), f.var(I64, 0)
        with f.loop(experts, name="count") as expert:
            first, stop = self._rows(expert)
            total.set(total.get() + self._blocks_of(first, stop) * pieces)
        with self.k.shares(total.get(), step) as (begin, end):
            done.set(0)
            with f.loop(experts, name="expert") as expert:
                before = done.get()
                blocks = self._blocks_of(*self._rows(expert))
                with f.if_((blocks > 0) & (before < end) & (before + blocks * pieces > begin)):
                    low, high = (self._piece(at - before, blocks, pieces) for at in (begin, end))
                    self._run(expert, low, high, block_tokens, body)
                done.set(before + blocks * pieces)

    def _run(self, expert: Val, low: Val, high: Val, block_tokens: int, body: Body) -> None:
        f, (first, stop) = self.f, self._rows(expert)
        own = tuple(stack.of_expert(expert) for stack in self.stacks)
        with f.if_(low < high), f.loop(stop, first, block_tokens, "rows") as row:
            last = f.smin(row + block_tokens, stop)
            body(ExpertSegment(own, 0, expert), low, high, row, last)

    def _rows(self, expert: Val) -> tuple[Val, Val]:
        at = self.k.pointer("starts") + expert * 4
        return self.f.load(at, I32).sext(I64), self.f.load(at, I32, 4).sext(I64)

    def _blocks_of(self, first: Val, stop: Val) -> Val:
        return (stop - first + (_BLOCK_ROWS - 1)) // _BLOCK_ROWS

    def _piece(self, work: Val, blocks: Val, pieces: int) -> Val:
        """The first piece that begins at a place in the expert's work, or after it."""
        return self.clamp((self.f.smax(work, 0) + (blocks - 1)) // blocks, pieces)


class _ExpertTiles(_OverExperts, TileLoops):
    """Register tiles: quantised rows, or float32."""


class _ExpertPanels(_OverExperts, PanelLoops):
    """Matrix tiles: bf16 rows."""


def _emit_products(k: Kernel, stacks: tuple[Stack, ...], finish: Finish) -> None:
    """Store what `finish` makes of the sums of a row, one vector for each stack."""
    (x,) = k.signature.named("x")
    out = Output(k, stacks[0].matrix.rows)

    def epilogue(segment: Segment, group: Val, row: Val, sums: Sums) -> None:
        assert isinstance(segment, ExpertSegment)

        def rows(column: Val, mask: Val | None) -> None:
            added = [
                [out.load(out.at(b, segment.expert, column), mask) for b in s.biases]
                for s in stacks
            ]
            with k.f.loop(sums.tokens, name="row") as i:
                values = []
                for index, biases in enumerate(added):
                    value = sums.load(index, i)
                    for bias in biases:
                        value = value + bias
                    values.append(value)
                out.store(finish(values), out.at(k.result(), row + i, column), mask)

        out.each(segment, group, rows)

    loops = _ExpertPanels if x.type.dtype.name == "bf16a" else _ExpertTiles
    loops(k, stacks, epilogue).emit()


@kernel("expert_linear")
def emit_expert_linear(k: Kernel) -> None:
    """x W^T plus bias, W and bias the expert's."""
    _emit_products(k, (Stack.of(k, "weight", "bias"),), lambda values: values[0])


@kernel("expert_glu")
def emit_expert_glu(k: Kernel) -> None:
    """Both parts of a row group in one pass."""
    glu = _GLUS[k.signature.attribute("activation")]
    stacks = Stack.of(k, "gate", "gate_bias"), Stack.of(k, "up", "up_bias")
    _emit_products(k, stacks, lambda values: glu(values[0], values[1]))
