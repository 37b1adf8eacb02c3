"""Elementwise ops on float32 tensors of equal shape."""

from __future__ import annotations

import math

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import F32Array
from ggufc.ir.opdef import Attribute, Elementwise, InPlace, Pure, ValueOperand, defop
from ggufc.ir.types import TensorType

UNARY = (Pure(), Elementwise(), InPlace("x"))
BINARY = (Pure(), Elementwise(), InPlace("a"), InPlace("b"))


def silu(x: F32Array) -> F32Array:
    """x / (1 + exp(-x)), in float64, rounded to float32."""
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):  # exp(-x) = inf for very negative x gives the right limit, -0
        return (wide / (1.0 + np.exp(-wide))).astype(np.float32)


def gelu_tanh(x: F32Array) -> F32Array:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), in float64, rounded to float32."""
    wide = x.astype(np.float64)
    inner = math.sqrt(2.0 / math.pi) * (wide + 0.044715 * wide**3)
    return (0.5 * wide * (1.0 + np.tanh(inner))).astype(np.float32)


ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu_tanh}


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
class Silu:
    """x / (1 + exp(-x))."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        return silu(x)


@defop
class GeluTanh:
    """GELU in its tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        return gelu_tanh(x)


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
