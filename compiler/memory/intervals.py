"""Intervals: pieces of storage with a size and a lifetime, the planner's only input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Interval:
    """Storage of `nbytes` bytes that stays untouched from op `first` to op `last`, both included.

    `key` names it in plans and messages; op indices count from 0 in execution order.
    """

    key: str
    nbytes: int
    first: int
    last: int

    def meets(self, other: Interval) -> bool:
        """Whether both are alive at some op, so that they may not share a byte."""
        return self.first <= other.last and other.first <= self.last


def align(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """`nbytes` rounded up to a multiple of `alignment`."""
    return -(-nbytes // alignment) * alignment


def lower_bound(intervals: Iterable[Interval]) -> int:
    """The largest sum of live bytes at any op: no plan can have a smaller peak."""
    changes: dict[int, int] = {}
    for interval in intervals:
        changes[interval.first] = changes.get(interval.first, 0) + interval.nbytes
        changes[interval.last + 1] = changes.get(interval.last + 1, 0) - interval.nbytes
    live = peak = 0
    for moment in sorted(changes):
        live += changes[moment]
        peak = max(peak, live)
    return peak
