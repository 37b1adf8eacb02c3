"""Norms over rows, and activations for quantised linears.

Rows are shared out over threads; a single row is one thread's work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, I1, I8, I32, Function, Operand, Val, vec
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.lowering.halves import f32_to_bf16
from ggufc.backends.llvm.vector_math import muladd
from ggufc.ir.numerics import OUTLIER_SQUARED
from ggufc.ir.types import TensorType, bf16a_row_stride, max_dim

_LANES = 16
_VECTOR = vec(F32, _LANES)
_BLOCK = 32
_SUMS = 4
# Rows that a thread takes at a time at least: work of some microseconds.
_PART_ROWS = 8
_SMALLEST_NORMAL = 2.0**-126
# Adding this to a number below 2^22 rounds it to an integer, ties to even, in the sum's low bits.
_ROUND, _ROUND_BITS = 12582912.0, 0x4B400000

# The vector of normalised values at an element offset of the row.
Values = Callable[[Operand], Val]


@contextmanager
def rows_of(k: Kernel, type_: TensorType) -> Iterator[Val]:
    """For each row (last axis) of an operand that is this thread's: its number."""
    first, *inner = type_.shape[:-1]
    count = k.n if not isinstance(first, int) else k.f.coerce(first, k.n.type)
    with (
        k.shares(count * math.prod(max_dim(d) for d in inner), _PART_ROWS) as (begin, end),
        k.f.loop(end, begin, name="row") as row,
    ):
        yield row


def tail_mask(f: Function, width: int) -> Val | None:
    """Which lanes of the last vector of a row of `width` elements exist; None where all do."""
    rest = width % _LANES
    return f.const_lanes(I1, [i < rest for i in range(_LANES)]) if rest else None


def inverse_rms(f: Function, x: Val, width: int, eps: float) -> Val:
    """1 / sqrt(mean(x^2) + eps) of `width` float32 at x, summed in a fixed order."""
    sums = [f.var(_VECTOR, 0.0) for _ in range(_SUMS)]
    step = _SUMS * _LANES
    whole = width // step * step
    with f.loop(whole, step=step, name="square") as i:
        for part, partial in enumerate(sums):
            value = f.load(x + i * 4, _VECTOR, 4 * _LANES * part)
            partial.set(muladd(value, value, partial.get()))
    for at in range(whole, width, _LANES):
        mask = tail_mask(f, width) if at + _LANES > width else None
        value = (
            f.load(x, _VECTOR, 4 * at) if mask is None else f.masked_load(x, _VECTOR, mask, 4 * at)
        )
        sums[0].set(muladd(value, value, sums[0].get()))
    total = (sums[0].get() + sums[1].get()) + (sums[2].get() + sums[3].get())
    mean = f.reduce_add(total) / float(width)
    return 1.0 / f.sqrt(mean + eps)


