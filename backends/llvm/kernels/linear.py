"""`linear` and `linear_glu`: products of activations with packed weights.

Work is cut into row groups times blocks of tokens, which every thread takes a contiguous run of. Within a block of
tokens the activations stay in the second-level cache while the weights pass once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ggufc.backends.llvm import vector_math
from ggufc.backends.llvm.kernel import Kernel, OperandSignature, kernel
from ggufc.backends.llvm.kernel_builder import F32, I1, I64, VOID, Val, vec
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.kernels.linear_tiles import tile_function
from ggufc.backends.llvm.kernels.tile import TileShape, tile_shapes
from ggufc.backends.llvm.layouts import GROUP_ROWS, Layout, layout_named
from ggufc.ir.types import max_dim

# Activations of one block of tokens: half of the second-level cache of most processors.
_BLOCK_BYTES = 256 << 10
_ROW = vec(F32, GROUP_ROWS)


@dataclass(frozen=True)
class Matrix:
    """A packed weight [rows, k] and its pointer."""

    pointer: Val
    layout: Layout
    rows: int
    k: int

    @property
    def groups(self) -> int:
        return -(-self.rows // GROUP_ROWS)

    def group(self, index: Val) -> Val:
        """Where a row group begins."""
        return self.pointer + index * self.layout.group_bytes(self.k)


@dataclass(frozen=True)
class Segment:
    """Output columns [column, column + rows): one matrix, or several whose rows are combined."""

    matrices: tuple[Matrix, ...]
    column: int

    @property
    def rows(self) -> int:
        return self.matrices[0].rows

    @property
    def groups(self) -> int:
        return self.matrices[0].groups


def matrices(k: Kernel, name: str) -> list[Matrix]:
    """The weights of an operand name."""
    pairs = zip(k.signature.named(name), k.pointers(name), strict=True)
    return [_matrix(operand, pointer) for operand, pointer in pairs]


def _matrix(operand: OperandSignature, pointer: Val) -> Matrix:
    rows, columns = operand.type.max_shape
    return Matrix(pointer, layout_named(operand.layout or ""), rows, columns)


class LinearLoops:
    """The loops of one kernel: over this thread's token blocks, row groups and token tiles."""

    def __init__(self, k: Kernel, segments: list[Segment]) -> None:
        self.k, self.f, self.segments = k, k.f, segments
        (x,) = k.signature.named("x")
        columns = max_dim(x.type.shape[-1])
        self.x_stride = Q8aRow(columns).stride if x.type.dtype.name == "q8a" else 4 * columns
        self.shapes = tile_shapes(k.isa)
        self.x = k.pointer("x")
        widest = self.shapes[0].tokens
        self.block_tokens = max(2, _BLOCK_BYTES // (self.x_stride * widest)) * widest
        self.groups = sum(s.groups for s in segments)
        sums = widest * GROUP_ROWS * 4
        self.sums = [self.f.alloca(sums) for _ in segments[0].matrices]

    def emit(self, epilogue: Callable[[Segment, Val, Val, int], None]) -> None:
        """Call `epilogue(segment, group, token, tokens)` wherever the sums of a tile are ready."""
        with self._token_blocks() as (block, first, last):
            start = 0
            for segment in self.segments:
                low, high = (self._clamp(g - start, segment.groups) for g in (first, last))
                with self.f.loop(high, low, name="group") as group:
                    self._tiles(segment, group, block, epilogue)
                start += segment.groups

    @contextmanager
    def _token_blocks(self) -> Iterator[tuple[Val, Val, Val]]:
        """For each of this thread's token blocks: its number and the range of row groups."""
        count = (self.k.n + (self.block_tokens - 1)) // self.block_tokens
        begin, end = self.k.share(count * self.groups)
        stop = (end + (self.groups - 1)) // self.groups
        with self.f.loop(stop, begin // self.groups, name="tokens") as block:
            before = block * self.groups
            first, last = (self._clamp(at - before, self.groups) for at in (begin, end))
            yield block, first, last

    def _clamp(self, value: Val, limit: int) -> Val:
        zero, top = self.f.const(I64, 0), self.f.const(I64, limit)
        return self.f.smax(zero, self.f.smin(value, top))

    def _tiles(
        self,
        segment: Segment,
        group: Val,
        block: Val,
        epilogue: Callable[[Segment, Val, Val, int], None],
    ) -> None:
        f = self.f
        token = block * self.block_tokens
        end = f.smin(token + self.block_tokens, self.k.n)
        for shape in self.shapes:
            stop = token + (end - token) // shape.tokens * shape.tokens
            with f.loop(stop, token, step=shape.tokens, name="tile") as t:
                self._multiply(segment, group, t, shape)
                epilogue(segment, group, t, shape.tokens)
            token = stop

    def _multiply(self, segment: Segment, group: Val, token: Val, shape: TileShape) -> None:
        x = self.x + token * self.x_stride
        ahead = self.k.signature.phase == "decode"
        for matrix, sums in zip(segment.matrices, self.sums, strict=True):
            tile = tile_function(
                self.f.module, self.k.isa, matrix.layout, matrix.k, shape, prefetch=ahead
            )
            self.f.call(tile, VOID, [matrix.group(group), x, sums])


class Output:
    """Stores rows of 16 results, fewer in the last group of a segment."""

    def __init__(self, k: Kernel, columns: int) -> None:
        self.k, self.f, self.columns = k, k.f, columns

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
        if mask is None:
            return self.f.load(pointer, _ROW)
        return self.f.masked_load(pointer, _ROW, mask)

    def store(self, value: Val, pointer: Val, mask: Val | None) -> None:
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
    loops, out = LinearLoops(k, segments), Output(k, column)
    bias, residual = k.pointers("bias"), k.pointers("residual")

    def epilogue(segment: Segment, group: Val, token: Val, tokens: int) -> None:
        def rows(column: Val, mask: Val | None) -> None:
            biases = [out.load(b + column * 4, mask) for b in bias]
            for i in range(tokens):
                value = k.f.load(loops.sums[0], _ROW, 4 * GROUP_ROWS * i)
                for addend in biases:
                    value = value + addend
                for r in residual:
                    value = value + out.load(out.at(r, token + i, column), mask)
                out.store(value, out.at(k.result(), token + i, column), mask)

        out.each(segment, group, rows)

    loops.emit(epilogue)


@kernel("linear_glu")
def emit_linear_glu(k: Kernel) -> None:
    """activation(x gate^T) * (x up^T), both of a row group in one pass."""
    (gate,), (up,) = matrices(k, "gate"), matrices(k, "up")
    loops, out = LinearLoops(k, [Segment((gate, up), 0)]), Output(k, gate.rows)
    activation = {"silu": vector_math.silu, "gelu_tanh": vector_math.gelu_tanh}[
        k.signature.attribute("activation")
    ]

    def epilogue(segment: Segment, group: Val, token: Val, tokens: int) -> None:
        def rows(column: Val, mask: Val | None) -> None:
            with k.f.loop(tokens, name="row") as i:
                g, u = (k.f.load(sums + i * (4 * GROUP_ROWS), _ROW) for sums in loops.sums)
                out.store(activation(g) * u, out.at(k.result(), token + i, column), mask)

        out.each(segment, group, rows)

    loops.emit(epilogue)
