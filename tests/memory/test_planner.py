"""The planner on random programs, judged by a checker that knows only bytes and moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.compiler.memory.intervals import ALIGNMENT, Interval, align, lower_bound
from ggufc.compiler.memory.planner import Plan, greedy_by_size, naive, plan

Planner = Callable[[Sequence[Interval]], Plan]


@st.composite
def programs(draw: st.DrawFn) -> list[Interval]:
    """Up to 24 intervals over up to 16 ops, with sizes that are not multiples of the alignment."""
    count = draw(st.integers(0, 24))
    intervals = []
    for number in range(count):
        first = draw(st.integers(0, 15))
        last = draw(st.integers(first, 15))
        intervals.append(Interval(f"v{number}", draw(st.integers(1, 1000)), first, last))
    return intervals


def corrupt_bytes(intervals: Sequence[Interval], found: Plan) -> list[str]:
    """Play every op on a byte map: each live interval must find its own bytes untouched."""
    faults = []
    for moment in range(16):
        owner: dict[int, str] = {}
        for it in intervals:
            if not it.first <= moment <= it.last:
                continue
            for byte in range(found.offsets[it.key], found.offsets[it.key] + it.nbytes):
                if byte in owner:
                    faults.append(f"{it.key} meets {owner[byte]} at {moment}")
                    break
                owner[byte] = it.key
    return faults


@pytest.mark.parametrize("planner", [naive, greedy_by_size, plan])
@given(intervals=programs())
@settings(max_examples=40, deadline=None)
def test_no_live_byte_is_shared(planner: Planner, intervals: list[Interval]) -> None:
    found = planner(intervals)
    assert corrupt_bytes(intervals, found) == []
    assert set(found.offsets) == {it.key for it in intervals}
    assert all(offset % ALIGNMENT == 0 for offset in found.offsets.values())
    ends = [found.offsets[it.key] + it.nbytes for it in intervals]
    assert max(ends, default=0) <= found.peak <= align(max(ends, default=0))


@given(intervals=programs())
@settings(max_examples=60, deadline=None)
def test_peaks_are_ordered(intervals: list[Interval]) -> None:
    best, greedy, separate = plan(intervals), greedy_by_size(intervals), naive(intervals)
    assert lower_bound(intervals) <= best.peak <= greedy.peak <= separate.peak


@given(intervals=programs())
@settings(max_examples=30, deadline=None)
def test_lower_bound_is_the_largest_sum_of_live_bytes(intervals: list[Interval]) -> None:
    sums = [
        sum(it.nbytes for it in intervals if it.first <= moment <= it.last) for moment in range(16)
    ]
    assert lower_bound(intervals) == max(sums)


@given(intervals=programs())
@settings(max_examples=20, deadline=None)
def test_a_plan_is_repeatable(intervals: list[Interval]) -> None:
    assert plan(intervals) == plan(list(intervals))


def test_storage_is_reused_after_the_last_use() -> None:
    chain = [Interval(f"v{i}", 640, i, i + 1) for i in range(10)]
    assert naive(chain).peak == 6400
    assert greedy_by_size(chain).peak == 1280


def test_the_smallest_gap_that_fits_is_taken() -> None:
    intervals = [
        Interval("wide", 1024, 0, 1),
        Interval("wall", 896, 0, 9),
        Interval("narrow", 256, 0, 1),
        Interval("end", 128, 0, 9),
        Interval("late", 64, 5, 6),
    ]
    offsets = greedy_by_size(intervals).offsets
    assert offsets["late"] == offsets["narrow"] == 1024 + 896


def test_other_orders_beat_size_alone() -> None:
    """Largest first leaves `v2` no room beside `v0`, so it ends on top; another order finds it."""
    program = [(192, 1, 3), (320, 4, 4), (256, 3, 5), (256, 0, 2)]
    intervals = [Interval(f"v{i}", *row) for i, row in enumerate(program)]
    assert lower_bound(intervals) == 576
    assert greedy_by_size(intervals).peak == 768
    assert plan(intervals).peak == 576


def test_nothing_to_plan() -> None:
    assert plan([]) == Plan({}, 0)
    assert lower_bound([]) == 0
