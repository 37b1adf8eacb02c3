"""bias_add, scale_columns, scale_rows, slice, concat, take_rows: float32 matrices, row by row.

Work is cut into pieces of a row, 256 columns each, so that threads share the one row of a decode
step too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I32, I64, Function, Type, Val, vec
from ggufc.backends.llvm.kernels.masks import first_lanes

PIECE = 256
# Pieces that a thread takes at a time at least: work of some microseconds.
_PART_PIECES = 64
_BYTES = 4

Load = Callable[[Val, Type], Val]
"""Loads a vector at a pointer: all of it, or the lanes that are inside the row."""
Body = Callable[[Val, Val, Load, Type], Val]
"""(row, column, load, vector type) -> the result's elements from that column on."""


@kernel("bias_add")
def emit_bias_add(k: Kernel) -> None:
    """x + bias, the bias repeated for each row."""
    _emit_with_vector(k, "bias", lambda x, bias: x + bias)


@kernel("scale_columns")
def emit_scale_columns(k: Kernel) -> None:
    """x * weight, the weight repeated for each row."""
    _emit_with_vector(k, "weight", lambda x, weight: x * weight)


def _emit_with_vector(k: Kernel, name: str, combine: Callable[[Val, Val], Val]) -> None:
    """Elements of x with those of a vector in the same column."""
    width = k.signature.results[0].max_shape[1]
    x, vector = k.pointer("x"), k.pointer(name)

    def body(row: Val, column: Val, load: Load, type_: Type) -> Val:
        at = (row * width + column) * _BYTES
        return combine(load(x + at, type_), load(vector + column * _BYTES, type_))

    emit_pieces(k, body)


@kernel("scale_rows")
def emit_scale_rows(k: Kernel) -> None:
    """x * factors, one factor for each row."""
    width = k.signature.results[0].max_shape[1]

    def body(row: Val, column: Val, load: Load, type_: Type) -> Val:
        factor = k.f.load(k.pointer("factors") + row * _BYTES, F32).splat(type_.lanes)
        return load(k.pointer("x") + (row * width + column) * _BYTES, type_) * factor

    emit_pieces(k, body)


@kernel("slice")
def emit_slice(k: Kernel) -> None:
    """Columns start .. stop of each row."""
    (source,) = k.signature.named("x")
    width, start = source.type.max_shape[-1], int(k.signature.attribute("start"))

    def body(row: Val, column: Val, load: Load, type_: Type) -> Val:
        return load(k.pointer("x") + (row * width + column + start) * _BYTES, type_)

    emit_pieces(k, body)


@kernel("concat")
def emit_concat(k: Kernel) -> None:
    """The columns of one part after another."""
    start = 0
    for operand, pointer in zip(k.signature.named("parts"), k.pointers("parts"), strict=True):
        width = operand.type.max_shape[-1]

        def body(
            row: Val, column: Val, load: Load, type_: Type, part: Val = pointer, n: int = width
        ) -> Val:
            return load(part + (row * n + column) * _BYTES, type_)

        emit_pieces(k, body, start, width)
        start += width


@kernel("take_rows")
def emit_take_rows(k: Kernel) -> None:
    """Row i of the result is row rows[i] of x."""
    width = k.signature.results[0].max_shape[1]

    def body(row: Val, column: Val, load: Load, type_: Type) -> Val:
        taken = k.f.load(k.pointer("rows") + row * _BYTES, I32).sext(I64)
        return load(k.pointer("x") + (taken * width + column) * _BYTES, type_)

    emit_pieces(k, body)


def emit_pieces(k: Kernel, body: Body, start: int = 0, width: int | None = None) -> None:
    """Fill `width` columns of the result, [..., N], from `start` on, all unless given: whole
    vectors of each piece, then the columns that are left."""
    f, lanes = k.f, k.isa.vector_bits // 32
    _, *inner, columns = k.signature.results[0].max_shape
    width = columns if width is None else width
    pieces = -(-width // PIECE)
    with (
        k.shares(k.n * (math.prod(inner) * pieces), _PART_PIECES) as (begin, end),
        f.loop(end, begin, name="piece") as piece,
    ):
        row, first = piece // pieces, piece % pieces * PIECE
        out = k.result() + (row * columns + start) * _BYTES
        stop = f.smin(first + PIECE, width)
        whole = first + ((stop - first) & -lanes)
        with f.loop(whole, first, step=lanes, name="column") as column:
            _emit_vector(f, body, row, column, lanes, None, out)
        if width % lanes:
            with f.if_(whole < stop):
                mask = first_lanes(f, stop - whole, lanes)
                _emit_vector(f, body, row, whole, lanes, mask, out)


def _emit_vector(
    f: Function, body: Body, row: Val, column: Val, lanes: int, mask: Val | None, out: Val
) -> None:
    at = out + column * _BYTES
    if mask is None:
        f.store(body(row, column, f.load, vec(F32, lanes)), at)
        return
    inside = mask

    def load(pointer: Val, type_: Type) -> Val:
        return f.masked_load(pointer, type_, inside)

    f.masked_store(body(row, column, load, vec(F32, lanes)), at, inside)
