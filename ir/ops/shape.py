"""Ops that move no arithmetic: another shape for the same bytes, and columns of a matrix."""

from __future__ import annotations

import math

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import F32Array
from ggufc.ir.opdef import Attribute, Pure, ValueOperand, View, defop
from ggufc.ir.types import Dim, Symbol, TensorType, max_dim


def _elements(shape: tuple[Dim, ...]) -> tuple[int, list[str]]:
    """The fixed factor and the sorted symbols of a number of elements."""
    fixed = math.prod(dim for dim in shape if isinstance(dim, int))
    return fixed, sorted(str(dim) for dim in shape if isinstance(dim, Symbol))


@defop
class Reshape:
    """The same elements in the same order under another shape; a view, never a copy."""

    x = ValueOperand("f32")
    shape = Attribute("dims")
    traits = (Pure(), View("x"))

    @staticmethod
    def infer(x: TensorType, shape: tuple[Dim, ...]) -> TensorType:
        if _elements(x.shape) != _elements(shape):
            wanted = x.with_shape(shape)
            raise OperandError(
                "attribute 'shape'", f"expected as many elements as {x}, found {wanted}"
            )
        return x.with_shape(shape)

    @staticmethod
    def reference(x: F32Array, shape: tuple[Dim, ...]) -> F32Array:
        fixed, _ = _elements(shape)  # an array fits with one symbol at most
        return x.reshape([dim if isinstance(dim, int) else x.size // fixed for dim in shape])


@defop
class Slice:
    """Columns start (included) to stop (excluded) of x, along its last axis."""

    x = ValueOperand("f32[..., N]")
    start = Attribute("int")
    stop = Attribute("int")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType, start: int, stop: int) -> TensorType:
        columns = x.shape[-1]
        if isinstance(columns, Symbol) or not 0 <= start < stop <= columns:
            raise OperandError(
                "attributes 'start', 'stop'",
                f"expected 0 <= start < stop <= {columns}, found {start}, {stop}",
            )
        return x.with_shape((*x.shape[:-1], stop - start))

    @staticmethod
    def reference(x: F32Array, start: int, stop: int) -> F32Array:
        return x[..., start:stop]


@defop
class Concat:
    """The columns of all parts side by side, along the last axis."""

    parts = ValueOperand("f32[..., _]", variadic=True)
    traits = (Pure(),)

    @staticmethod
    def infer(parts: tuple[TensorType, ...]) -> TensorType:
        first = parts[0]
        for part in parts:
            if part.shape[:-1] != first.shape[:-1] or isinstance(part.shape[-1], Symbol):
                raise OperandError("operand 'parts'", f"expected rows as in {first}, found {part}")
        return first.with_shape((*first.shape[:-1], sum(max_dim(p.shape[-1]) for p in parts)))

    @staticmethod
    def reference(parts: tuple[F32Array, ...]) -> F32Array:
        return np.concatenate(parts, axis=-1)
