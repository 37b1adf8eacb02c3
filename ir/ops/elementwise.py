"""Elementwise ops on float32 tensors of equal shape."""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import F32Array
from ggufc.ir.opdef import Attribute, Elementwise, InPlace, Pure, ValueOperand, defop
from ggufc.ir.ops.activation import UNARY
from ggufc.ir.types import TensorType

BINARY = (Pure(), Elementwise(), InPlace("a"), InPlace("b"))


def _same_shape(a: TensorType, b: TensorType) -> TensorType:
    if a != b:
        raise OperandError("operand 'b'", f"expected {a} as operand 'a', found {b}")
    return a


@defop
class Add:
    """a + b."""

    a = ValueOperand("f32")
    b = ValueOperand("f32")
    traits = BINARY

    @staticmethod
    def infer(a: TensorType, b: TensorType) -> TensorType:
        return _same_shape(a, b)

    @staticmethod
    def reference(a: F32Array, b: F32Array) -> F32Array:
        return a + b


@defop
class Mul:
    """a * b."""

    a = ValueOperand("f32")
    b = ValueOperand("f32")
    traits = BINARY

    @staticmethod
    def infer(a: TensorType, b: TensorType) -> TensorType:
        return _same_shape(a, b)

    @staticmethod
    def reference(a: F32Array, b: F32Array) -> F32Array:
        return a * b


@defop
class Softcap:
    """cap * tanh(x / cap), cap > 0."""

    x = ValueOperand("f32")
    cap = Attribute("float")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType, cap: float) -> TensorType:
        if not cap > 0:
            raise OperandError("attribute 'cap'", f"expected a number above 0, found {cap!r}")
        return x

    @staticmethod
    def reference(x: F32Array, cap: float) -> F32Array:
        return (cap * np.tanh(x.astype(np.float64) / cap)).astype(np.float32)


@defop
class Clamp:
    """x, but at least -limit and at most limit; limit > 0."""

    x = ValueOperand("f32")
    limit = Attribute("float")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType, limit: float) -> TensorType:
        if not limit > 0:
            raise OperandError("attribute 'limit'", f"expected a number above 0, found {limit!r}")
        return x

    @staticmethod
    def reference(x: F32Array, limit: float) -> F32Array:
        bound = np.float32(limit)
        return np.clip(x, -bound, bound)


@defop
class Scale:
    """x * factor, the factor rounded to float32."""

    x = ValueOperand("f32")
    factor = Attribute("float")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType, factor: float) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array, factor: float) -> F32Array:
        return x * np.float32(factor)


@defop
class ScaleRows:
    """x * factors, the same factor for all of a row."""

    x = ValueOperand("f32[T, N]")
    factors = ValueOperand("f32[T, 1]")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, factors: TensorType) -> TensorType:
        if factors.shape[1] != 1:
            raise OperandError("operand 'factors'", f"expected one a row, found {factors}")
        return x

    @staticmethod
    def reference(x: F32Array, factors: F32Array) -> F32Array:
        return x * factors