def write_q8a(f: Function, values: Values, out: Val, width: int, refine: str) -> None:
    """Quantise a row of `width` values, a multiple of 32, to the q8a row at `out`, padded."""
    row, blocks = Q8aRow(width), width // _BLOCK
    threshold = _write_scales(f, row, values, out, blocks)
    with f.loop(blocks, name="block") as block:
        halves = [values(block * _BLOCK), values(block * _BLOCK + _LANES)]
        d, scaled, codes = _write_codes(f, row, halves, out, block)
        refined = (d * d > threshold) if refine == "outliers" else f.const(I1, refine == "all")
        f.store(refined.zext(I8), out + block, row.refined)
        if refine != "none":
            with f.if_(refined):
                _write_residuals(f, row, d, scaled, codes, out, block)
    for empty in range(blocks, row.padded // _BLOCK):
        _write_zeros(f, row, out, empty)


def _write_scales(f: Function, row: Q8aRow, values: Values, out: Val, blocks: int) -> Val:
    """Store the scales; what the square of an outlier's is above."""
    total = f.var(F32, 0.0)
    with f.loop(blocks, name="scale") as block:
        halves = [values(block * _BLOCK), values(block * _BLOCK + _LANES)]
        d = _largest_magnitude(f, halves) / 127.0
        d = f.select(d < _SMALLEST_NORMAL, f.const(F32, 0), d)
        f.store(d, out + block * 4, row.scales)
        total.set(total.get() + d * d)
    return total.get() * float(np.float32(OUTLIER_SQUARED / blocks))


def _write_zeros(f: Function, row: Q8aRow, out: Val, block: int) -> None:
    f.store(f.const(vec(I8, _BLOCK), 0), out, _BLOCK * block)
    for field in (row.scales, row.scaled_sums, row.negative_sums):
        f.store(f.const(I32, 0), out, field + 4 * block)
    f.store(f.const(vec(I32, 2), 0), out, row.negative_half_sums + 8 * block)
    f.store(f.const(I8, 0), out, row.refined + block)


def _write_codes(
    f: Function, row: Q8aRow, halves: list[Val], out: Val, block: Val
) -> tuple[Val, list[Val], list[Val]]:
    """Store a block's codes and sums; its scale, values in units of the scale, and codes."""
    fields = out + block * 4
    d = f.load(fields, F32, row.scales)
    # Written so that a NaN is kept as the scale and not used.
    usable = (d >= _SMALLEST_NORMAL) & (d < math.inf)
    inverse = 1.0 / f.select(usable, d, f.const(F32, 1))
    mask = usable.splat(_LANES)
    scaled = [f.select(mask, half, f.const(_VECTOR, 0)) * inverse for half in halves]
    codes = [_rounded(x) for x in scaled]
    sums = _write_bytes(f, codes, out + block * _BLOCK, out + block * 8, row.negative_half_sums)
    total = sums[0] + sums[1]
    f.store(d * total.sitofp(), fields, row.scaled_sums)
    f.store(-total, fields, row.negative_sums)
    return d, scaled, codes


def _write_residuals(
    f: Function, row: Q8aRow, d: Val, scaled: list[Val], codes: list[Val], out: Val, block: Val
) -> None:
    """Store what the codes leave, in 256ths of the scale, and add it to the scaled sum."""
    pairs = zip(scaled, codes, strict=True)
    rest = [_rounded((x - code.sitofp()) * 256.0) for x, code in pairs]
    rest = [f.smax(f.smin(r, f.const(r.type, 127)), f.const(r.type, -127)) for r in rest]
    at = out + (block * _BLOCK + row.residuals)
    sums = _write_bytes(f, rest, at, out + block * 8, row.negative_residual_sums)
    fields = out + block * 4
    exact = f.load(fields, I32, row.negative_sums).sitofp() * -256.0 + (sums[0] + sums[1]).sitofp()
    f.store(d * (exact * (1.0 / 256.0)), fields, row.scaled_sums)


def _rounded(x: Val) -> Val:
    return (x + _ROUND).bitcast(vec(I32, _LANES)) - _ROUND_BITS


def _write_bytes(f: Function, halves: list[Val], out: Val, fields: Val, field: int) -> list[Val]:
    """Store a block's bytes and its negated sums; the sums."""
    sums = []
    for i, half in enumerate(halves):
        f.store(half.trunc(I8), out, _LANES * i)
        sums.append(f.reduce_add(half))
        f.store(-sums[i], fields, field + 4 * i)
    return sums


def _largest_magnitude(f: Function, halves: list[Val]) -> Val:
    """max|x|; infinity or NaN where there is one, since their bits are the largest."""
    bits = [half.bitcast(vec(I32, _LANES)) & 0x7FFFFFFF for half in halves]
    largest = f.smax(*bits)
    while largest.type.lanes > 1:
        half = largest.type.lanes // 2
        low = f.shuffle(largest, None, range(half))
        largest = f.smax(low, f.shuffle(largest, None, range(half, 2 * half)))
    return largest.lane(0).bitcast(F32)


def write_vectors(
    f: Function, values: Values, width: int, store: Callable[[Val, Operand, Val | None], None]
) -> None:
    """Pass each vector of a row to `store(value, element offset, mask)`."""
    whole = width // _LANES * _LANES
    with f.loop(whole, step=_LANES, name="column") as i:
        store(values(i), i, None)
    if whole < width:
        store(values(whole), whole, tail_mask(f, width))


def _write_activation(k: Kernel, values: Values, row: Val, width: int) -> None:
    """Store a row of the result in the activation type that the op asks for."""
    f = k.f
    if k.signature.attribute("to") == "q8a":
        refine = k.signature.attribute("refine")
        write_q8a(f, values, k.result() + row * Q8aRow(width).stride, width, refine)
        return
    out = k.result() + row * bf16a_row_stride(width)

    def store(value: Val, at: Operand, mask: Val | None) -> None:
        bits, to = f32_to_bf16(value), out + at * 2
        f.store(bits, to) if mask is None else f.masked_store(bits, to, mask)

    write_vectors(f, values, width, store)


def _plain(f: Function, x: Val, width: int) -> Values:
    """The values at x as they are."""
    mask = tail_mask(f, width)

    def values(at: Operand) -> Val:
        if mask is not None and isinstance(
            at, int
        ):  # only a row's last vector has a constant place
            return f.masked_load(x, _VECTOR, mask, 4 * at)
        return f.load(x + at * 4, _VECTOR)

    return values


def _normalized(k: Kernel, x: Val, width: int) -> Values:
    """The values at x times weight over their root mean square."""
    scale = inverse_rms(k.f, x, width, k.signature.attribute("eps"))
    plain, weight = _plain(k.f, x, width), _plain(k.f, k.pointer("weight"), width)
    return lambda at: plain(at) * scale * weight(at)


@kernel("quantize")
def emit_quantize(k: Kernel) -> None:
    """Activations of the rows of x."""
    type_ = k.signature.named("x")[0].type
    width = max_dim(type_.shape[-1])
    with rows_of(k, type_) as row:
        x = k.pointer("x") + row * (4 * width)
        _write_activation(k, _plain(k.f, x, width), row, width)


@kernel("rms_norm_quantize")
def emit_rms_norm_quantize(k: Kernel) -> None:
    """Activations of the normalised rows of x."""
    type_ = k.signature.named("x")[0].type
    width = max_dim(type_.shape[-1])
    with rows_of(k, type_) as row:
        x = k.pointer("x") + row * (4 * width)
        _write_activation(k, _normalized(k, x, width), row, width)


@kernel("rms_norm")
def emit_rms_norm(k: Kernel) -> None:
    """x / sqrt(mean(x^2) + eps) * weight, row by row."""
    f = k.f
    type_ = k.signature.named("x")[0].type
    width = max_dim(type_.shape[-1])
    with rows_of(k, type_) as row:
        x, out = (p + row * (4 * width) for p in (k.pointer("x"), k.result()))

        def store(value: Val, at: Operand, mask: Val | None, out: Val = out) -> None:
            to = out + at * 4
            f.store(value, to) if mask is None else f.masked_store(value, to, mask)

        write_vectors(f, _normalized(k, x, width), width, store)
