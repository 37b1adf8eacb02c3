"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from ggufc.ir.numerics import F32Array
from ggufc.ir.opdef import Attribute, InPlace, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.types import TensorType


def rms_norm(x: F32Array, weight: F32Array, eps: float) -> F32Array:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in float64, rounded to float32."""
    wide = x.astype(np.float64)
    mean = np.mean(wide * wide, axis=-1, keepdims=True)
    out: F32Array = (wide / np.sqrt(mean + eps) * weight).astype(np.float32)
    return out


def layer_norm(x: F32Array, weight: F32Array | None, bias: F32Array | None, eps: float) -> F32Array:
    """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, in float64, rounded to float32."""
    wide = x.astype(np.float64)
    centred = wide - np.mean(wide, axis=-1, keepdims=True)
    out = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    rounded: F32Array = out.astype(np.float32)
    return rounded


@defop
class LayerNorm:
    """(x - mean(x)) / sqrt(variance(x) + eps) (* weight) (+ bias) over the last axis."""

    x = ValueOperand("f32[..., D]")
    weight = WeightOperand("f32[D]", optional=True)
    bias = WeightOperand("f32[D]", optional=True)
    eps = Attribute("float")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType | None, bias: TensorType | None, eps: float
    ) -> TensorType:
        return x

    @staticmethod
    def reference(
        x: F32Array, weight: F32Array | None, bias: F32Array | None, eps: float
    ) -> F32Array:
        return layer_norm(x, weight, bias, eps)


@defop
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""

    x = ValueOperand("f32[..., D]")
    weight = WeightOperand("f32[D]")
    eps = Attribute("float")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, weight: TensorType, eps: float) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array, weight: F32Array, eps: float) -> F32Array:
        return rms_norm(x, weight, eps)
