"""Attention tiles whose sums are matrix registers: 32 rows by 32 keys or 32 elements of values.

A block of 16 keys by 32 elements of a bf16 cache is one matrix tile, and so is a block of 32
positions by 16 elements of values: they are used as they lie.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val, vec
from ggufc.backends.llvm.kernels.attention_operands import SUM_BYTES, SUMS
from ggufc.backends.llvm.kernels.attention_plan import Plan
from ggufc.backends.llvm.kernels.attention_tile import SCORE_STRIDE, Tile
from ggufc.backends.llvm.lowering.tiles import TILE_BYTES, TILE_ROW_BYTES, TILE_ROWS, tiles_of
from ggufc.backends.llvm.states import LANES
from ggufc.backends.llvm.vector_math import exp2_nonpositive

# Matrix registers: sums of 2 x 2 tiles, two of rows, two of a cache.
_SUMS, _ROWS, _CACHE = ((0, 1), (2, 3)), (4, 5), (6, 7)
_DEPTH = 32
# Rows whose scores are read side by side.
_MAXIMA_TOGETHER, _WEIGHTS_TOGETHER = 4, 2


class MatrixTile(Tile):
    """32 rows; needs bf16 caches and an instruction set with tiles."""

    def __init__(self, f: Function, isa: Isa, plan: Plan) -> None:
        super().__init__(f, isa, plan, bf16_factors=True)
        self._tiles = tiles_of(f, isa)
        self._tail = f.alloca(2 * TILE_BYTES)

    def begin(self) -> None:
        """All tiles have 16 rows."""
        self._tiles.configure([TILE_ROWS] * 8)

    def end(self) -> None:
        """Give the tiles up."""
        self._tiles.release()

    def _score(self, first: Val, keys: Val, ahead: Val, key: Val, target: Val) -> None:
        f, stride = self.f, self.state.q_stride
        q = self.state.q + first * stride
        for r, c in _pairs(2):
            self._tiles.zero(_SUMS[r][c])
        with f.loop(self.plan.keys.padded_dim // _DEPTH, name="depth") as i:
            tiles = [keys + i * TILE_BYTES + c * self.plan.keys.block_bytes for c in range(2)]
            self._multiply(q + i * TILE_ROW_BYTES, stride, tiles)
        for r, c in _pairs(2):
            place = target + (r * TILE_ROWS * SCORE_STRIDE + c * SUM_BYTES)
            self._tiles.store(_SUMS[r][c], place, SCORE_STRIDE)
        self._finish_scores(key, target)

    def _finish_scores(self, key: Val, target: Val) -> None:
        """Cap and mask the stored scores; keys that all rows see are left alone."""
        f, columns = self.f, range(self.plan.key_vectors)
        if self.plan.softcap > 0:
            with f.loop(self.plan.rows, name="cap") as row:
                for place in [target + row * SCORE_STRIDE + c * SUM_BYTES for c in columns]:
                    f.store(self._capped(f.load(place, SUMS)), place)
        with f.if_(self._is_partial(key)), f.loop(self.plan.rows, name="mask") as row:
            position = f.load(self.positions + row * 4, I32)
            for c in columns:
                place = target + row * SCORE_STRIDE + c * SUM_BYTES
                score = f.load(place, SUMS)
                f.store(self._masked(score, position, key.trunc(I32) + LANES * c), place)

    def _multiply(self, rows: Val, stride: int, cache: list[Val]) -> None:
        """Add the products of 32 rows of factors, `stride` bytes apart, and one or two tiles."""
        for r, tile in enumerate(_ROWS):
            self._tiles.load(tile, rows + r * TILE_ROWS * stride, stride)
        for c, pointer in enumerate(cache):
            self._tiles.load(_CACHE[c], pointer, TILE_ROW_BYTES)
        for r, c in _pairs(len(cache)):
            self._tiles.multiply_bf16(_SUMS[r][c], _ROWS[r], _CACHE[c])

    def _weigh_rows(self, first: Val, begin: Val, groups: Val) -> None:
        """Several rows at a time: a row alone waits for its maximum, then for its sum."""
        f, rows = self.f, self.plan.rows
        if self.plan.has_slopes:
            with f.loop(rows, name="row") as row:
                self._lower(first + row, row, begin, groups)
        with f.loop(rows, step=_MAXIMA_TOGETHER, name="maxima") as row:
            self._find_maxima(row, groups)
        for start in range(0, rows, LANES):
            self._raise_maxima(first + start, start)
        with f.loop(rows, step=_WEIGHTS_TOGETHER, name="weights") as row:
            self._store_weights(first, row, groups)

    def _find_maxima(self, row: Val, groups: Val) -> None:
        """The largest scores of rows from `row` on, to `rescale`."""
        f, columns = self.f, range(self.plan.key_vectors)
        scores = self.scores + row * SCORE_STRIDE
        largest = [f.var(SUMS, float("-inf")) for _ in range(_MAXIMA_TOGETHER)]
        with f.loop(groups, name="max") as group:
            at = scores + group * (len(columns) * SUM_BYTES)
            for r, most in enumerate(largest):
                for c in columns:
                    score = f.load(at, SUMS, r * SCORE_STRIDE + c * SUM_BYTES)
                    most.set(f.fmax(score, most.get()))
        for r, most in enumerate(largest):
            f.store(f.reduce_max(most.get()), self.rescale + row * 4, 4 * r)

    def _raise_maxima(self, kept: Val, start: int) -> None:
        """Update the maxima of 16 rows by what `rescale` holds, which becomes their rescaling."""
        f, maxima, rescale = self.f, self.state.maxima + kept * 4, self.rescale + 4 * start
        before = f.load(maxima, SUMS)
        maximum = f.fmax(f.load(rescale, SUMS), before)
        f.store(maximum, maxima)
        f.store(exp2_nonpositive(before - maximum), rescale)

    def _store_weights(self, first: Val, row: Val, groups: Val) -> None:
        """Turn the scores of rows from `row` on into weights, in place, and add these up."""
        f, operands, state = self.f, self.value_operands, self.state
        n, columns = _WEIGHTS_TOGETHER, range(self.plan.key_vectors)
        scores, kept = self.scores + row * SCORE_STRIDE, first + row
        sums, maxima, rescale = state.sums + kept * SUM_BYTES, state.maxima + kept * 4, row * 4
        totals = []
        for r in range(n):
            factor = f.load(self.rescale + rescale, F32, 4 * r).splat(LANES)
            totals.append(f.var(SUMS, f.load(sums, SUMS, r * SUM_BYTES) * factor))
        offsets = [f.load(maxima, F32, 4 * r).splat(LANES) for r in range(n)]
        width = LANES * operands.factor_bytes
        with f.loop(groups, name="weight") as group:
            source = scores + group * (len(columns) * SUM_BYTES)
            target = scores + group * (len(columns) * width)
            for r, (total, offset) in enumerate(zip(totals, offsets, strict=True)):
                at = r * SCORE_STRIDE
                read = [f.load(source, SUMS, at + c * SUM_BYTES) for c in columns]
                for c, score in enumerate(read):
                    weight = exp2_nonpositive(score - offset, operands.exp2_coefficients)
                    total.set(total.get() + weight)
                    operands.store_factors(weight, target, at + c * width)
        for r, total in enumerate(totals):
            f.store(total.get(), sums, r * SUM_BYTES)

    def _mix(self, first: Val, values: Val, ahead: Val, count: Val) -> None:
        f, plan = self.f, self.plan
        self._rescale_outputs(first)
        groups, rest = divmod(plan.chunks, 2)
        with f.loop(groups, name="chunk") as group:
            self._mix_chunks(first, values, count, group * 2, 2)
        if rest:
            self._mix_chunks(first, values, count, f.const(I64, groups * 2), 1)

    def _rescale_outputs(self, first: Val) -> None:
        f, state = self.f, self.state
        with f.loop(self.plan.rows, name="rescale") as row:
            factor = f.load(self.rescale + row * 4, F32).splat(LANES)
            outputs = state.outputs + (first + row) * state.output_stride
            for i in range(self.plan.chunks):
                f.store(f.load(outputs, SUMS, i * SUM_BYTES) * factor, outputs, i * SUM_BYTES)

    def _mix_chunks(self, first: Val, values: Val, count: Val, chunk: Val, n: int) -> None:
        """Add the weighted values of `n` chunks of 16 elements."""
        f, layout, stride = self.f, self.plan.values, self.state.output_stride
        outputs = self.state.outputs + first * stride + chunk * SUM_BYTES
        places = {(r, c): outputs + (r * TILE_ROWS * stride + c * SUM_BYTES) for r, c in _pairs(n)}
        for (r, c), place in places.items():
            self._tiles.load(_SUMS[r][c], place, stride)
        start = values + chunk * layout.chunk_bytes
        whole = count // layout.block
        with f.loop(whole, name="block") as block:
            tiles = [start + block * layout.block_bytes + c * TILE_BYTES for c in range(n)]
            self._multiply(self.scores + block * TILE_ROW_BYTES, SCORE_STRIDE, tiles)
        rest = count % layout.block
        with f.if_(rest.ne(0)):
            tiles = [self._tail + c * TILE_BYTES for c in range(n)]
            self._copy_tail(start + whole * layout.block_bytes, rest, n)
            self._multiply(self.scores + whole * TILE_ROW_BYTES, SCORE_STRIDE, tiles)
        for (r, c), place in places.items():
            self._tiles.store(_SUMS[r][c], place, stride)

    def _copy_tail(self, values: Val, count: Val, n: int) -> None:
        """Copy a block of values with zeros from position `count` on."""
        f, words = self.f, vec(I32, LANES)
        with f.loop(TILE_ROWS, name="pair") as pair:
            first, both = pair * 2 < count, pair * 2 + 1 < count
            mask = f.select(both, f.const(I32, -1), f.select(first, f.const(I32, 0xFFFF), 0))
            for c in range(n):
                at = pair * TILE_ROW_BYTES + c * TILE_BYTES
                kept = f.load(values + at, words) & mask.splat(LANES)
                f.store(kept, self._tail + at)


def _pairs(columns: int) -> list[tuple[int, int]]:
    return [(r, c) for r in range(2) for c in range(columns)]
