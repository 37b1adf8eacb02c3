"""Attention tiles whose sums are vector registers: each row's factor times a vector of a cache."""

from __future__ import annotations

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val, Var
from ggufc.backends.llvm.kernels.attention_operands import SUM_BYTES, SUMS, Operands
from ggufc.backends.llvm.kernels.attention_plan import Plan
from ggufc.backends.llvm.kernels.attention_tile import SCORE_STRIDE, Tile
from ggufc.backends.llvm.states import LANES, VECTOR_BYTES

Sums = list[list[Var]]


class VectorTile(Tile):
    """`rows` x `key_vectors` sums of scores, `rows` x `value_vectors` sums of outputs."""

    def __init__(self, f: Function, isa: Isa, plan: Plan) -> None:
        super().__init__(f, isa, plan, plan.keys.element.name == "bf16" and isa.has_bf16_dot)
        # Sixteen registers hold the sums; the loads of a second step would push some of them out.
        self._unroll = 4 if isa.registers >= 32 else 1

    def begin(self) -> None:
        """Vectors need no preparation."""

    def end(self) -> None:
        """Nothing to give up."""

    def _score(self, first: Val, keys: Val, ahead: Val, key: Val, target: Val) -> None:
        f, plan, operands = self.f, self.plan, self.key_operands
        n = plan.key_vectors
        sums = [[f.var(SUMS, 0.0) for _ in range(n)] for _ in range(plan.rows)]
        q, stride = self.state.q + first * self.state.q_stride, self.state.q_stride
        blocks = [i * plan.keys.block_bytes for i in range(n)]
        steps = -(-plan.keys.dim // operands.pair)
        whole = steps // self._unroll * self._unroll
        with f.loop(whole, step=self._unroll, name="step") as step:
            at = step * VECTOR_BYTES
            factors = q + step * operands.step_factor_bytes
            self._prefetch([ahead + block + at for block in blocks], self._unroll)
            vectors = [keys + block + at for block in blocks]
            for u in range(self._unroll):
                self._multiply(operands, sums, vectors, factors, stride, u)
        for u in range(whole, steps):
            self._multiply(operands, sums, [keys + block for block in blocks], q, stride, u)
        self._finish_scores(sums, key)
        for r, row in enumerate(sums):
            for i, s in enumerate(row):
                f.store(s.get(), target, r * SCORE_STRIDE + i * SUM_BYTES)

    def _finish_scores(self, sums: Sums, key: Val) -> None:
        """Cap and mask; keys that all rows see are left alone."""
        f = self.f
        for s in (s for row in sums for s in row):
            s.set(self._capped(s.get()))
        with f.if_(self._is_partial(key)):
            for r, row in enumerate(sums):
                position = f.load(self.positions, I32, 4 * r)
                for i, s in enumerate(row):
                    s.set(self._masked(s.get(), position, key.trunc(I32) + LANES * i))

    def _multiply(
        self,
        operands: Operands,
        sums: Sums,
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

    def _mix(self, first: Val, values: Val, ahead: Val, count: Val) -> None:
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
        outputs = state.outputs + first * state.output_stride + chunk * SUM_BYTES
        sums = []
        for r in range(plan.rows):
            rescale = f.load(self.rescale, F32, 4 * r).splat(LANES)
            at = [r * state.output_stride + i * SUM_BYTES for i in range(n)]
            sums.append([f.var(SUMS, f.load(outputs, SUMS, a) * rescale) for a in at])
        offset = chunk * plan.values.chunk_bytes
        self._add_values(sums, values + offset, ahead + offset, count)
        for r, row in enumerate(sums):
            for i, s in enumerate(row):
                f.store(s.get(), outputs, r * state.output_stride + i * SUM_BYTES)

    def _add_values(self, sums: Sums, values: Val, ahead: Val, count: Val) -> None:
        """Add count weighted values."""
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
                self._multiply(operands, sums, vectors, factors, SCORE_STRIDE, u, first_only)

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
