"""Ops that only passes create; each docstring gives the equivalent of unfused ops."""

from __future__ import annotations

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import (
    REFINEMENTS,
    Array,
    F32Array,
    Runtime,
    f32_to_bf16,
    quantize_q8a,
)
from ggufc.ir.opdef import (
    Attribute,
    Pure,
    StateEffect,
    StateOperand,
    ValueOperand,
    WeightOperand,
    defop,
)
from ggufc.ir.ops.activation import ACTIVATIONS
from ggufc.ir.ops.attention import check_heads, write_rows
from ggufc.ir.ops.linear import check_weight_type, matmul_transposed
from ggufc.ir.ops.norm import rms_norm
from ggufc.ir.ops.rope import PAIRINGS, check_rotated, rotate
from ggufc.ir.types import Q8A_BLOCK, TensorType, dtype, max_dim

FUSED = ("fused", "planned")
ACTIVATION_TYPES = ("q8a", "bf16a")


def _activation_type(x: TensorType, to: str, refine: str) -> TensorType:
    width = max_dim(x.shape[-1])
    if to != "q8a" and refine != "none":
        raise OperandError("attribute 'refine'", f"expected 'none' with {to}, found {refine!r}")
    if to == "q8a" and width % Q8A_BLOCK:
        raise OperandError("operand 'x'", f"expected a multiple of {Q8A_BLOCK} columns, found {x}")
    return x.with_dtype(dtype(to))


def _round_activation(x: F32Array, to: str, refine: str) -> Runtime:
    return quantize_q8a(x, refine) if to == "q8a" else f32_to_bf16(x)


@defop
class Quantize:
    """x as an activation for linears with quantised weights: q8a, or bf16a (nearest even).

    q8a per 32 elements, in float32: d = max|x| / 127, q = round half to even(x * (1 / d)); d and q
    are 0 when d is below the smallest normal float32. `refine` says which blocks have residuals
    too, r = round((x * (1 / d) - q) * 256), at most +-127, so that x = d (q + r / 256): none, all,
    or the outliers of a row, where d^2 is more than 2.25 times its mean.
    """

    x = ValueOperand("f32[..., K]")
    to = Attribute("str", "q8a", choices=ACTIVATION_TYPES)
    refine = Attribute("str", "none", choices=REFINEMENTS)
    traits = (Pure(),)
    stages = FUSED

    @staticmethod
    def infer(x: TensorType, to: str, refine: str) -> TensorType:
        return _activation_type(x, to, refine)

    @staticmethod
    def reference(x: F32Array, to: str, refine: str) -> Runtime:
        return _round_activation(x, to, refine)


@defop
class RmsNormQuantize:
    """quantize(rms_norm(x, weight) {eps}) {to, refine}."""

    x = ValueOperand("f32[T, K]")
    weight = WeightOperand("f32[K]")
    eps = Attribute("float")
    to = Attribute("str", "q8a", choices=ACTIVATION_TYPES)
    refine = Attribute("str", "none", choices=REFINEMENTS)
    traits = (Pure(),)
    stages = FUSED

    @staticmethod
    def infer(x: TensorType, weight: TensorType, eps: float, to: str, refine: str) -> TensorType:
        return _activation_type(x, to, refine)

    @staticmethod
    def reference(x: F32Array, weight: F32Array, eps: float, to: str, refine: str) -> Runtime:
        return _round_activation(rms_norm(x, weight, eps), to, refine)


@defop
class LinearGlu:
    """mul(activation(linear(x, [gate])), linear(x, [up])), rounded to the type `to`."""

    x = ValueOperand("f32|bf16a|q8a[T, K]")
    gate = WeightOperand("*[F, K]")
    up = WeightOperand("*[F, K]")
    activation = Attribute("str", choices=tuple(ACTIVATIONS))
    to = Attribute("str", "f32", choices=("f32", "bf16a"))
    traits = (Pure(),)
    stages = FUSED

    @staticmethod
    def infer(
        x: TensorType, gate: TensorType, up: TensorType, activation: str, to: str
    ) -> TensorType:
        check_weight_type("operand 'gate'", x, gate)
        check_weight_type("operand 'up'", x, up)
        return TensorType((x.shape[0], gate.shape[0]), dtype(to))

    @staticmethod
    def reference(x: Runtime, gate: F32Array, up: F32Array, activation: str, to: str) -> Runtime:
        result = ACTIVATIONS[activation](matmul_transposed(x, gate)) * matmul_transposed(x, up)
        return f32_to_bf16(result) if to == "bf16a" else result


@defop
class RopeKvWrite:
    """Split the columns of qkv into q, k and v; norm and rotate q and k; store k and v; return q.

    q, k, v = reshape(slice(qkv)) with n_heads, n_kv_heads and n_kv_heads heads of head_dim;
    q = rope(rms_norm(q, q_norm), table), k likewise with k_norm (each norm only if it is given);
    kv_write(k, v, positions, sequences, k_cache, v_cache).
    """

    qkv = ValueOperand("f32[T, N]")
    table = ValueOperand("f32[T, R]")
    positions = ValueOperand("i32[T]")
    sequences = ValueOperand("i32[T]")
    k_cache = StateOperand("f32|f16|bf16[S, C, Hkv, D]")
    v_cache = StateOperand("f32|f16|bf16[S, C, Hkv, D]")
    q_norm = WeightOperand("f32[D]", optional=True)
    k_norm = WeightOperand("f32[D]", optional=True)
    n_heads = Attribute("int")
    n_kv_heads = Attribute("int")
    head_dim = Attribute("int")
    pairing = Attribute("str", choices=PAIRINGS)
    eps = Attribute("float", 0.0)
    traits = (StateEffect(writes=True),)
    stages = FUSED

    @staticmethod
    def infer(
        qkv: TensorType,
        table: TensorType,
        positions: TensorType,
        sequences: TensorType,
        k_cache: TensorType,
        v_cache: TensorType,
        q_norm: TensorType | None,
        k_norm: TensorType | None,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        pairing: str,
        eps: float,
    ) -> TensorType:
        check_heads("attribute 'n_heads'", n_heads, n_kv_heads)
        check_rotated(table, head_dim)
        wanted = (n_heads + 2 * n_kv_heads) * head_dim
        if qkv.shape[1] != wanted:
            raise OperandError("operand 'qkv'", f"expected {wanted} columns, found {qkv}")
        if k_cache.shape[2:] != (n_kv_heads, head_dim):
            raise OperandError(
                "operand 'k_cache'", f"expected rows of [{n_kv_heads}, {head_dim}], found {k_cache}"
            )
        return qkv.with_shape((qkv.shape[0], n_heads, head_dim))

    @staticmethod
    def reference(
        qkv: F32Array,
        table: F32Array,
        positions: Array,
        sequences: Array,
        k_cache: Array,
        v_cache: Array,
        q_norm: F32Array | None,
        k_norm: F32Array | None,
        n_heads: int,
        n_kv_heads: int,
        head_dim: int,
        pairing: str,
        eps: float,
    ) -> F32Array:
        heads = qkv.reshape(qkv.shape[0], n_heads + 2 * n_kv_heads, head_dim)
        q, k = heads[:, :n_heads], heads[:, n_heads : n_heads + n_kv_heads]
        q = q if q_norm is None else rms_norm(q, q_norm, eps)
        k = k if k_norm is None else rms_norm(k, k_norm, eps)
        write_rows(rotate(k, table, pairing), positions, sequences, k_cache)
        write_rows(heads[:, n_heads + n_kv_heads :], positions, sequences, v_cache)
        return rotate(q, table, pairing)
