"""Choosing experts: scores of all of them, then the best, round by round."""

from __future__ import annotations

from collections.abc import Callable

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I1, I32, I64, Val, vec
from ggufc.backends.llvm.vector_math import exp, exp_nonpositive
from ggufc.ir.ops.routing import SMALLEST_SUM
from ggufc.ir.types import round_up

_LANES = 16
_VECTOR, _INDICES = vec(F32, _LANES), vec(I32, _LANES)
_BYTES = 4 * _LANES
# Below every choice; those of groups that are out are lower still, and one that was taken becomes
# -inf. So there is always another to take, whatever the logits are.
_LOWEST, _EXCLUDED, _TAKEN = -1e30, -2e30, float("-inf")
_BEYOND = 1 << 30


@kernel("route")
def emit_route(k: Kernel) -> None:
    """Tokens are shared out; each is one thread's work."""
    router = _Router(k)
    begin, end = k.share(k.n)
    with k.f.loop(end, begin, name="token") as token:
        router.run(token)


class _Row:
    """A buffer of numbers in whole vectors; those after the last are -inf."""

    def __init__(self, k: Kernel, count: int) -> None:
        self.f, self.count, self.padded = k.f, count, round_up(count, _LANES)
        self.pointer = k.f.alloca(4 * self.padded)

    def fill(self, values: Callable[[Val, Val | None], Val]) -> None:
        """Store `values(byte offset, mask)`, without NaN, vector by vector."""
        f, whole = self.f, self.count // _LANES * _BYTES
        with f.loop(whole, step=_BYTES, name="vector") as at:
            f.store(self._ordered(values(at, None)), self.pointer + at)
        rest = self.count % _LANES
        if rest:
            mask = f.const_lanes(I1, [i < rest for i in range(_LANES)])
            last = self._ordered(values(f.const(I64, whole), mask))
            f.store(f.select(mask, last, f.const(_VECTOR, _TAKEN)), self.pointer, whole)

    def _ordered(self, x: Val) -> Val:
        return self.f.select(x > _LOWEST, x, self.f.const(_VECTOR, _LOWEST))

    def change(self, change: Callable[[Val], Val]) -> None:
        """Replace every vector."""
        with self.f.loop(4 * self.padded, step=_BYTES, name="vector") as at:
            self.f.store(change(self.f.load(self.pointer + at, _VECTOR)), self.pointer + at)

    def largest(self) -> Val:
        """The largest number."""
        f = self.f
        found = f.var(_VECTOR, f.load(self.pointer, _VECTOR))
        with f.loop(4 * self.padded, _BYTES, _BYTES, name="vector") as at:
            found.set(f.fmax(f.load(self.pointer + at, _VECTOR), found.get()))
        return f.reduce_max(found.get())

    def take(self) -> Val:
        """The index (i64) of the largest number, of equals the first; it becomes -inf."""
        f = self.f
        largest = self.largest().splat(_LANES)
        found = f.var(_INDICES, f.const(_INDICES, _BEYOND))
        lanes = f.const_lanes(I32, range(_LANES))
        with f.loop(self.padded, step=_LANES, name="vector") as at:
            is_it = f.load(self.pointer + at * 4, _VECTOR).eq(largest)
            index = lanes + at.trunc(I32).splat(_LANES)
            found.set(f.smin(found.get(), f.select(is_it, index, f.const(_INDICES, _BEYOND))))
        taken = f.intrinsic("vector.reduce.smin", I32, [found.get()], (_INDICES,)).sext(I64)
        f.store(f.const(F32, _TAKEN), self.pointer + taken * 4)
        return taken

    def at(self, index: Val | int) -> Val:
        """One number."""
        return self.f.load(self.pointer + self.f.coerce(index, I64) * 4, F32)


