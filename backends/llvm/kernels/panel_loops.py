"""The loops of `linear` around matrix tiles: bf16 x, weights decoded to panels of 32 columns.

    for each chunk of columns of x, and for each panel:          a stage
        for each block of 32 tokens:
            sums += x * panel                                    matrix tiles, 2 x 2
            a share of the results of the block before           vector units, meanwhile
            a share of the decoding of the next stage's panel    vector units, meanwhile

Tiles are multiplied by a unit of its own, which falls behind the instructions: the vector work
between products is done while it catches up. A decoded panel stays in the first-level cache; x, or
a chunk of its columns, and unfinished sums stay in the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ggufc.backends.llvm.kernel import Kernel
from ggufc.backends.llvm.kernel_builder import I64, VOID, Val
from ggufc.backends.llvm.kernels.bf16_panel import PANEL_GROUPS, PIECE_K, decode_function
from ggufc.backends.llvm.kernels.linear_loops import Epilogue, Loops, Segment, Sums
from ggufc.backends.llvm.lowering.tiles import TILE_BYTES, TILE_ROW_BYTES, TILE_ROWS, tiles_of
from ggufc.backends.llvm.quants import BLOCK_K, format_for
from ggufc.ir.types import round_up

_PANEL_TILE_BYTES = PANEL_GROUPS * TILE_BYTES
_BLOCK_TOKENS = 2 * TILE_ROWS
_SUMS_STRIDE = PANEL_GROUPS * TILE_ROW_BYTES
_SUMS_BYTES = _BLOCK_TOKENS * _SUMS_STRIDE
# Tile registers: sums of 2 x 2 tiles, two of tokens, two of weights.
_SUMS, _X, _W = ((0, 1), (2, 3)), (4, 5), (6, 7)

# Tokens of a block of work; columns of a chunk at most, whose panel fills the first-level cache but
# for some lines of x; bytes of x that stay in the second-level cache.
_TOKENS, _COLUMNS, _KEPT_BYTES = 512, 640, 1200 << 10
# Panels that share a chunk of x where not all of x stays, and panels that are shared out together.
_RUN, _SHARE = 8, 4
# Parts that the products of a block are cut into, each with its share of vector work.
_SLICES = 16


@dataclass(frozen=True)
class Stage:
    """A panel times a chunk of `width` columns from `start` on; `slot` is the panel's place among
    those that share chunks."""

    panel: Val
    slot: Val
    start: Val
    width: Val
    last: Val

    @property
    def pieces(self) -> Val:
        """What the panel is decoded in: `PIECE_K` columns of a row group each."""
        return self.width // PIECE_K * PANEL_GROUPS


class PanelLoops(Loops):
    """Panels are of two row groups of one matrix, or one of each of two."""

    def __init__(self, k: Kernel, segments: list[Segment], epilogue: Epilogue) -> None:
        super().__init__(k, segments, epilogue)
        f, matrices = self.f, segments[0].matrices
        (x,) = k.signature.named("x")
        self._columns = matrices[0].k
        self._stride = x.type.dtype.nbytes(self._columns)
        self._groups = PANEL_GROUPS // len(matrices)
        tokens = round_up(min(_TOKENS, math.prod(x.type.max_shape[:-1])), _BLOCK_TOKENS)
        unit = max(m.layout.unit_k for s in segments for m in s.matrices)
        padded = round_up(self._columns, unit)
        self._chunks = -(-padded // (_COLUMNS // unit * unit))
        self._chunk = round_up(-(-padded // self._chunks), unit)
        stays = tokens * self._stride <= _KEPT_BYTES
        self._together = 1 if stays or self._chunks == 1 else self._panels_of_a_run()
        self._panel_bytes = self._chunk // BLOCK_K * _PANEL_TILE_BYTES
        self._tiles = f.alloca(2 * self._panel_bytes)
        self._sums_bytes = tokens // _BLOCK_TOKENS * _SUMS_BYTES
        self._sums = f.alloca(self._sums_bytes * self._together) if self._chunks > 1 else f.null()
        self._amx = tiles_of(f, k.isa)
        # The block whose results are to be written: its sums, of `rows` tokens or none.
        self._finished = f.alloca(2 * _SUMS_BYTES)
        self._parity, self._unwritten = f.var(I64, 0), f.var(I64, 0)
        self._panel, self._token = f.var(I64, 0), f.var(I64, 0)
        self._configured = f.var(I64, 0)

    def _panels_of_a_run(self) -> int:
        """About `_RUN`, so that there is an even number of equal runs for two threads."""
        panels = max(-(-s.groups // self._groups) for s in self.segments)
        runs = 2 * -(-panels // (2 * _RUN + 2))
        return -(-panels // runs)

    def emit(self) -> None:
        """Write the loops."""
        step = self._together if self._together > 1 else _SHARE
        self.each(self._groups, _TOKENS, self._panels, step)
        self._amx.release()

    def _panels(self, segment: Segment, low: Val, high: Val, token: Val, end: Val) -> None:
        f = self.f
        stages = (high - low) * self._chunks
        with f.if_(low < high):
            first = self._stage(low, high, f.const(I64, 0))
            self._decode(segment, first, self._tiles, f.const(I64, 0), first.pieces)
            with f.loop(stages, name="stage") as index:
                now = self._stage(low, high, index)
                after = self._stage(low, high, f.smin(index + 1, stages - 1))
                more = f.select(index + 1 < stages, after.pieces, f.const(I64, 0))
                self._multiply(segment, now, after, more, index & 1, token, end)
            self._finish(segment, f.const(I64, 0), self._unwritten.get())
            self._unwritten.set(0)

    def _stage(self, low: Val, high: Val, index: Val) -> Stage:
        """Chunk by chunk within a run of panels, run by run."""
        f, stages = self.f, self._together * self._chunks
        first, rest = low + index // stages * self._together, index % stages
        count = f.smin(high - first, self._together)
        chunk, slot = rest // count, rest % count
        start = chunk * self._chunk
        width = f.smin(start + self._chunk, self._columns) - start
        return Stage(first + slot, slot, start, width, chunk.eq(self._chunks - 1))

    # -- decoding ---------------------------------------------------------------------------------

    def _decode(self, segment: Segment, stage: Stage, tiles: Val, first: Val, stop: Val) -> None:
        """Decode the pieces [first, stop) of a stage, of one group and the other by turns."""
        f = self.f
        with f.loop(stop, first, name="piece") as piece:
            for half in range(PANEL_GROUPS):
                with f.if_((piece % PANEL_GROUPS).eq(half)):
                    self._decode_piece(segment, stage, tiles, half, piece // PANEL_GROUPS)

    def _decode_piece(
        self, segment: Segment, stage: Stage, tiles: Val, half: int, piece: Val
    ) -> None:
        f = self.f
        which, offset = divmod(half, self._groups)
        matrix, group = segment.matrices[which], stage.panel * self._groups + offset
        fmt = format_for(matrix.layout.name)
        decode, unit_k = decode_function(f.module, self.k.isa, fmt), fmt.layout.unit_k
        column = stage.start + piece * PIECE_K
        with f.if_(group < segment.groups):
            unit = matrix.group(group) + column // unit_k * fmt.layout.unit_bytes
            tile = tiles + piece * PIECE_K // BLOCK_K * _PANEL_TILE_BYTES + half * TILE_BYTES
            f.call(decode, VOID, [unit, column % unit_k, tile])

    # -- products ---------------------------------------------------------------------------------

    def _multiply(
        self,
        segment: Segment,
        now: Stage,
        after: Stage,
        pieces: Val,
        parity: Val,
        token: Val,
        end: Val,
    ) -> None:
        """Multiply a stage's panel by all tokens; decode the pieces of the stage after it."""
        f = self.f
        tiles, spare = (self._tiles + p * self._panel_bytes for p in (parity, parity ^ 1))
        blocks = (end - token + (_BLOCK_TOKENS - 1)) // _BLOCK_TOKENS
        each = (pieces + (blocks * _SLICES - 1)) // (blocks * _SLICES)
        with f.loop(blocks, name="block") as block:
            first = token + block * _BLOCK_TOKENS
            rows = f.smin(end - first, _BLOCK_TOKENS)
            sums = self._sums + (now.slot * self._sums_bytes + block * _SUMS_BYTES)
            self._begin(now, rows, sums)
            second = f.select(rows > TILE_ROWS, f.const(I64, TILE_ROWS * self._stride), 0)
            x = self.x + (first * self._stride + now.start * 2)
            with f.loop(_SLICES, name="slice") as part:
                steps = now.width // BLOCK_K
                low, high = steps * part // _SLICES, steps * (part + 1) // _SLICES
                with f.loop(high, low, name="k") as k:
                    self._step(x + k * TILE_ROW_BYTES, second, tiles + k * _PANEL_TILE_BYTES)
                share = _BLOCK_TOKENS // _SLICES
                stop = f.smin((part + 1) * share, self._unwritten.get())
                self._finish(segment, part * share, stop)
                done = (block * _SLICES + part) * each
                self._decode(segment, after, spare, done, f.smin(done + each, pieces))
            self._end(now, first, rows, sums)

    def _begin(self, stage: Stage, rows: Val, sums: Val) -> None:
        """Set the tiles to their numbers of rows, and to the sums of the chunks before."""
        f = self.f
        low = f.smin(rows, TILE_ROWS)
        with f.if_(rows.ne(self._configured.get())):
            # With one tile of tokens the second repeats it; nobody reads its sums.
            high = f.select(rows > TILE_ROWS, rows - TILE_ROWS, low)
            self._amx.configure([low, low, high, high, low, high, TILE_ROWS, TILE_ROWS])
            self._configured.set(rows)
        with f.if_(stage.start.eq(0)):
            for tile, _ in self._places(sums):
                self._amx.zero(tile)
        if self._chunks > 1:
            with f.if_(stage.start.ne(0)):
                for tile, place in self._places(sums):
                    self._amx.load(tile, place, _SUMS_STRIDE)

    def _places(self, sums: Val) -> list[tuple[int, Val]]:
        return [
            (_SUMS[r][c], sums + (r * TILE_ROWS * _SUMS_STRIDE + c * TILE_ROW_BYTES))
            for r in range(2)
            for c in range(PANEL_GROUPS)
        ]

    def _step(self, x: Val, second: Val, weights: Val) -> None:
        for c in range(PANEL_GROUPS):
            self._amx.load(_W[c], weights + c * TILE_BYTES, TILE_ROW_BYTES)
        for r, start in enumerate((x, x + second)):
            # Tokens pass once a panel: they should not drive the weights out of the first cache.
            self._amx.load(_X[r], start, self._stride, once=True)
            for c in range(PANEL_GROUPS):
                self._amx.multiply_bf16(_SUMS[r][c], _X[r], _W[c])

    def _end(self, stage: Stage, token: Val, rows: Val, sums: Val) -> None:
        """Store the sums: for the next chunk, or for the results."""
        f = self.f
        parity = self._parity.get() ^ 1
        target = f.select(stage.last, self._finished + parity * _SUMS_BYTES, sums)
        for tile, place in self._places(target):
            self._amx.store(tile, place, _SUMS_STRIDE)
        self._unwritten.set(f.select(stage.last, rows, f.const(I64, 0)))
        self._parity.set(parity)
        self._panel.set(stage.panel)
        self._token.set(token)

    # -- results ----------------------------------------------------------------------------------

    def _finish(self, segment: Segment, first: Val, stop: Val) -> None:
        """Write the results of the rows [first, stop) of the finished block."""
        f = self.f
        done = self._finished + self._parity.get() * _SUMS_BYTES
        with f.loop(stop, first, name="finish") as row:
            at = done + row * _SUMS_STRIDE
            halves = tuple(at + c * TILE_ROW_BYTES for c in range(PANEL_GROUPS))
            token = self._token.get() + row
            sums = [halves] if self._groups == 1 else [(half,) for half in halves]
            for i, pointers in enumerate(sums):
                group = self._panel.get() * self._groups + i
                with f.if_(group < segment.groups):
                    self.epilogue(segment, group, token, Sums(pointers, _SUMS_STRIDE, 1))
