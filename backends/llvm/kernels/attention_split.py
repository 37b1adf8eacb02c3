"""Decode attention in parts of the positions, so that one long sequence keeps all threads busy.

Parts are cut by position alone and combined in their order: the result does not depend on the
number of threads.
"""

from __future__ import annotations

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Val
from ggufc.backends.llvm.kernels.attention import Attention
from ggufc.backends.llvm.kernels.attention_plan import DECODE_BLOCK
from ggufc.backends.llvm.kernels.attention_tile import LOG2_E
from ggufc.backends.llvm.kernels.rows import load_row, row_type, segments
from ggufc.backends.llvm.states import VECTOR_BYTES
from ggufc.backends.llvm.vector_math import exp2_nonpositive, muladd

# Vectors of a row that are summed over the parts at a time.
_TOGETHER = 4


@kernel("attention_partial")
def emit_attention_partial(k: Kernel) -> None:
    """Items are (sequence, kv head, part of its query heads, part of the positions)."""
    f, work = k.f, _Parts(k)
    counted, total = f.var(I64, 0), f.var(I64, 0)
    with f.loop(k.n, name="count") as token:
        total.set(total.get() + work.items(token))
    begin, end = k.share(total.get())
    with f.loop(k.n, name="token") as token:
        done, items = counted.get(), work.items(token)
        first, stop = f.smax(begin - done, 0), f.smin(end - done, items)
        with f.loop(stop, first, name="item") as item:
            work.run(token, item)
        counted.set(done + items)


@kernel("attention_combine")
def emit_attention_combine(k: Kernel) -> None:
    """Items are (sequence, query head)."""
    f, (_, heads, parts, width) = k.f, k.signature.named("parts")[0].type.max_shape
    factors = f.alloca(4 * parts)
    begin, end = k.share(k.n * heads)
    with f.loop(end, begin, name="item") as item:
        position = f.load(k.pointer("positions") + item // heads * 4, I32).sext(I64)
        first, stop = _seen_parts(k, position)
        rows = k.pointer("parts") + item * (4 * parts * width)
        out = k.result() + item * (4 * (width - 2))
        sinks = [f.load(p + item % heads * 4, F32) * LOG2_E for p in k.pointers("sinks")]
        inverse = _factors(f, rows, width, first, stop, factors, sinks)
        _combine(f, rows, width, first, stop, factors, inverse, out)


def _seen_parts(k: Kernel, position: Val) -> tuple[Val, Val]:
    """[first, stop) of the parts of which a token at this position sees any row."""
    window, split = (int(k.signature.attribute(n)) for n in ("window", "split"))
    start = k.f.smax(position - (window - 1), 0) if window else k.f.const(I64, 0)
    return start // split, position // split + 1


class _Parts:
    """The items of one token, and the work on each."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.f = k, k.f
        self.attention = Attention(k)
        self.plan = self.attention.plan
        self.split = int(k.signature.attribute("split"))
        self.head_parts = -(-self.plan.group // self.plan.rows)

    def items(self, token: Val) -> Val:
        """How many items a token has."""
        first, stop = _seen_parts(self.k, self.attention.index("positions", token))
        return (stop - first) * (self.plan.keys.n_heads * self.head_parts)

    def run(self, token: Val, item: Val) -> None:
        """One part of the positions for rows of one kv head; parts of a head follow each other."""
        f, plan, attention = self.f, self.plan, self.attention
        position = attention.index("positions", token)
        first_part, stop = _seen_parts(self.k, position)
        rest, part = item // (stop - first_part), item % (stop - first_part) + first_part
        head, row = rest // self.head_parts, rest % self.head_parts * plan.rows
        group = f.const(I64, plan.group)
        keys, values = attention.caches(token, head)
        begin = f.smax(part * self.split, attention.first_key(position))
        end = f.smin((part + 1) * self.split, position + 1)
        self._ask_for(keys, begin, f.smin(end - begin, DECODE_BLOCK))
        attention.start_rows(token, head, row, f.const(I64, 1), group)
        for r in range(plan.rows):
            f.store(position.trunc(I32), attention.tile.positions, 4 * r)
        with f.loop(end, begin, DECODE_BLOCK, name="block") as key:
            count = f.smin(end - key, DECODE_BLOCK)
            attention.tile.attend(f.const(I64, 0), keys, values, key, count)
        with f.loop(f.smin(group - row, plan.rows), name="store") as i:
            query_head = token * plan.n_heads + head * plan.group + row + i
            attention.tile.store_part(i, self._row(query_head, part))

    def _ask_for(self, keys: Val, begin: Val, count: Val) -> None:
        """Prefetch the first block of keys: what follows is asked for on the way."""
        f, row_bytes = self.f, self.plan.keys.row_bytes
        first = keys + begin * row_bytes
        with f.loop(count * row_bytes, step=VECTOR_BYTES, name="ask") as at:
            f.prefetch(first + at, locality=2)

    def _row(self, query_head: Val, part: Val) -> Val:
        _, _, parts, width = self.k.signature.results[0].max_shape
        return self.k.result() + (query_head * parts + part) * (4 * width)


def _factors(
    f: Function, rows: Val, width: int, first: Val, stop: Val, factors: Val, sinks: list[Val]
) -> Val:
    """What each part's weights must be multiplied with, and 1 / the sum of all weights, that of
    the sink, if there is one, included."""
    largest = f.var(F32, f.load(rows + first * (4 * width), F32, 4 * (width - 2)))
    for sink in sinks:
        largest.set(f.fmax(sink, largest.get()))
    with f.loop(stop, first + 1, name="largest") as part:
        largest.set(f.fmax(f.load(rows + part * (4 * width), F32, 4 * (width - 2)), largest.get()))
    total = f.var(F32, 0.0)
    for sink in sinks:
        total.set(exp2_nonpositive(sink - largest.get()))
    with f.loop(stop, first, name="factor") as part:
        row = rows + part * (4 * width)
        factor = exp2_nonpositive(f.load(row, F32, 4 * (width - 2)) - largest.get())
        f.store(factor, factors + part * 4)
        total.set(muladd(factor, f.load(row, F32, 4 * (width - 1)), total.get()))
    return f.const(F32, 1.0) / total.get()


def _combine(
    f: Function, rows: Val, width: int, first: Val, stop: Val, factors: Val, inverse: Val, out: Val
) -> None:
    """The sum over parts of factor x output, times `inverse`."""
    whole = segments(width - 2)
    for group in (whole[i : i + _TOGETHER] for i in range(0, len(whole), _TOGETHER)):
        sums = [f.var(row_type(lanes), 0.0) for _, lanes in group]
        with f.loop(stop, first, name="part") as part:
            factor = f.load(factors + part * 4, F32)
            row = rows + part * (4 * width)
            for total, (start, lanes) in zip(sums, group, strict=True):
                total.set(muladd(load_row(f, row, start, lanes), factor, total.get()))
        for total, (start, _) in zip(sums, group, strict=True):
            f.store(total.get() * inverse, out, 4 * start)
