"""`linear` and `linear_glu`: products of activations with packed weights, and what follows them."""

from __future__ import annotations

from collections.abc import Callable

from ggufc.backends.llvm import vector_math
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import I1, I64, Val
from ggufc.backends.llvm.kernels.linear_loops import (
    ROW,
    Epilogue,
    Segment,
    Sums,
    TileLoops,
    check_activation,
    matrices,
)
from ggufc.backends.llvm.kernels.panel_loops import PanelLoops
from ggufc.backends.llvm.layouts import GROUP_ROWS
from ggufc.backends.llvm.lowering.halves import rounded_to_bf16

_ACTIVATIONS = {"silu": vector_math.silu, "gelu_tanh": vector_math.gelu_tanh}


def emit_products(k: Kernel, segments: list[Segment], epilogue: Epilogue) -> None:
    """Multiply x by the weights of all segments, as x's type asks for."""
    for matrix in (m for segment in segments for m in segment.matrices):
        check_activation(k, matrix.layout)
    (x,) = k.signature.named("x")
    loops = PanelLoops if x.type.dtype.name == "bf16a" else TileLoops
    loops(k, segments, epilogue).emit()


class Output:
    """Stores rows of 16 results, fewer in the last group of a segment."""

    def __init__(self, k: Kernel, columns: int) -> None:
        self.f, self.columns = k.f, columns

    def each(self, segment: Segment, group: Val, body: Callable[[Val, Val | None], None]) -> None:
        """Call `body(column, mask)`; the mask is None where all 16 rows exist."""
        column = group * GROUP_ROWS + segment.column
        rest = segment.rows % GROUP_ROWS
        if not rest:
            body(column, None)
            return
        mask = self.f.const_lanes(I1, [i < rest for i in range(GROUP_ROWS)])
        last = group.eq(segment.groups - 1)
        with self.f.if_(last):
            body(column, mask)
        with self.f.if_(last.eq(0)):
            body(column, None)

    def at(self, pointer: Val, token: Val | int, column: Val) -> Val:
        """The address of an element of an [n, columns] float32 array."""
        return pointer + (column + self.f.coerce(token, I64) * self.columns) * 4

    def load(self, pointer: Val, mask: Val | None) -> Val:
        """The 16 values at a pointer; zero for rows that the mask says do not exist."""
        if mask is None:
            return self.f.load(pointer, ROW)
        return self.f.masked_load(pointer, ROW, mask)

    def store(self, value: Val, pointer: Val, mask: Val | None) -> None:
        """Store 16 values, or those that exist."""
        if mask is None:
            self.f.store(value, pointer)
        else:
            self.f.masked_store(value, pointer, mask)


@kernel("linear")
def emit_linear(k: Kernel) -> None:
    """x W^T for weights side by side, plus bias and residual."""
    segments, column = [], 0
    for matrix in matrices(k, "weights"):
        segments.append(Segment((matrix,), column))
        column += matrix.rows
    out, bias, residual = Output(k, column), k.pointers("bias"), k.pointers("residual")

    def epilogue(segment: Segment, group: Val, token: Val, sums: Sums) -> None:
        def rows(column: Val, mask: Val | None) -> None:
            biases = [out.load(b + column * 4, mask) for b in bias]
            for i in range(sums.tokens):
                value = sums.load(0, i)
                for addend in biases:
                    value = value + addend
                # The residual may be the result's own memory: each element is read, then written.
                for r in residual:
                    value = value + out.load(out.at(r, token + i, column), mask)
                out.store(value, out.at(k.result(), token + i, column), mask)

        out.each(segment, group, rows)

    emit_products(k, segments, epilogue)


@kernel("linear_glu")
def emit_linear_glu(k: Kernel) -> None:
    """activation(x gate^T) * (x up^T), both of a row group in one pass."""
    (gate,), (up,) = matrices(k, "gate"), matrices(k, "up")
    out, activation = Output(k, gate.rows), _ACTIVATIONS[k.signature.attribute("activation")]
    (result,) = k.signature.results
    to_bf16, stride = result.dtype.name == "bf16a", result.dtype.nbytes(gate.rows)

    def epilogue(segment: Segment, group: Val, token: Val, sums: Sums) -> None:
        def rows(column: Val, mask: Val | None) -> None:
            with k.f.loop(sums.tokens, name="row") as i:
                value = activation(sums.load(0, i)) * sums.load(1, i)
                row = k.result() + (token + i) * stride
                if to_bf16:
                    out.store(rounded_to_bf16(k.isa, value), row + column * 2, mask)
                else:
                    out.store(value, row + column * 4, mask)

        out.each(segment, group, rows)

    emit_products(k, [Segment((gate, up), 0)], epilogue)
