"""The planner: intervals in, arena offsets out. Pure functions; nothing here knows of the IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ggufc.compiler.memory.intervals import ALIGNMENT, Interval, align, lower_bound

PROMOTIONS = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offset of every interval by its key, and the bytes of the arena that holds them all."""

    offsets: dict[str, int]
    peak: int


def naive(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> Plan:
    """Storage of its own for every interval, one after the other: what sharing is compared with."""
    offsets: dict[str, int] = {}
    end = 0
    for interval in intervals:
        offsets[interval.key] = end
        end += align(interval.nbytes, alignment)
    return Plan(offsets, end)


def greedy_by_size(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> Plan:
    """Place the largest first, each into the smallest gap that is free for its whole life.

    Ties go to the longer life, then to the earlier one, so that the plan depends on nothing else.
    """
    return _place(sorted(intervals, key=_by_size), alignment)


def plan(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> Plan:
    """The best plan of several greedy ones, refined while it is above the lower bound.

    Greedy placement depends on nothing but the order of placing. Each order of `_ORDERS` is tried;
    then, up to `PROMOTIONS` times, whatever ends highest is placed before all others of its life.
    """
    floor = align(lower_bound(intervals), alignment)
    best = Plan({}, 0) if not intervals else greedy_by_size(intervals, alignment)
    for order in _ORDERS:
        if best.peak <= floor:
            return best
        ordered = sorted(intervals, key=order)
        best = min(best, _promote(ordered, floor, alignment), key=lambda found: found.peak)
    return best


def _promote(ordered: list[Interval], floor: int, alignment: int) -> Plan:
    """Place in order; again and again with the interval that makes the peak moved to the front."""
    best = current = _place(ordered, alignment)
    for _ in range(PROMOTIONS):
        if best.peak <= floor:
            break
        top = max(ordered, key=lambda it: current.offsets[it.key] + it.nbytes)
        if ordered[0] is top:
            break
        ordered = [top, *(interval for interval in ordered if interval is not top)]
        current = _place(ordered, alignment)
        best = min(best, current, key=lambda found: found.peak)
    return best


def _place(ordered: Sequence[Interval], alignment: int) -> Plan:
    """Give each interval in turn the best-fitting gap among those that are placed and meet it."""
    placed: list[tuple[int, int, Interval]] = []
    offsets: dict[str, int] = {}
    peak = 0
    for interval in ordered:
        size = align(interval.nbytes, alignment)
        taken = sorted((start, end) for start, end, other in placed if interval.meets(other))
        offset = _best_gap(taken, size)
        placed.append((offset, offset + size, interval))
        offsets[interval.key] = offset
        peak = max(peak, offset + size)
    return Plan(offsets, peak)


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap of at least `size` between taken ranges; else the end of them."""
    best: tuple[int, int] | None = None
    end = 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, stop)
    return end if best is None else best[1]


def _by_size(it: Interval) -> tuple[int, ...]:
    return (-it.nbytes, it.first - it.last, it.first)


def _by_area(it: Interval) -> tuple[int, ...]:
    return (-it.nbytes * (it.last - it.first + 1), it.first)


def _by_life(it: Interval) -> tuple[int, ...]:
    return (it.first - it.last, -it.nbytes, it.first)


def _by_birth(it: Interval) -> tuple[int, ...]:
    return (it.first, -it.nbytes)


_ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    _by_size,
    _by_area,
    _by_life,
    _by_birth,
)
