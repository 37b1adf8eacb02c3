"""Activations of MLPs: elementwise ops on float32 tensors."""

from __future__ import annotations

import math

import numpy as np

from ggufc.ir.numerics import F32Array
from ggufc.ir.opdef import Attribute, Elementwise, InPlace, Pure, ValueOperand, defop
from ggufc.ir.types import TensorType

UNARY = (Pure(), Elementwise(), InPlace("x"))
_ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def silu(x: F32Array) -> F32Array:
    """x / (1 + exp(-x)), in float64, rounded to float32."""
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):  # exp(-x) = inf for very negative x gives the right limit, -0
        return (wide / (1.0 + np.exp(-wide))).astype(np.float32)


def gelu(x: F32Array) -> F32Array:
    """x/2 * erfc(-x / sqrt(2)), in float64, rounded to float32."""
    wide = x.astype(np.float64)
    if not wide.size:
        return x
    out: F32Array = (0.5 * wide * _ERFC(-wide / math.sqrt(2.0))).astype(np.float32)
    return out


def gelu_tanh(x: F32Array) -> F32Array:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), in float64, rounded to float32."""
    wide = x.astype(np.float64)
    inner = math.sqrt(2.0 / math.pi) * (wide + 0.044715 * wide**3)
    return (0.5 * wide * (1.0 + np.tanh(inner))).astype(np.float32)


# Those that a gated linear unit may have.
ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu_tanh}


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
class Sigmoid:
    """1 / (1 + exp(-x))."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        with np.errstate(over="ignore"):
            return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32)


@defop
class Gelu:
    """GELU: x times the probability that a standard normal number is below x."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        return gelu(x)


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
class ReluSquared:
    """max(x, 0)^2."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        return np.square(np.maximum(x, np.float32(0)))


@defop
class Softplus:
    """ln(1 + exp(x))."""

    x = ValueOperand("f32")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array) -> F32Array:
        out: F32Array = np.logaddexp(0.0, x.astype(np.float64)).astype(np.float32)
        return out


@defop
class Xielu:
    """alpha_p x^2 + beta x above 0, alpha_n (exp(min(x, eps)) - 1 - x) + beta x below.

    Huang and Schlag 2025, "Deriving activation functions using integration".
    """

    x = ValueOperand("f32")
    alpha_n = Attribute("float")
    alpha_p = Attribute("float")
    beta = Attribute("float")
    eps = Attribute("float")
    traits = UNARY

    @staticmethod
    def infer(x: TensorType, alpha_n: float, alpha_p: float, beta: float, eps: float) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array, alpha_n: float, alpha_p: float, beta: float, eps: float) -> F32Array:
        wide = x.astype(np.float64)
        below = alpha_n * (np.expm1(np.minimum(wide, eps)) - wide)
        curve = np.where(wide > 0, alpha_p * wide * wide, below)
        return (curve + beta * wide).astype(np.float32)
