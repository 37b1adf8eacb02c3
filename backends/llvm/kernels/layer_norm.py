"""`layer_norm`: rows with the mean taken away, over their standard deviation.

Rows are shared out over threads; a single row is one thread's work.
"""

from __future__ import annotations

from collections.abc import Callable

from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, Function, Operand, Val, vec
from ggufc.backends.llvm.kernels.quantize import rows_of, tail_mask, write_vectors
from ggufc.ir.types import max_dim

_LANES = 16
_VECTOR = vec(F32, _LANES)
_SUMS = 4


@kernel("layer_norm")
def emit_layer_norm(k: Kernel) -> None:
    """(x - mean) / sqrt(variance + eps) (* weight) (+ bias), row by row."""
    f = k.f
    type_ = k.signature.named("x")[0].type
    width = max_dim(type_.shape[-1])
    with rows_of(k, type_) as row:
        x, out = (p + row * (4 * width) for p in (k.pointer("x"), k.result()))
        mean = _row_sum(f, x, width, lambda value: value) / float(width)
        variance = _row_sum(f, x, width, lambda value: _square(value - mean)) / float(width)
        scale = 1.0 / f.sqrt(variance + float(k.signature.attribute("eps")))

        def values(at: Operand, x: Val = x, mean: Val = mean, scale: Val = scale) -> Val:
            value = (_load(f, x, at, width) - mean) * scale
            for weight in k.pointers("weight"):
                value = value * _load(f, weight, at, width)
            for bias in k.pointers("bias"):
                value = value + _load(f, bias, at, width)
            return value

        def store(value: Val, at: Operand, mask: Val | None, out: Val = out) -> None:
            to = out + at * 4
            f.store(value, to) if mask is None else f.masked_store(value, to, mask)

        write_vectors(f, values, width, store)


def _square(x: Val) -> Val:
    return x * x


def _load(f: Function, row: Val, at: Operand, width: int) -> Val:
    """The vector at an element offset of a row; of the last one what there is of it."""
    mask = tail_mask(f, width)
    if mask is not None and isinstance(at, int):  # only a row's last vector has a constant place
        return f.masked_load(row, _VECTOR, mask, 4 * at)
    return f.load(row + at * 4, _VECTOR)


def _row_sum(f: Function, x: Val, width: int, term: Callable[[Val], Val]) -> Val:
    """The sum of term(x) over a row, in a fixed order."""
    sums = [f.var(_VECTOR, 0.0) for _ in range(_SUMS)]
    step = _SUMS * _LANES
    whole = width // step * step
    with f.loop(whole, step=step, name="sum") as i:
        for part, total in enumerate(sums):
            total.set(total.get() + term(f.load(x + i * 4, _VECTOR, 4 * _LANES * part)))
    for at in range(whole, width, _LANES):
        mask = tail_mask(f, width) if at + _LANES > width else None
        if mask is None:
            value = term(f.load(x, _VECTOR, 4 * at))
        else:
            value = f.select(mask, term(f.masked_load(x, _VECTOR, mask, 4 * at)), 0.0)
        sums[0].set(sums[0].get() + value)
    return f.reduce_add((sums[0].get() + sums[1].get()) + (sums[2].get() + sums[3].get()))
