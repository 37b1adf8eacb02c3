"""Sums, products, limits and activations: each element of the result from the same element of the
operands.

Work is cut into chunks of 64 elements of the flat tensor. Results may lie where an operand lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ggufc.backends.llvm import vector_math
from ggufc.backends.llvm.kernel import Kernel, kernel
from ggufc.backends.llvm.kernel_builder import F32, Type, Val, vec
from ggufc.backends.llvm.kernels.masks import first_lanes
from ggufc.ir import Symbol

Body = Callable[[list[Val]], Val]
CHUNK = 64
# Chunks that a thread takes at a time at least: work of some microseconds.
_PART_CHUNKS = 256
_BYTES = 4


@kernel("add")
def emit_add(k: Kernel) -> None:
    """a + b."""
    _emit(k, lambda x: x[0] + x[1])


@kernel("mul")
def emit_mul(k: Kernel) -> None:
    """a * b."""
    _emit(k, lambda x: x[0] * x[1])


@kernel("scale")
def emit_scale(k: Kernel) -> None:
    """x * factor."""
    _emit(k, lambda x: x[0] * float(k.signature.attribute("factor")))


@kernel("softcap")
def emit_softcap(k: Kernel) -> None:
    """cap * tanh(x / cap)."""
    cap = float(k.signature.attribute("cap"))
    _emit(k, lambda x: vector_math.tanh(x[0] / cap) * cap)


@kernel("silu")
def emit_silu(k: Kernel) -> None:
    """x / (1 + exp(-x))."""
    _emit(k, lambda x: vector_math.silu(x[0]))


@kernel("sigmoid")
def emit_sigmoid(k: Kernel) -> None:
    """1 / (1 + exp(-x))."""
    _emit(k, lambda x: 1.0 / (vector_math.exp(-x[0]) + 1.0))


@kernel("softplus")
def emit_softplus(k: Kernel) -> None:
    """ln(1 + exp(x))."""
    _emit(k, lambda x: vector_math.softplus(x[0]))


@kernel("gelu_tanh")
def emit_gelu_tanh(k: Kernel) -> None:
    """GELU in its tanh form."""
    _emit(k, lambda x: vector_math.gelu_tanh(x[0]))


@kernel("gelu")
def emit_gelu(k: Kernel) -> None:
    """GELU in its exact form."""
    _emit(k, lambda x: vector_math.gelu(x[0]))


@kernel("relu_squared")
def emit_relu_squared(k: Kernel) -> None:
    """max(x, 0)^2."""

    def body(x: list[Val]) -> Val:
        positive = k.f.fmax(k.f.const(x[0].type, 0.0), x[0])
        return positive * positive

    _emit(k, body)


@kernel("clamp")
def emit_clamp(k: Kernel) -> None:
    """x between -limit and limit."""
    limit = float(k.signature.attribute("limit"))
    f = k.f

    def body(x: list[Val]) -> Val:
        below = f.fmin(f.const(x[0].type, limit), x[0])
        return f.fmax(f.const(x[0].type, -limit), below)

    _emit(k, body)


@kernel("xielu")
def emit_xielu(k: Kernel) -> None:
    """alpha_p x^2 + beta x above 0, alpha_n (exp(min(x, eps)) - 1 - x) + beta x below."""
    f = k.f
    alpha_n, alpha_p, beta, eps = (
        float(k.signature.attribute(name)) for name in ("alpha_n", "alpha_p", "beta", "eps")
    )

    def body(xs: list[Val]) -> Val:
        (x,) = xs
        below = (vector_math.expm1_nonpositive(f.fmin(f.const(x.type, eps), x)) - x) * alpha_n
        curve = f.select(x > 0.0, x * x * alpha_p, below)
        return vector_math.muladd(x, beta, curve)

    _emit(k, body)


def lanes(k: Kernel) -> int:
    """Float32 lanes of a register."""
    return k.isa.vector_bits // 32


def _emit(k: Kernel, body: Body) -> None:
    """Whole vectors of this thread's chunks; then the elements left over after the last."""
    f, width = k.f, lanes(k)
    total, per_row = _elements(k)
    type_ = vec(F32, width)
    with k.shares((total + (CHUNK - 1)) // CHUNK, _PART_CHUNKS) as (begin, end):
        start, stop = begin * CHUNK, f.smin(end * CHUNK, total)
        whole = start + ((stop - start) & -width)
        with f.loop(whole, start, step=width) as i:
            f.store(
                body([f.load(p + i * _BYTES, type_) for p in _operands(k)]), k.result() + i * _BYTES
            )
        if per_row % width:
            with f.if_(whole < stop):
                _emit_rest(k, body, whole, stop - whole, type_)


def _emit_rest(k: Kernel, body: Body, at: Val, count: Val, type_: Type) -> None:
    f = k.f
    mask = first_lanes(f, count, type_.lanes)
    operands = [f.masked_load(p + at * _BYTES, type_, mask) for p in _operands(k)]
    f.masked_store(body(operands), k.result() + at * _BYTES, mask)


def _operands(k: Kernel) -> list[Val]:
    return [k.f.arg(f"a{i}") for i in range(len(k.signature.operands))]


def _elements(k: Kernel) -> tuple[Val, int]:
    """The run-time number of elements, and the number that it is a multiple of."""
    first, *rest = k.signature.results[0].shape
    per_row = math.prod(dim for dim in rest if isinstance(dim, int))
    if isinstance(first, Symbol):
        return k.n * per_row, per_row
    return k.n * per_row, first * per_row
