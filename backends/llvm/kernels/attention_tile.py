"""The inner part of attention: a tile of rows against a block of keys and values.

Scores of the block are computed to a stack buffer, turned into weights there (softmax with a
running maximum), and the weighted values added to the rows' outputs. All buffers belong to the
thread.
"""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val, Var, vec
from ggufc.backends.llvm.kernels.attention_operands import SUMS, Operands
from ggufc.backends.llvm.kernels.attention_plan import KEY_BLOCK, Plan
from ggufc.backends.llvm.kernels.rows import load_row, segments
from ggufc.backends.llvm.states import LANES, VECTOR_BYTES
from ggufc.backends.llvm.vector_math import exp2_nonpositive, tanh

LOG2_E = 1.4426950408889634
# Below every score, and finite, so that its difference to a masked score is -inf and not NaN.
LOWEST = -1e30
# Rows of scores lie a cache line further apart than a power of two.
_SCORE_STRIDE = 4 * KEY_BLOCK + VECTOR_BYTES
_SUM_BYTES = 4 * LANES


class RowState:
    """What rows keep between blocks of keys: factors of q, maxima, sums of weights, outputs."""

    def __init__(self, f: Function, plan: Plan, operands: Operands) -> None:
        count = plan.rows * plan.tiles
        self.q_stride = plan.keys.padded_dim * operands.factor_bytes
        self.output_stride = plan.chunks * _SUM_BYTES
        self.q = f.alloca(count * self.q_stride)
        self.maxima = f.alloca(4 * count)
        self.sums = f.alloca(_SUM_BYTES * count)
        self.outputs = f.alloca(self.output_stride * count)


