"""Rows by index: token embeddings and the rows whose logits are wanted."""

from __future__ import annotations

import numpy as np

from ggufc.ir.numerics import Array, F32Array
from ggufc.ir.opdef import Attribute, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.types import F32, TensorType


@defop
class Embed:
    """The table's row of each token, decoded to float32, times scale (rounded to float32)."""

    tokens = ValueOperand("i32[T]")
    table = WeightOperand("*[V, D]")
    scale = Attribute("float", 1.0)
    traits = (Pure(),)

    @staticmethod
    def infer(tokens: TensorType, table: TensorType, scale: float) -> TensorType:
        return TensorType((tokens.shape[0], table.shape[1]), F32)

    @staticmethod
    def reference(tokens: Array, table: F32Array, scale: float) -> F32Array:
        return table[tokens] * np.float32(scale)


@defop
class TakeRows:
    """The rows of x whose indices are given, in that order."""

    x = ValueOperand("f32[T, D]")
    rows = ValueOperand("i32[R]")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType, rows: TensorType) -> TensorType:
        return x.with_shape((rows.shape[0], x.shape[1]))

    @staticmethod
    def reference(x: F32Array, rows: Array) -> F32Array:
        return x[rows]
