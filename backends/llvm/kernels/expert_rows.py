"""Rows of experts: their order, copies of tokens' rows in it, and sums of rows by token."""

from __future__ import annotations

from collections.abc import Callable

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I16, I32, I64, Type, Val, vec
from ggufc.backends.llvm.kernels.matrix_rows import Load, emit_pieces
from ggufc.backends.llvm.vector_math import muladd

_LINE = vec(I32, 16)


@kernel("group_experts")
def emit_group_experts(k: Kernel) -> None:
    """A counting sort: a few thousand pairs at most, which one thread is quick enough for."""
    with k.f.if_(k.tid.eq(0)):
        _sort(k)


def _sort(k: Kernel) -> None:
    f, ids, experts = k.f, k.pointer("ids"), int(k.signature.attribute("experts"))
    order, places, starts = (k.result(i) for i in range(3))
    pairs = k.n * k.signature.named("ids")[0].type.max_shape[1]
    with f.loop(experts + 1, name="zero") as e:
        f.store(f.const(I32, 0), starts + e * 4)
    with f.loop(pairs, name="count") as pair:
        _next(k, starts + 4, f.load(ids + pair * 4, I32).sext(I64))
    following, sum_ = f.alloca(4 * experts), f.var(I32, 0)
    with f.loop(experts, name="start") as e:
        f.store(sum_.get(), following + e * 4)
        sum_.set(sum_.get() + f.load(starts + e * 4, I32, 4))
        f.store(sum_.get(), starts + e * 4, 4)
    with f.loop(pairs, name="place") as pair:
        place = _next(k, following, f.load(ids + pair * 4, I32).sext(I64))
        f.store(place, places + pair * 4)
        f.store(pair.trunc(I32), order + place.sext(I64) * 4)


def _next(k: Kernel, counters: Val, index: Val) -> Val:
    """The value of a counter, which then is one more."""
    at = counters + index * 4
    value = k.f.load(at, I32)
    k.f.store(value + 1, at)
    return value


@kernel("group_heads")
def emit_group_heads(k: Kernel) -> None:
    """Pairs are shared out."""
    f, heads = k.f, int(k.signature.attribute("heads"))
    order, places, starts = (k.result(i) for i in range(3))
    begin, end = k.share(k.n * heads)
    with f.loop(end, begin, name="pair") as pair:
        place = pair % heads * k.n + pair // heads
        f.store(place.trunc(I32), places + pair * 4)
        f.store(pair.trunc(I32), order + place * 4)
    with f.if_(k.tid.eq(0)), f.loop(heads + 1, name="start") as head:
        f.store((head * k.n).trunc(I32), starts + head * 4)


@kernel("gather_rows")
def emit_gather_rows(k: Kernel) -> None:
    """Rows are copied whole, whatever their type; they are shared out."""
    used = k.signature.results[0].max_shape[1]
    _copy_rows(k, lambda pair: pair // used)


@kernel("permute_rows")
def emit_permute_rows(k: Kernel) -> None:
    """As `gather_rows`, of rows of which there is one for each pair."""
    _copy_rows(k, lambda pair: pair)


def _copy_rows(k: Kernel, source_of: Callable[[Val], Val]) -> None:
    """Row p of the result is row `source_of(order[p])` of x."""
    f, type_ = k.f, k.signature.results[0]
    _, used, width = type_.max_shape
    row_bytes = type_.dtype.nbytes(width)
    begin, end = k.share(k.n * used)
    with f.loop(end, begin, name="row") as row:
        taken = source_of(f.load(k.pointer("order") + row * 4, I32).sext(I64))
        source, target = k.pointer("x") + taken * row_bytes, k.result() + row * row_bytes
        whole = row_bytes // _LINE.nbytes * _LINE.nbytes
        with f.loop(whole, step=_LINE.nbytes, name="line") as at:
            f.store(f.load(source + at, _LINE), target + at)
        for rest in range(whole, row_bytes, I16.nbytes):
            f.store(f.load(source, I16, rest), target, rest)


@kernel("scale_experts")
def emit_scale_experts(k: Kernel) -> None:
    """Each piece of a row looks its expert up: the last one that starts at the row or before."""
    f, (experts,) = k.f, k.signature.named("factors")[0].type.max_shape
    width = k.signature.results[0].max_shape[2]

    def body(row: Val, column: Val, load: Load, type_: Type) -> Val:
        expert = _expert_of(k, row, experts)
        factor = f.load(k.pointer("factors") + expert * 4, F32).splat(type_.lanes)
        return load(k.pointer("x") + (row * width + column) * 4, type_) * factor

    emit_pieces(k, body)


def _expert_of(k: Kernel, row: Val, experts: int) -> Val:
    """Of `experts`, whose rows follow each other, the one that `row` belongs to."""
    f = k.f
    low, high = f.var(I64, 0), f.var(I64, experts - 1)
    with f.loop(experts.bit_length(), name="halve"):
        middle = (low.get() + high.get() + 1) // 2
        start = f.load(k.pointer("starts") + middle * 4, I32).sext(I64)
        starts_later = row < start
        high.set(f.select(starts_later, middle - 1, high.get()))
        low.set(f.select(starts_later, low.get(), middle))
    return low.get()


@kernel("combine_rows")
def emit_combine_rows(k: Kernel) -> None:
    """Rows are summed in the order of their weights."""
    f = k.f
    _, used, width = k.signature.named("x")[0].type.max_shape
    x, places, weights = (k.pointer(name) for name in ("x", "places", "weights"))

    def body(token: Val, column: Val, load: Load, type_: Type) -> Val:
        total: Val | None = None
        for i in range(used):
            pair = token * (4 * used)
            row = f.load(places + pair, I32, 4 * i).sext(I64)
            weight = f.load(weights + pair, F32, 4 * i).splat(type_.lanes)
            values = load(x + (row * width + column) * 4, type_)
            total = values * weight if total is None else muladd(values, weight, total)
        assert total is not None
        return total

    emit_pieces(k, body)
