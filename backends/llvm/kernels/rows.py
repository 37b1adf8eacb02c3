"""Rows of any number of float32 elements, cut into vectors."""

from __future__ import annotations

from ggufc.backends.llvm.kernel_builder import F32, Function, Type, Val, vec
from ggufc.backends.llvm.vector_math import muladd

LANES = 16


def segments(width: int, lanes: int = LANES) -> list[tuple[int, int]]:
    """(first element, lanes) of vectors that cover `width` elements: whole ones, then halves."""
    found, start = [], 0
    while start < width:
        while lanes > width - start:
            lanes //= 2
        found.append((start, lanes))
        start += lanes
    return found


def row_type(lanes: int) -> Type:
    """A vector of float32; one lane is a vector too, so that shuffles apply."""
    return vec(F32, lanes)


def load_row(f: Function, row: Val, element: int, lanes: int) -> Val:
    """`lanes` elements of a float32 row from `element` on."""
    return f.load(row, row_type(lanes), 4 * element)


def sum_of_squares(f: Function, row: Val, width: int) -> Val:
    """The float32 sum of x^2 over a row, in a fixed order."""
    total: Val | None = None
    sums: dict[int, Val] = {}
    for start, lanes in segments(width):
        x = load_row(f, row, start, lanes)
        sums[lanes] = x * x if lanes not in sums else muladd(x, x, sums[lanes])
    for part in sums.values():
        total = f.reduce_add(part) if total is None else total + f.reduce_add(part)
    if total is None:
        raise ValueError("a row has at least one element")
    return total


def inverse_rms(f: Function, row: Val, width: int, eps: float) -> Val:
    """1 / sqrt(mean(x^2) + eps) of a float32 row."""
    mean = sum_of_squares(f, row, width) * (1.0 / width)
    return f.const(F32, 1.0) / f.sqrt(mean + eps)
