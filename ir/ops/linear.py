"""Products with weight matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import F32Array, Runtime, to_f32
from ggufc.ir.opdef import InPlace, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.types import F32, Dim, Symbol, TensorType

_CHUNK_ROWS = 4096


def matmul_transposed(x: Runtime, weight: F32Array) -> F32Array:
    """x W^T of x [T, K] and W float32 [N, K], accumulated in float64, rounded to float32."""
    wide = to_f32(x).astype(np.float64)
    out = np.empty((wide.shape[0], weight.shape[0]), np.float32)
    for start in range(0, weight.shape[0], _CHUNK_ROWS):  # a wide copy of all rows may not fit
        rows = weight[start : start + _CHUNK_ROWS].astype(np.float64)
        out[:, start : start + _CHUNK_ROWS] = wide @ rows.T
    return out


def check_weight_type(part: str, x: TensorType, weight: TensorType) -> None:
    """Quantised activations (q8a, bf16a) go with weights of block types only."""
    if x.dtype != F32 and not weight.dtype.is_quantized:
        raise OperandError(
            part,
            f"expected a type in blocks with {x.dtype} activations, found {weight}; "
            "f32, f16 and bf16 weights take f32",
        )


def total_rows(weights: tuple[TensorType, ...]) -> int:
    """The sum of the first dimensions of weight matrices, which are integers."""
    rows: list[Dim] = [weight.shape[0] for weight in weights]
    for row in rows:
        if isinstance(row, Symbol):
            raise OperandError("operand 'weights'", f"expected a fixed number of rows, found {row}")
    return sum(row for row in rows if isinstance(row, int))


def _check_columns(name: str, found: TensorType | None, n: int) -> None:
    if found is not None and found.shape[-1] != n:
        raise OperandError(f"operand '{name}'", f"expected {n} columns, found {found}")


@defop
class Linear:
    """x W^T (+ bias) (+ residual); the outputs of several weights lie side by side.

    x is f32, or q8a or bf16a where every weight is of a block type.
    """

    x = ValueOperand("f32|bf16a|q8a[T, K]")
    weights = WeightOperand("*[_, K]", variadic=True)
    bias = WeightOperand("f32[N]", optional=True)
    residual = ValueOperand("f32[T, N]", optional=True)
    traits = (Pure(), InPlace("residual"))

    @staticmethod
    def infer(
        x: TensorType,
        weights: tuple[TensorType, ...],
        bias: TensorType | None,
        residual: TensorType | None,
    ) -> TensorType:
        for weight in weights:
            check_weight_type("operand 'weights'", x, weight)
        n = total_rows(weights)
        _check_columns("bias", bias, n)
        _check_columns("residual", residual, n)
        return TensorType((x.shape[0], n), F32)

    @staticmethod
    def reference(
        x: Runtime,
        weights: tuple[F32Array, ...],
        bias: F32Array | None,
        residual: F32Array | None,
    ) -> F32Array:
        parts = [matmul_transposed(x, weight) for weight in weights]
        out: F32Array = np.concatenate(parts, axis=1)
        for addend in (bias, residual):
            out = out if addend is None else out + addend
        return out


@defop
class ScaleColumns:
    """x * weight, the same weight for every row."""

    x = ValueOperand("f32[T, N]")
    weight = WeightOperand("f32[N]")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, weight: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array, weight: F32Array) -> Any:
        return x * weight


@defop
class BiasAdd:
    """x + bias, the same bias for every row."""

    x = ValueOperand("f32[T, N]")
    bias = WeightOperand("f32[N]")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, bias: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: F32Array, bias: F32Array) -> Any:
        return x + bias