class _Router:
    """The work on one token."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.f = k, k.f
        option = k.signature.attribute
        self.gating, self.used = str(option("gating")), int(option("used"))
        self.groups, self.groups_used = int(option("groups")), int(option("groups_used"))
        self.experts = k.signature.named("logits")[0].type.max_shape[1]
        self.scores, self.choice = (_Row(k, self.experts) for _ in range(2))
        self.marks, self.weights = _Row(k, self.groups), _Row(k, self.used)

    def run(self, token: Val) -> None:
        """Ids and weights of a token."""
        f, row = self.f, token * (4 * self.used)
        self._score(self.k.pointer("logits") + token * (4 * self.experts))
        if self.groups > 1:
            self._exclude_groups()
        with f.loop(self.used, name="round") as i:
            best = self.choice.take()
            f.store(best.trunc(I32), self.k.result(0) + row + i * 4)
            f.store(self.scores.at(best), self.weights.pointer + i * 4)
        self._weigh(self.k.result(1) + row)

    def _load(self, pointer: Val, mask: Val | None) -> Val:
        if mask is None:
            return self.f.load(pointer, _VECTOR)
        return self.f.masked_load(pointer, _VECTOR, mask)

    def _score(self, logits: Val) -> None:
        """Fill the rows of scores and choices."""
        f, scores, biases = self.f, self.scores, self.k.pointers("bias")
        scores.fill(lambda at, mask: self._load(logits + at, mask))
        if not biases and self.groups == 1:
            self.choice.fill(lambda at, _: f.load(scores.pointer + at, _VECTOR))
        if self.gating == "softmax":
            largest = scores.largest().splat(_LANES)
            scores.change(lambda x: exp_nonpositive(x - largest))
            total = f.var(_VECTOR, 0.0)
            with f.loop(4 * scores.padded, step=_BYTES, name="sum") as at:
                total.set(total.get() + f.load(scores.pointer + at, _VECTOR))
            inverse = (1.0 / f.reduce_add(total.get())).splat(_LANES)
            scores.change(lambda x: x * inverse)
        elif self.gating == "sigmoid":
            scores.change(lambda x: 1.0 / (exp(-x) + 1.0))
        if not biases and self.groups == 1:
            return

        def choice(at: Val, mask: Val | None) -> Val:
            value = f.load(scores.pointer + at, _VECTOR)
            for bias in biases:
                value = value + self._load(bias + at, mask)
            return value

        self.choice.fill(choice)

    def _exclude_groups(self) -> None:
        """Lower the choices of all but the best groups."""
        f, size = self.f, self.experts // self.groups
        with f.loop(self.groups, name="group") as group:
            mark = self._mark(group * size, size)
            f.store(mark, self.marks.pointer + group * 4)
        self.marks.fill(lambda at, _: f.load(self.marks.pointer + at, _VECTOR))
        with f.loop(self.groups_used, name="keep"):
            self.marks.take()
        with f.loop(self.groups, name="group") as group:
            out = self.marks.at(group).ne(_TAKEN)
            with f.if_(out), f.loop(size, name="expert") as i:
                place = self.choice.pointer + (group * size + i) * 4
                f.store(f.const(F32, _EXCLUDED), place)

    def _mark(self, first: Val, size: int) -> Val:
        """The sum of the largest choices of a group of experts, one or more."""
        f = self.f
        best = [f.var(F32, _TAKEN) for _ in range(int(self.k.signature.attribute("group_best")))]
        with f.loop(size, name="expert") as i:
            value = self.choice.at(first + i)
            for slot in best:
                held = slot.get()
                is_more = value > held
                slot.set(f.select(is_more, value, held))
                value = f.select(is_more, held, value)
        mark = best[0].get()
        for slot in best[1:]:
            mark = mark + slot.get()
        return mark

    def _weigh(self, out: Val) -> None:
        """Store the weights of those chosen."""
        f, weights = self.f, self.weights
        if self.gating == "softmax_chosen":
            self._soften()
        factor = f.const(F32, float(self.k.signature.attribute("scale")))
        if self.k.signature.attribute("normalize"):
            factor = factor / f.fmax(self._sum(), SMALLEST_SUM)
        with f.loop(self.used, name="weight") as i:
            f.store(weights.at(i) * factor, out + i * 4)

    def _sum(self) -> Val:
        total = self.f.var(F32, 0.0)
        with self.f.loop(self.used, name="sum") as i:
            total.set(total.get() + self.weights.at(i))
        return total.get()

    def _soften(self) -> None:
        """The softmax of the scores of those chosen; the first need not be the largest."""
        f, weights = self.f, self.weights
        weights.fill(lambda at, _: f.load(weights.pointer + at, _VECTOR))
        largest = weights.largest()
        with f.loop(self.used, name="soft") as i:
            f.store(exp_nonpositive(weights.at(i) - largest), weights.pointer + i * 4)
        factor = 1.0 / self._sum()
        with f.loop(self.used, name="soft") as i:
            f.store(weights.at(i) * factor, weights.pointer + i * 4)
