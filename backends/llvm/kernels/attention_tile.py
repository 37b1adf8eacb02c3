"""The inner part of attention: a tile of rows against a block of keys and values.

Scores of the block are computed to a stack buffer, turned into weights there (softmax with a
running maximum), and the weighted values added to the rows' outputs. All buffers belong to the
thread. How products are made is left to `VectorTile` and `MatrixTile`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val, vec
from ggufc.backends.llvm.kernels.attention_operands import SUM_BYTES, SUMS, Operands
from ggufc.backends.llvm.kernels.attention_plan import KEY_BLOCK, Plan
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.llvm.states import LANES, VECTOR_BYTES
from ggufc.backends.llvm.vector_math import exp2_nonpositive, muladd, tanh

LOG2_E = 1.4426950408889634
# Below every score, and finite, so that its difference to a masked score is -inf and not NaN.
LOWEST = -1e30
# Rows of scores lie a cache line further apart than a power of two.
SCORE_STRIDE = 4 * KEY_BLOCK + VECTOR_BYTES


class RowState:
    """What rows keep between blocks of keys: factors of q, maxima, sums of weights, outputs."""

    def __init__(self, f: Function, plan: Plan, operands: Operands) -> None:
        count = plan.rows * plan.tiles
        self.q_stride = plan.keys.padded_dim * operands.factor_bytes
        self.output_stride = plan.chunks * SUM_BYTES
        self.q = f.alloca(count * self.q_stride)
        self.maxima = f.alloca(4 * count)
        self.sums = f.alloca(SUM_BYTES * count)
        self.outputs = f.alloca(self.output_stride * count)
        self.slopes = f.alloca(4 * count) if plan.has_slopes else None


class Tile(ABC):
    """Emits the computation of one tile; `first` is the tile's first row within its `RowState`."""

    def __init__(self, f: Function, isa: Isa, plan: Plan, bf16_factors: bool) -> None:
        self.f, self.plan = f, plan
        self.key_operands = Operands(f, isa, plan.keys, bf16_factors)
        self.value_operands = Operands(f, isa, plan.values, bf16_factors)
        self.state = RowState(f, plan, self.key_operands)
        self.scores = f.alloca(plan.rows * SCORE_STRIDE)
        self.positions = f.alloca(4 * plan.rows)
        self.rescale = f.alloca(4 * plan.rows)

    @abstractmethod
    def begin(self) -> None:
        """Emitted once before the first tile."""

    @abstractmethod
    def end(self) -> None:
        """Emitted once after the last tile."""

    def attend(self, first: Val, keys: Val, values: Val, begin: Val, count: Val) -> None:
        """Add keys begin .. begin + count to the rows; pointers are at position 0 of the head.

        `positions` holds the rows' positions, in order. Where memory sets the pace it is asked for
        early: the block's values while its keys are used, and what follows the keys while its
        values are.
        """
        f, plan = self.f, self.plan
        step = LANES * plan.key_vectors
        groups = (count + (step - 1)) // step
        with f.loop(groups, name="keys") as group:
            key = begin + group * step
            vectors, ahead = (
                pointer + key * layout.row_bytes
                for pointer, layout in ((keys, plan.keys), (values, plan.values))
            )
            self._score(first, vectors, ahead, key, self.scores + group * (4 * step))
        self._weigh_rows(first, begin, groups)
        ahead = keys + (begin + count) * plan.keys.row_bytes
        self._mix(first, values + begin * plan.values.row_bytes, ahead, count)

    @abstractmethod
    def _score(self, first: Val, keys: Val, ahead: Val, key: Val, target: Val) -> None:
        """Store scores of `key_vectors` vectors of keys, from `key` on, at `target`, masked."""

    @abstractmethod
    def _mix(self, first: Val, values: Val, ahead: Val, count: Val) -> None:
        """Rescale the outputs and add the weighted values of the block's `count` keys.

        Of memory beyond those keys nothing may reach the outputs.
        """

    # -- scores and weights ---------------------------------------------------------------------

    def _capped(self, score: Val) -> Val:
        """A score in units of log 2 from what the product of q's factors and a key gives."""
        if self.plan.softcap > 0:
            return tanh(score) * (self.plan.softcap * LOG2_E)
        return score

    def _is_partial(self, key: Val) -> Val:
        """Whether some row does not see some of the keys that are scored together from `key` on."""
        f, plan = self.f, self.plan
        lowest = f.load(self.positions, I32).sext(I64)
        partial = key + LANES * plan.key_vectors > lowest + 1
        if not plan.window:
            return partial
        highest = f.load(self.positions, I32, 4 * (plan.rows - 1)).sext(I64)
        return partial | (key <= highest - plan.window)

    def _masked(self, score: Val, position: Val, key: Val) -> Val:
        """-inf in the lanes of keys, from `key` (i32) on, that a row at `position` does not see."""
        f = self.f
        keys = f.const_lanes(I32, range(LANES)) + key.splat(LANES)
        seen = (position.splat(LANES) - keys).ult(self.plan.window or 1 << 31)
        return f.select(seen, score, float("-inf"))

    def _lower(self, kept: Val, row: Val, begin: Val, groups: Val) -> None:
        """Take slope x distance from a row's scores of keys from `begin` on, if it has a slope."""
        f, slopes = self.f, self.state.slopes
        if slopes is None:
            return
        scores, slope = self.scores + row * SCORE_STRIDE, f.load(slopes + kept * 4, F32)
        position = f.load(self.positions + row * 4, I32)
        first = f.const_lanes(I32, range(LANES)) + (begin.trunc(I32) - position).splat(LANES)
        with f.loop(groups * self.plan.key_vectors, name="lower") as i:
            place = scores + i * SUM_BYTES
            nearness = (first + (i.trunc(I32) * LANES).splat(LANES)).sitofp()
            f.store(muladd(nearness, slope.splat(LANES), f.load(place, SUMS)), place)

    def _weigh_rows(self, first: Val, begin: Val, groups: Val) -> None:
        """Turn the scores of all rows into weights."""
        with self.f.loop(self.plan.rows, name="row") as row:
            self._lower(first + row, row, begin, groups)
            self._weigh(first + row, row, groups)

    def _weigh(self, kept: Val, row: Val, groups: Val) -> None:
        """Turn a row's scores into factors 2^(score - maximum), in place, and update its state."""
        f, state, operands = self.f, self.state, self.value_operands
        scores, count = self.scores + row * SCORE_STRIDE, groups * self.plan.key_vectors
        largest = f.var(SUMS, float("-inf"))
        with f.loop(count, name="max") as i:
            largest.set(f.fmax(f.load(scores + i * SUM_BYTES, SUMS), largest.get()))
        before = f.load(state.maxima + kept * 4, F32)
        maximum = f.fmax(f.reduce_max(largest.get()), before)
        f.store(maximum, state.maxima + kept * 4)
        rescale = exp2_nonpositive(before - maximum)
        f.store(rescale, self.rescale + row * 4)
        sums_at, offset = state.sums + kept * SUM_BYTES, maximum.splat(LANES)
        total = f.var(SUMS, f.load(sums_at, SUMS) * rescale)
        with f.loop(count, name="weight") as i:
            score = f.load(scores + i * SUM_BYTES, SUMS)
            weight = exp2_nonpositive(score - offset, operands.exp2_coefficients)
            total.set(total.get() + weight)
            operands.store_factors(weight, scores + i * (LANES * operands.factor_bytes))
        f.store(total.get(), sums_at)

    # -- rows -----------------------------------------------------------------------------------

    def start_row(self, kept: Val, q: Val) -> None:
        """Begin a row: its query, scaled, as factors; no keys seen."""
        f, plan, state = self.f, self.plan, self.state
        self._start_query(q, state.q + kept * state.q_stride)
        f.store(f.const(F32, LOWEST), state.maxima + kept * 4)
        f.store(f.const(SUMS, 0.0), state.sums + kept * SUM_BYTES)
        outputs = state.outputs + kept * state.output_stride
        for i in range(plan.chunks):
            f.store(f.const(SUMS, 0.0), outputs, i * SUM_BYTES)

    def start_slope(self, kept: Val, slope: Val) -> None:
        """Give a row its slope."""
        if self.state.slopes is not None:
            self.f.store(slope * LOG2_E, self.state.slopes + kept * 4)

    def start_sink(self, kept: Val, sink: Val) -> None:
        """Let a row that has seen no keys begin with the weight of its sink."""
        f, state = self.f, self.state
        f.store(sink * LOG2_E, state.maxima + kept * 4)
        f.store(f.const(SUMS, 0.0).with_lane(0, 1.0), state.sums + kept * SUM_BYTES)

    def _start_query(self, q: Val, target: Val) -> None:
        """Factors of a query, and zeros up to the padded length of a key."""
        f, plan, operands = self.f, self.plan, self.key_operands
        factor = plan.scale / plan.softcap if plan.softcap > 0 else plan.scale * LOG2_E
        for start, lanes in segments(plan.keys.dim):
            row = load_row(f, q, start, lanes) * factor
            operands.store_factors(row, target, start * operands.factor_bytes)
        for start in range(plan.keys.dim, plan.keys.padded_dim):
            zero = f.const(vec(F32, 1), 0.0)
            operands.store_factors(zero, target, start * operands.factor_bytes)

    def store_part(self, kept: Val, out: Val) -> None:
        """Store a row of a part: its output as it is, the largest score, the sum of its weights."""
        f, state, dim = self.f, self.state, self.plan.values.dim
        outputs = state.outputs + kept * state.output_stride
        for start, lanes in segments(dim):
            f.store(load_row(f, outputs, start, lanes), out, 4 * start)
        f.store(f.load(state.maxima + kept * 4, F32), out, 4 * dim)
        total = f.reduce_add(f.load(state.sums + kept * SUM_BYTES, SUMS))
        f.store(total, out, 4 * dim + 4)

    def finish_row(self, kept: Val, out: Val) -> None:
        """Store a row's output, divided by the sum of its weights."""
        f, state = self.f, self.state
        total = f.reduce_add(f.load(state.sums + kept * SUM_BYTES, SUMS))
        inverse = f.const(F32, 1.0) / total
        outputs = state.outputs + kept * state.output_stride
        for start, lanes in segments(self.plan.values.dim):
            f.store(load_row(f, outputs, start, lanes) * inverse, out, 4 * start)
