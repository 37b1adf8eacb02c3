"""Products of rows with one of many weight matrices: that of each row's expert."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array, Runtime, to_f32
from ggufc.ir.opdef import Attribute, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.ops.activation import gelu_tanh, silu
from ggufc.ir.ops.linear import check_weight_type, matmul_transposed
from ggufc.ir.types import F32, TensorType, max_dim

# Of gpt-oss: both parts clamped, the gate's sigmoid steeper, the other part shifted by 1.
CLAMP, STEEPNESS = 7.0, 1.702


def clamped_swiglu(gate: F32Array, up: F32Array) -> F32Array:
    """g / (1 + exp(-1.702 g)) * (u + 1), with g = min(gate, 7) and u = up clamped to +-7."""
    g = np.minimum(gate.astype(np.float64), CLAMP)
    u = np.clip(up.astype(np.float64), -CLAMP, CLAMP)
    with np.errstate(over="ignore"):
        return (g / (1.0 + np.exp(-STEEPNESS * g)) * (u + 1.0)).astype(np.float32)


# Of gate and up, both [..., F].
GLUS: dict[str, Callable[[F32Array, F32Array], F32Array]] = {
    "silu": lambda gate, up: silu(gate) * up,
    "gelu_tanh": lambda gate, up: gelu_tanh(gate) * up,
    "clamped_swiglu": clamped_swiglu,
}


def check_starts(starts: TensorType, weight: TensorType) -> None:
    """There is a range of rows for each expert."""
    if max_dim(starts.shape[0]) != max_dim(weight.shape[0]) + 1:
        raise OperandError(
            "operand 'starts'", f"expected one more than in {weight}, found {starts}"
        )


def _ranges(starts: Array) -> Iterator[tuple[int, slice]]:
    """The experts that have rows, and which."""
    for expert in np.flatnonzero(np.diff(starts)):
        yield int(expert), slice(int(starts[expert]), int(starts[expert + 1]))


def _products(x: Runtime, starts: Array, weight: F32Array, bias: F32Array | None) -> F32Array:
    """Every row of x [T, K, D] times its expert's matrix, plus its bias: [T K, N]."""
    rows = to_f32(x).reshape(-1, x.shape[-1])
    out = np.zeros((len(rows), weight.shape[1]), np.float32)
    for expert, own in _ranges(starts):
        out[own] = matmul_transposed(rows[own], weight[expert])
        if bias is not None:
            out[own] += bias[expert]
    return out


@defop
class ExpertLinear:
    """x W^T (+ bias) of rows in the order of their experts, W and bias the expert's.

    Rows starts[e] .. starts[e + 1] belong to expert e. x is f32, or q8a or bf16a where the
    weight is of a block type.
    """

    x = ValueOperand("f32|bf16a|q8a[T, K, D]")
    starts = ValueOperand("i32[_]")
    weight = WeightOperand("*[E, N, D]")
    bias = WeightOperand("f32[E, N]", optional=True)
    traits = (Pure(),)

    @staticmethod
    def infer(
        x: TensorType, starts: TensorType, weight: TensorType, bias: TensorType | None
    ) -> TensorType:
        check_weight_type("operand 'weight'", x, weight)
        check_starts(starts, weight)
        return TensorType((*x.shape[:2], weight.shape[1]), F32)

    @staticmethod
    def reference(x: Runtime, starts: Array, weight: F32Array, bias: F32Array | None) -> F32Array:
        return _products(x, starts, weight, bias).reshape(*x.shape[:2], -1)


@defop
class ExpertGlu:
    """The gated linear unit of each row's expert: activation(gate(x), up(x)).

    As two `expert_linear`; the activation is silu(gate) * up, gelu_tanh(gate) * up, or
    clamped_swiglu: g / (1 + exp(-1.702 g)) * (u + 1), g = min(gate, 7), u = up clamped to +-7.
    """

    x = ValueOperand("f32|bf16a|q8a[T, K, D]")
    starts = ValueOperand("i32[_]")
    gate = WeightOperand("*[E, F, D]")
    up = WeightOperand("*[E, F, D]")
    gate_bias = WeightOperand("f32[E, F]", optional=True)
    up_bias = WeightOperand("f32[E, F]", optional=True)
    activation = Attribute("str", choices=tuple(GLUS))
    traits = (Pure(),)

    @staticmethod
    def infer(
        x: TensorType,
        starts: TensorType,
        gate: TensorType,
        up: TensorType,
        gate_bias: TensorType | None,
        up_bias: TensorType | None,
        activation: str,
    ) -> TensorType:
        check_weight_type("operand 'gate'", x, gate)
        check_weight_type("operand 'up'", x, up)
        check_starts(starts, gate)
        return TensorType((*x.shape[:2], gate.shape[1]), F32)

    @staticmethod
    def reference(
        x: Runtime,
        starts: Array,
        gate: F32Array,
        up: F32Array,
        gate_bias: F32Array | None,
        up_bias: F32Array | None,
        activation: str,
    ) -> F32Array:
        parts = (
            _products(x, starts, gate, gate_bias),
            _products(x, starts, up, up_bias),
        )
        return GLUS[activation](*parts).reshape(*x.shape[:2], -1)
