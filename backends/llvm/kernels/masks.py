"""Masks of vectors that reach over the end of the data."""

from __future__ import annotations

from ggufc.backends.llvm.kernel_builder import I32, Function, Val


def first_lanes(f: Function, count: Val, lanes: int) -> Val:
    """An i1 vector that is set in the first `count` lanes, an i64."""
    return f.const_lanes(I32, range(lanes)) < count.trunc(I32)
