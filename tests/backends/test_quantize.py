"""`quantize`, `rms_norm` and `rms_norm_quantize` against the IR's definitions."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernels import load
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.ir import dtype, f32_to_bf16, quantize_q8a
from ggufc.ir.ops.norm import rms_norm
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature
from tests.support.weights import q8a_rows

load()
ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
EPS = 1e-5


def hard_rows(k: int) -> np.ndarray:
    """Normal numbers, zeros, ties, denormals, huge and tiny values."""
    x = aligned((6, k), np.float32)
    x[:] = np.random.default_rng(k).standard_normal((6, k))
    x[1, :32] = 0
    x[2, :32] = np.arange(-16, 16) * 127 / 32  # many halves after scaling
    x[2, 0] = 127
    x[3, :32] = 1e-39
    x[4] *= np.float32(1e30)
    x[5] *= np.float32(1e-30)
    return x


def quantized(
    isa: Isa, x: np.ndarray, to: str, threads: int = 1, refine: str = "none"
) -> np.ndarray:
    n, k = x.shape
    operands, results = {"x": f"f32[T, {k}]"}, (f"{to}[T, {k}]",)
    run = build_kernel(op_signature("quantize", operands, results, to=to, refine=refine), isa)
    out = result_array(n, k, to)
    run(x, out, n=n, threads=threads)
    return out


def result_array(n: int, k: int, to: str) -> np.ndarray:
    if to == "bf16a":
        return aligned((n, dtype(to).nbytes(k) // 2), np.uint16, 0xFFFF)
    return aligned((n, Q8aRow(k).stride), np.uint8, 0xFF)


def used(rows: np.ndarray, k: int) -> np.ndarray:
    """The bytes of q8a rows that mean something, zeros for the others."""
    row = Q8aRow(k)
    out = rows[:, : row.refined + row.padded // 32].copy()
    residuals = out[:, row.residuals : row.negative_residual_sums].reshape(len(out), -1, 32)
    out[:, row.refined :] &= residuals.any(axis=-1)  # all of them zero are as none
    without = out[:, row.refined :] == 0
    out[:, row.residuals : row.negative_residual_sums][np.repeat(without, 32, axis=1)] = 0
    out[:, row.negative_residual_sums : row.refined][np.repeat(without, 8, axis=1)] = 0
    return out


@ISA
@pytest.mark.parametrize("k", [32, 96, 576, 2048])
@pytest.mark.parametrize("refine", ["none", "outliers", "all"])
def test_q8a_is_that_of_the_definition_padding_included(isa: Isa, k: int, refine: str) -> None:
    x = hard_rows(k)
    expected = q8a_rows(quantize_q8a(x, refine))
    for threads in (1, 4):
        out = quantized(isa, x, "q8a", threads, refine)
        assert np.array_equal(used(out, k), used(expected, k))


@ISA
def test_what_is_not_finite_spoils_its_own_block_only(isa: Isa) -> None:
    x = hard_rows(96)
    x[0, 3], x[0, 40] = np.inf, np.nan
    out, row = quantized(isa, x, "q8a"), Q8aRow(96)
    d = out[0, row.scales : row.scales + 12].view(np.float32)
    assert np.isposinf(d[0])
    assert np.isnan(d[1])
    assert not out[0, :64].any()
    assert np.array_equal(used(out[1:], 96), used(q8a_rows(quantize_q8a(x[1:])), 96))


@ISA
@pytest.mark.parametrize("k", [32, 101])
def test_bf16_activations_are_rounded(isa: Isa, k: int) -> None:
    x = hard_rows(k)
    assert np.array_equal(quantized(isa, x, "bf16a", 2)[:, :k], f32_to_bf16(x))


def normalized(isa: Isa, x: np.ndarray, weight: np.ndarray, threads: int = 1) -> np.ndarray:
    shape = ", ".join(str(d) for d in x.shape[1:])
    operands = {"x": f"f32[T, {shape}]", "weight": f"@f32[{x.shape[-1]}]"}
    run = build_kernel(op_signature("rms_norm", operands, (f"f32[T, {shape}]",), eps=EPS), isa)
    out = aligned(x.shape, np.float32, np.nan)
    run(x, weight, out, n=len(x), threads=threads)
    return out


@ISA
@pytest.mark.parametrize("shape", [(3, 576), (2, 3, 64), (1, 2048), (4, 37), (2, 100)])
def test_rms_norm_is_exact_to_float32(isa: Isa, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = aligned(shape, np.float32)
    x[:] = 3 * rng.standard_normal(shape)
    weight = rng.standard_normal(shape[-1]).astype(np.float32)
    out = normalized(isa, x, weight)
    np.testing.assert_allclose(out, rms_norm(x, weight, EPS), rtol=1e-6)
    assert np.array_equal(normalized(isa, x, weight, threads=3), out)


@ISA
@pytest.mark.parametrize(("to", "k"), [("q8a", 96), ("q8a", 576), ("bf16a", 100)])
def test_norm_and_quantisation_fused_are_those_two_in_turn(isa: Isa, to: str, k: int) -> None:
    rng = np.random.default_rng(1)
    x = aligned((5, k), np.float32)
    x[:] = rng.standard_normal((5, k))
    weight = rng.standard_normal(k).astype(np.float32)
    operands, results = {"x": f"f32[T, {k}]", "weight": f"@f32[{k}]"}, (f"{to}[T, {k}]",)
    signature = op_signature("rms_norm_quantize", operands, results, eps=EPS, to=to, refine="none")
    out = result_array(5, k, to)
    build_kernel(signature, isa)(x, weight, out, n=5, threads=2)
    apart = quantized(isa, normalized(isa, x, weight), to)
    assert np.array_equal(used(out, k), used(apart, k)) if to == "q8a" else (out == apart).all()