class Tile:
    """Emits the computation of one tile; `first` is the tile's first row within its `RowState`."""

    def __init__(self, f: Function, isa: Isa, plan: Plan) -> None:
        self.f, self.plan = f, plan
        # Sixteen registers hold the sums; the loads of a second step would push some of them out.
        self._unroll = 4 if isa.registers >= 32 else 1
        self.key_operands = Operands(f, isa, plan.keys)
        self.value_operands = Operands(f, isa, plan.values)
        self.state = RowState(f, plan, self.key_operands)
        self.scores = f.alloca(plan.rows * _SCORE_STRIDE)
        self.positions = f.alloca(4 * plan.rows)
        self.rescale = f.alloca(4 * plan.rows)

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
            tile, ahead = (
                pointer + key * layout.row_bytes
                for pointer, layout in ((keys, plan.keys), (values, plan.values))
            )
            self._score(first, tile, ahead, key, self.scores + group * (4 * step))
        with f.loop(plan.rows, name="row") as row:
            self._weigh(first + row, row, groups)
        ahead = keys + (begin + count) * plan.keys.row_bytes
        self._mix(first, values + begin * plan.values.row_bytes, ahead, count)

    # -- scores ---------------------------------------------------------------------------------

    def _score(self, first: Val, tile: Val, ahead: Val, key: Val, target: Val) -> None:
        """Scores of `key_vectors` vectors of keys, from `key` on, masked, to `target`."""
        f, plan, operands = self.f, self.plan, self.key_operands
        n = plan.key_vectors
        sums = [[f.var(SUMS, 0.0) for _ in range(n)] for _ in range(plan.rows)]
        q = self.state.q + first * self.state.q_stride
        blocks = [i * plan.keys.block_bytes for i in range(n)]
        vectors = [tile + block for block in blocks]
        steps = -(-plan.keys.dim // operands.pair)
        whole = steps // self._unroll * self._unroll
        if whole:
            with f.loop(whole, step=self._unroll, name="step") as i:
                at = [v + i * VECTOR_BYTES for v in vectors]
                factors = q + i * operands.step_factor_bytes
                self._prefetch([ahead + block + i * VECTOR_BYTES for block in blocks], self._unroll)
                for u in range(self._unroll):
                    self._multiply(operands, sums, at, factors, self.state.q_stride, u)
        for u in range(whole, steps):
            self._multiply(operands, sums, vectors, q, self.state.q_stride, u)
        self._cap(sums)
        self._mask(sums, key)
        for r, row in enumerate(sums):
            for i, s in enumerate(row):
                f.store(s.get(), target, r * _SCORE_STRIDE + i * _SUM_BYTES)

    def _multiply(
        self,
        operands: Operands,
        sums: list[list[Var]],
        vectors: list[Val],
        factors: Val,
        stride: int,
        step: int,
        first_only: bool = False,
    ) -> None:
        """One step of every row with every vector."""
        loaded = [operands.step(v, step * VECTOR_BYTES, first_only=first_only) for v in vectors]
        for r, row in enumerate(sums):
            own = operands.factors(factors, r * stride + step * operands.step_factor_bytes)
            for s, parts in zip(row, loaded, strict=True):
                for part, factor in zip(parts, own, strict=True):
                    s.set(operands.multiply_add(s.get(), part, factor))

    def _cap(self, sums: list[list[Var]]) -> None:
        if self.plan.softcap > 0:
            for s in (s for row in sums for s in row):
                s.set(tanh(s.get()) * (self.plan.softcap * LOG2_E))

    def _mask(self, sums: list[list[Var]], key: Val) -> None:
        """-inf where a row may not see a key; whole vectors that all rows see are left alone."""
        f, plan = self.f, self.plan
        lowest = f.load(self.positions, I32).sext(I64)
        partial = key + LANES * plan.key_vectors > lowest + 1
        if plan.window:
            highest = f.load(self.positions, I32, 4 * (plan.rows - 1)).sext(I64)
            partial = partial | (key <= highest - plan.window)
        with f.if_(partial):
            lanes = f.const_lanes(I32, range(LANES)) + key.trunc(I32).splat(LANES)
            for r, row in enumerate(sums):
                position = f.load(self.positions, I32, 4 * r).splat(LANES)
                for i, s in enumerate(row):
                    distance = position - (lanes + LANES * i)
                    seen = distance.ult(plan.window or 1 << 31)
                    s.set(f.select(seen, s.get(), float("-inf")))

    # -- weights --------------------------------------------------------------------------------

    def _weigh(self, kept: Val, row: Val, groups: Val) -> None:
        """Turn a row's scores into factors 2^(score - maximum), in place, and update its state."""
        f, state, operands = self.f, self.state, self.value_operands
        scores, count = self.scores + row * _SCORE_STRIDE, groups * self.plan.key_vectors
        largest = f.var(SUMS, float("-inf"))
        with f.loop(count, name="max") as i:
            largest.set(f.fmax(f.load(scores + i * _SUM_BYTES, SUMS), largest.get()))
        before = f.load(state.maxima + kept * 4, F32)
        maximum = f.fmax(f.reduce_max(largest.get()), before)
        f.store(maximum, state.maxima + kept * 4)
        rescale = exp2_nonpositive(before - maximum)
        f.store(rescale, self.rescale + row * 4)
        sums_at, offset = state.sums + kept * _SUM_BYTES, maximum.splat(LANES)
        total = f.var(SUMS, f.load(sums_at, SUMS) * rescale)
        with f.loop(count, name="weight") as i:
            score = f.load(scores + i * _SUM_BYTES, SUMS)
            weight = exp2_nonpositive(score - offset, operands.exp2_coefficients)
            total.set(total.get() + weight)
            operands.store_factors(weight, scores + i * (LANES * operands.factor_bytes))
        f.store(total.get(), sums_at)

    # -- values ---------------------------------------------------------------------------------

    def _mix(self, first: Val, values: Val, ahead: Val, count: Val) -> None:
        """Rescale the outputs and add the weighted values of the block's `count` keys."""
        f, plan = self.f, self.plan
        together = plan.value_vectors
        groups, rest = divmod(plan.chunks, together)
        with f.loop(groups, name="chunk") as group:
            chunk = group * together
            self._mix_chunks(first, values, ahead, count, chunk, together)
        if rest:
            chunk = f.const(I64, groups * together)
            self._mix_chunks(first, values, ahead, count, chunk, rest)

    def _mix_chunks(
        self, first: Val, values: Val, ahead: Val, count: Val, chunk: Val, n: int
    ) -> None:
        f, state, plan = self.f, self.state, self.plan
        outputs = state.outputs + first * state.output_stride + chunk * _SUM_BYTES
        sums = []
        for r in range(plan.rows):
            rescale = f.load(self.rescale, F32, 4 * r).splat(LANES)
            at = [r * state.output_stride + i * _SUM_BYTES for i in range(n)]
            sums.append([f.var(SUMS, f.load(outputs, SUMS, a) * rescale) for a in at])
        offset = chunk * plan.values.chunk_bytes
        self._add_values(sums, values + offset, ahead + offset, count)
        for r, row in enumerate(sums):
            for i, s in enumerate(row):
                f.store(s.get(), outputs, r * state.output_stride + i * _SUM_BYTES)

    def _add_values(self, sums: list[list[Var]], values: Val, ahead: Val, count: Val) -> None:
        """Add count weighted values; of memory beyond them nothing is used."""
        f, operands, layout = self.f, self.value_operands, self.plan.values
        in_block = layout.block // operands.pair
        steps = count // operands.pair
        whole = steps // self._unroll * self._unroll

        def multiply(step: Val, unrolled: int, first_only: bool = False) -> None:
            place = step // in_block * layout.block_bytes + step % in_block * VECTOR_BYTES
            chunks = [place + i * layout.chunk_bytes for i in range(len(sums[0]))]
            vectors = [values + chunk for chunk in chunks]
            self._prefetch([ahead + chunk for chunk in chunks], unrolled)
            factors = self.scores + step * operands.step_factor_bytes
            for u in range(unrolled):
                self._multiply(operands, sums, vectors, factors, _SCORE_STRIDE, u, first_only)

        with f.loop(whole, step=self._unroll, name="step") as step:
            multiply(step, self._unroll)
        with f.loop(steps, whole, name="last") as step:
            multiply(step, 1)
        if operands.pair == 2:
            with f.if_((count & 1).ne(0)):
                multiply(steps, 1, first_only=True)

    def _prefetch(self, pointers: list[Val], steps: int) -> None:
        """Ask for the next `steps` vectors at each pointer, if memory sets the pace."""
        if self.plan.is_memory_bound:
            for pointer in pointers:
                for u in range(steps):
                    self.f.prefetch(pointer, u * VECTOR_BYTES, locality=2)

    # -- rows -----------------------------------------------------------------------------------

    def start_row(self, kept: Val, q: Val) -> None:
        """Begin a row: its query, scaled, as factors; no keys seen."""
        f, plan, state, operands = self.f, self.plan, self.state, self.key_operands
        factor = plan.scale / plan.softcap if plan.softcap > 0 else plan.scale * LOG2_E
        target = state.q + kept * state.q_stride
        width = plan.keys.dim // LANES * LANES
        for start in range(0, width, LANES):
            row = f.load(q, SUMS, 4 * start) * factor
            operands.store_factors(row, target, start * operands.factor_bytes)
        self._start_tail(q, target, width, factor)
        f.store(f.const(F32, LOWEST), state.maxima + kept * 4)
        f.store(f.const(SUMS, 0.0), state.sums + kept * _SUM_BYTES)
        for i in range(plan.chunks):
            outputs = state.outputs + kept * state.output_stride
            f.store(f.const(SUMS, 0.0), outputs, i * _SUM_BYTES)

    def _start_tail(self, q: Val, target: Val, start: int, factor: float) -> None:
        """What is left of a row whose length is no multiple of 16, and a zero after an odd one."""
        f, operands, dim = self.f, self.key_operands, self.plan.keys.dim
        for i in range(start, dim):
            one = f.load(q, vec(F32, 1), 4 * i) * factor
            operands.store_factors(one, target, i * operands.factor_bytes)
        if dim % operands.pair:
            zero = f.const(vec(F32, 1), 0.0)
            operands.store_factors(zero, target, dim * operands.factor_bytes)

    def store_part(self, kept: Val, out: Val) -> None:
        """Store a row of a part: its output as it is, the largest score, the sum of its weights."""
        f, state, dim = self.f, self.state, self.plan.values.dim
        outputs = state.outputs + kept * state.output_stride
        for start, lanes in segments(dim):
            f.store(load_row(f, outputs, start, lanes), out, 4 * start)
        f.store(f.load(state.maxima + kept * 4, F32), out, 4 * dim)
        total = f.reduce_add(f.load(state.sums + kept * _SUM_BYTES, SUMS))
        f.store(total, out, 4 * dim + 4)

    def finish_row(self, kept: Val, out: Val) -> None:
        """Store a row's output, divided by the sum of its weights."""
        f, state = self.f, self.state
        total = f.reduce_add(f.load(state.sums + kept * _SUM_BYTES, SUMS))
        inverse = f.const(F32, 1.0) / total
        outputs = state.outputs + kept * state.output_stride
        for start, lanes in segments(self.plan.values.dim):
            f.store(load_row(f, outputs, start, lanes) * inverse, out, 4 * start)
