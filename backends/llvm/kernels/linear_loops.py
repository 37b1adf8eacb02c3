"""The loops around the innermost functions of `linear`, which share work out over threads.

Work is cut into pieces of output rows times blocks of tokens, of which threads take contiguous
runs. Within a block of tokens the activations stay in the cache while the weights pass once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ggufc.backends.llvm.kernel import Kernel, OperandSignature
from ggufc.backends.llvm.kernel_builder import F32, I64, VOID, Val, vec
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.kernels.linear_tiles import tile_function
from ggufc.backends.llvm.kernels.tile import TileShape, tile_shapes
from ggufc.backends.llvm.layouts import GROUP_ROWS, Layout, layout_named
from ggufc.backends.llvm.optimize import CodegenError
from ggufc.backends.llvm.quants import FORMATS
from ggufc.ir.types import max_dim

# Activations of one block of tokens: at most half of the second-level cache of most processors.
_BLOCK_BYTES = 256 << 10
# Blocks have multiples of this many tokens, so that tiles fill them: the widest have 8 or, of
# bf16, 32.
_UNIT_TOKENS = 32

ROW = vec(F32, GROUP_ROWS)


@dataclass(frozen=True)
class Matrix:
    """A packed weight [rows, k] and its pointer."""

    pointer: Val
    layout: Layout
    rows: int
    k: int

    @property
    def groups(self) -> int:
        """Groups of 16 rows."""
        return -(-self.rows // GROUP_ROWS)

    def group(self, index: Val) -> Val:
        """Where a row group begins."""
        return self.pointer + index * self.layout.group_bytes(self.k)


@dataclass(frozen=True)
class Segment:
    """Output columns from `column` on: of one matrix, or of several equal in shape and combined."""

    matrices: tuple[Matrix, ...]
    column: int

    @property
    def rows(self) -> int:
        return self.matrices[0].rows

    @property
    def groups(self) -> int:
        return self.matrices[0].groups


@dataclass(frozen=True)
class Sums:
    """Products of one row group with `tokens` tokens: for each matrix a pointer to rows of 16."""

    pointers: tuple[Val, ...]
    stride: int
    tokens: int

    def load(self, matrix: int, token: Val | int) -> Val:
        """The 16 sums of a token."""
        f = self.pointers[0].f
        return f.load(self.pointers[matrix] + f.coerce(token, I64) * self.stride, ROW)


# What is done with the sums of a segment's row group, from a token on.
Epilogue = Callable[[Segment, Val, Val, Sums], None]
# The pieces [low, high) of a segment for the tokens [token, end).
Body = Callable[[Segment, Val, Val, Val, Val], None]


def matrices(k: Kernel, name: str) -> list[Matrix]:
    """The weights of an operand name."""
    pairs = zip(k.signature.named(name), k.pointers(name), strict=True)
    return [_matrix(operand, pointer) for operand, pointer in pairs]


def _matrix(operand: OperandSignature, pointer: Val) -> Matrix:
    rows, columns = operand.type.max_shape
    return Matrix(pointer, layout_named(operand.layout or ""), rows, columns)


def check_activation(k: Kernel, layout: Layout) -> None:
    """A CodegenError where x is not what weights in this layout are multiplied with."""
    (x,) = k.signature.named("x")
    if layout.name not in FORMATS and x.type.dtype.name != "f32":
        raise CodegenError(
            f"a weight in layout {layout.name} cannot be multiplied with {x.type.dtype} "
            "activations; it takes f32"
        )


class Loops:
    """A thread's run of pieces: `size` row groups each, times blocks of `block_tokens`."""

    def __init__(self, k: Kernel, segments: list[Segment], epilogue: Epilogue) -> None:
        self.k, self.f, self.segments, self.epilogue = k, k.f, segments, epilogue
        self.x = k.pointer("x")

    def each(self, size: int, block_tokens: int, body: Body, step: int = 1) -> None:
        """Call `body` for this thread's parts, of `step` pieces or a multiple, of every segment and
        block."""
        counts = [-(-segment.groups // size) for segment in self.segments]
        with self._blocks(sum(counts), block_tokens, step) as (token, end, first, last):
            start = 0
            for segment, count in zip(self.segments, counts, strict=True):
                low, high = (self.clamp(at - start, count) for at in (first, last))
                body(segment, low, high, token, end)
                start += count

    @contextmanager
    def _blocks(self, pieces: int, most: int, step: int) -> Iterator[tuple[Val, Val, Val, Val]]:
        """For each of this thread's blocks, of about `most` tokens or less: [token, end), and its
        range of pieces. Blocks are equal but for the last, which has few tokens less."""
        f, n = self.f, self.k.n
        count = f.smax((n + (most - 1)) // most, 1)
        each = (n + (count - 1)) // count
        size = f.smax((each + (_UNIT_TOKENS - 1)) & -_UNIT_TOKENS, _UNIT_TOKENS)
        blocks = (n + (size - 1)) // size
        with self.k.shares(blocks * pieces, step) as (begin, end):
            stop = (end + (pieces - 1)) // pieces
            with f.loop(stop, begin // pieces, name="block") as block:
                first, last = (self.clamp(at - block * pieces, pieces) for at in (begin, end))
                yield block * size, f.smin((block + 1) * size, n), first, last

    def clamp(self, value: Val, limit: int) -> Val:
        """The value, at least 0 and at most `limit`."""
        zero, top = self.f.const(I64, 0), self.f.const(I64, limit)
        return self.f.smax(zero, self.f.smin(value, top))


class TileLoops(Loops):
    """Tiles of 16 rows by a few tokens over all of K: quantised x, or float32."""

    def emit(self) -> None:
        """Write the loops."""
        (x,) = self.k.signature.named("x")
        columns = max_dim(x.type.shape[-1])
        self._activation = x.type.dtype.name
        self._stride = Q8aRow(columns).stride if self._activation == "q8a" else 4 * columns
        most = max_dim(x.type.shape[0])
        self._shapes = [s for s in tile_shapes(self.k.isa) if s.tokens == 1 or s.tokens <= most]
        widest = self._shapes[0].tokens
        row = GROUP_ROWS * 4
        pointers = tuple(self.f.alloca(widest * row) for _ in self.segments[0].matrices)
        self._sums = {s.tokens: Sums(pointers, row, s.tokens) for s in self._shapes}
        touched = self._stride if self._activation != "q8a" else Q8aRow(columns).residuals
        block = max(2, _BLOCK_BYTES // (touched * widest)) * widest
        self.each(1, block, self._groups)

    def _groups(self, segment: Segment, low: Val, high: Val, token: Val, end: Val) -> None:
        f = self.f
        with f.loop(high, low, name="group") as group:
            for shape in self._shapes:
                stop = token + (end - token) // shape.tokens * shape.tokens
                with f.loop(stop, token, step=shape.tokens, name="tile") as t:
                    self._multiply(segment, group, t, shape)
                    self.epilogue(segment, group, t, self._sums[shape.tokens])
                token = stop

    def _multiply(self, segment: Segment, group: Val, token: Val, shape: TileShape) -> None:
        x = self.x + token * self._stride
        ahead = self.k.signature.phase == "decode"
        module, isa = self.f.module, self.k.isa
        for matrix, sums in zip(segment.matrices, self._sums[shape.tokens].pointers, strict=True):
            tile = tile_function(
                module,
                isa,
                matrix.layout,
                matrix.k,
                shape,
                prefetch=ahead,
                activation=self._activation,
            )
            self.f.call(tile, VOID, [matrix.group(group), x, sums])
