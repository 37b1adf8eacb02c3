"""`linear` and `linear_glu` against float64 products of the decoded weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.kernel import OpSignature
from ggufc.backends.llvm.kernels import load
from ggufc.backends.llvm.optimize import CodegenError
from ggufc.ir import Q8aArray
from tests.support.native import aligned, build_kernel, kernel_module, object_code
from tests.support.signatures import tensor
from tests.support.weights import (
    FLOATS,
    LAYOUTS,
    QUANTIZED,
    MatrixWeight,
    columns_of,
    levels,
    product,
    q8a_rows,
    random_activation,
    random_weight,
    value,
    vector,
)

load()
ISA = pytest.mark.parametrize("isa", levels(), ids=lambda isa: isa.name)
# Of |x| |W|^T: rounding of float32 sums of K / 32 terms.
TOLERANCE = 1e-6


def linear(
    isa: Isa,
    weights: list[MatrixWeight],
    x: np.ndarray,
    *extra: np.ndarray,
    phase: Any = "prefill",
    x_type: str = "q8a",
    out: np.ndarray | None = None,
    threads: int = 1,
) -> np.ndarray:
    """x W^T (+ bias) (+ residual); `extra` holds them where they are given."""
    k, n = weights[0].k, sum(w.n for w in weights)
    operands = [value("x", f"{x_type}[T, {k}]"), *(w.operand() for w in weights)]
    for array in extra:
        bias = array.ndim == 1
        operands.append(vector("bias", n) if bias else value("residual", f"f32[T, {n}]"))
    signature = OpSignature("linear", (), tuple(operands), (tensor(f"f32[T, {n}]"),), phase)
    result = aligned((len(x), n), np.float32, np.nan) if out is None else out
    packed = [w.packed for w in weights]
    build_kernel(signature, isa)(x, *packed, *extra, result, n=len(x), threads=threads)
    return result


def aligned_normal(tokens: int, k: int, rng: np.random.Generator) -> np.ndarray:
    x = aligned((tokens, k), np.float32)
    x[:] = rng.standard_normal((tokens, k))
    return x


@ISA
@pytest.mark.parametrize("type_name", QUANTIZED)
def test_quantised_products_are_exact_to_float32(isa: Isa, type_name: str) -> None:
    rng = np.random.default_rng(0)
    weight = random_weight(type_name, 37, columns_of(type_name), rng)
    x = random_activation(17, weight.k, rng)
    exact, magnitude = product(x.dequantize(), [weight])
    out = linear(isa, [weight], q8a_rows(x))
    assert (np.abs(out - exact) / magnitude).max() < TOLERANCE


@ISA
@pytest.mark.parametrize("type_name", FLOATS)
def test_float_products_are_exact_to_float32(isa: Isa, type_name: str) -> None:
    rng = np.random.default_rng(0)
    weight = random_weight(type_name, 37, columns_of(type_name), rng)
    x = aligned_normal(11, weight.k, rng)
    exact, magnitude = product(x, [weight])
    out = linear(isa, [weight], x, x_type="f32")
    assert (np.abs(out - exact) / magnitude).max() < TOLERANCE
    for threads in (2, 3):
        assert np.array_equal(linear(isa, [weight], x, x_type="f32", threads=threads), out)


@ISA
@pytest.mark.parametrize("type_name", LAYOUTS)
def test_a_tokens_result_depends_on_nothing_but_the_token(isa: Isa, type_name: str) -> None:
    rng = np.random.default_rng(1)
    weight = random_weight(type_name, 37, columns_of(type_name), rng)
    x = q8a_rows(random_activation(17, weight.k, rng))
    whole = linear(isa, [weight], x)
    for threads in (2, 3):
        assert np.array_equal(linear(isa, [weight], x, threads=threads), whole)
    for tokens in range(1, 17):
        assert np.array_equal(linear(isa, [weight], x[:tokens]), whole[:tokens])
    assert np.array_equal(linear(isa, [weight], x, phase="decode"), whole)


@ISA
@pytest.mark.parametrize("type_name", QUANTIZED)
def test_the_largest_codes_do_not_overflow(isa: Isa, type_name: str) -> None:
    rng = np.random.default_rng(2)
    k = columns_of(type_name)
    weight = random_weight(type_name, 37, k, rng, choices=(0, 255, 0x80, 0x7F))
    signs = np.where(weight.values[:4].astype(np.float64) < 0, -127, 127).astype(np.int8)
    x = Q8aArray(np.concatenate([signs, -signs]), np.full((8, k // 32), 0.5, np.float32))
    exact, magnitude = product(x.dequantize(), [weight])
    out = linear(isa, [weight], q8a_rows(x))
    assert (np.abs(out - exact) / magnitude).max() < TOLERANCE


@ISA
@pytest.mark.parametrize("type_name", QUANTIZED)
def test_zero_blocks_give_zero(isa: Isa, type_name: str) -> None:
    k = columns_of(type_name)
    rng = np.random.default_rng(3)
    weight = random_weight(type_name, 37, k, rng)
    zero = MatrixWeight(type_name, 37, k, np.zeros_like(weight.raw))
    assert not linear(isa, [zero], q8a_rows(random_activation(3, k, rng))).any()
    nothing = Q8aArray(np.zeros((3, k), np.int8), np.zeros((3, k // 32), np.float32))
    assert not linear(isa, [weight], q8a_rows(nothing)).any()


@ISA
def test_weights_side_by_side_take_bias_and_residual_in_place(isa: Isa) -> None:
    rng = np.random.default_rng(4)
    shapes = (("q4_k", 40), ("q6_k", 7), ("q8_0", 16))
    weights = [random_weight(t, n, 256, rng) for t, n in shapes]
    x, bias = random_activation(13, 256, rng), rng.standard_normal(63).astype(np.float32)
    residual = aligned_normal(13, 63, rng)
    exact, magnitude = product(x.dequantize(), weights)
    exact += bias + residual.astype(np.float64)
    results = []
    for threads in (1, 2, 3, 7):
        out = aligned((13, 63), np.float32)
        out[:] = residual
        linear(isa, weights, q8a_rows(x), bias, out, out=out, threads=threads)
        results.append(out)
        assert np.array_equal(out, results[0])
    assert (np.abs(results[0] - exact) / (magnitude + np.abs(exact))).max() < TOLERANCE


@ISA
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_glu_multiplies_the_activated_gate_with_up(isa: Isa, activation: str) -> None:
    rng = np.random.default_rng(5)
    gate, up = random_weight("q4_0", 37, 96, rng), random_weight("q5_1", 37, 96, rng)
    x = random_activation(9, 96, rng)
    operands = (value("x", "q8a[T, 96]"), gate.operand("gate"), up.operand("up"))
    attributes = (("activation", activation),)
    result = (tensor("f32[T, 37]"),)
    run = build_kernel(OpSignature("linear_glu", attributes, operands, result, "prefill"), isa)
    out = aligned((9, 37), np.float32, np.nan)
    run(q8a_rows(x), gate.packed, up.packed, out, n=9, threads=2)
    g, u = (product(x.dequantize(), [w])[0] for w in (gate, up))
    inner = g if activation == "silu" else 2 * math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)
    exact = g / (1 + np.exp(-inner)) * u
    assert np.abs(out - exact).max() < 4e-6 * np.abs(exact).max()


@ISA
@pytest.mark.parametrize(
    ("type_name", "k", "tokens"),
    [("q8_0", 32, 1), ("q4_1", 576, 64), ("q5_0", 640, 7), ("q4_k", 2048, 2), ("q4_0", 2048, 512)],
)
def test_shapes_of_real_models(isa: Isa, type_name: str, k: int, tokens: int) -> None:
    rng = np.random.default_rng(6)
    weight = random_weight(type_name, 33, k, rng)
    x = random_activation(tokens, k, rng)
    exact, magnitude = product(x.dequantize(), [weight])
    out = linear(isa, [weight], q8a_rows(x), threads=2)
    assert (np.abs(out - exact) / magnitude).max() < TOLERANCE


@ISA
def test_no_tokens_are_no_work(isa: Isa) -> None:
    weight = random_weight("q8_0", 37, 96, np.random.default_rng(7))
    x = q8a_rows(random_activation(1, 96, np.random.default_rng(7)))
    assert linear(isa, [weight], x[:0], threads=2).shape == (0, 37)


@pytest.mark.parametrize("isa_name", ["x86-64-amx", "aarch64-dotprod", "aarch64"])
@pytest.mark.parametrize(
    "type_name", ["q8_0", "q5_k", "q6_k", "f16", "q2_k", "iq1_m", "iq2_s", "mxfp4", "nvfp4"]
)
def test_other_machines_objects_stand_alone(isa_name: str, type_name: str) -> None:
    isa = isa_named(isa_name)
    weight = random_weight(type_name, 37, 512, np.random.default_rng(8))
    x_type = "f32" if type_name == "f16" else "q8a"
    operands = (value("x", f"{x_type}[T, 512]"), weight.operand())
    signature = OpSignature("linear", (), operands, (tensor("f32[T, 37]"),), "decode")
    assert object_code(kernel_module(signature, isa), isa)


@pytest.mark.parametrize(("type_name", "x_type"), [("f32", "bf16a"), ("f16", "q8a")])
def test_activations_that_do_not_fit_the_weights_are_refused(type_name: str, x_type: str) -> None:
    weight = random_weight(type_name, 16, 64, np.random.default_rng(9))
    operands = (value("x", f"{x_type}[T, 64]"), weight.operand())
    signature = OpSignature("linear", (), operands, (tensor("f32[T, 16]"),), "prefill")
    with pytest.raises(CodegenError, match=rf"layout r16.{type_name} .* with {x_type} activations"):
        kernel_module(signature, isa_named("x86-64"))
