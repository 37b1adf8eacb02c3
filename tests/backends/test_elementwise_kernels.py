"""Elementwise and row kernels against the ops' NumPy references, on all that runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import OperandSignature, OpSignature, attributes_key
from ggufc.ir import F32, I32, OPS, Symbol, TensorType
from tests.support.native import aligned, build_kernel, runnable_isas

ROWS = Symbol("T", 512)
WIDTHS = (1, 15, 16, 64, 67, 576)
UNARY: dict[str, dict[str, float]] = {
    "silu": {},
    "gelu": {},
    "gelu_tanh": {},
    "relu_squared": {},
    "clamp": {"limit": 6.0},
    "xielu": {"alpha_n": 0.9, "alpha_p": 0.7, "beta": 0.5, "eps": -1e-6},
    "softcap": {"cap": 30.0},
    "scale": {"factor": 0.3},
}
isas = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)


def signature(
    op: str, attributes: dict[str, Any], operands: dict[str, TensorType], result: TensorType
) -> OpSignature:
    weights = {s.name for s in OPS[op].operands if s.kind == "weight"}
    return OpSignature(
        op,
        attributes_key(attributes),
        tuple(
            OperandSignature(n, "weight", t, "raw")
            if n in weights
            else OperandSignature(n, "value", t)
            for n, t in operands.items()
        ),
        (result,),
        "prefill",
    )


def matrix(rows: int, width: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((rows, width)) * 8
    out = aligned((rows, width), np.float32)
    out[...] = values
    return out


def guarded(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """An array for results, and the memory around it, whose -77 nothing may touch."""
    memory = aligned(rows * width + 32, np.float32, fill=-77.0)
    return memory[16 : 16 + rows * width].reshape(rows, width), memory


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    # The kernels' functions are within 4 ulp with a fused multiply-add, and 2 ulp of x without one.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


@isas
@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("width", WIDTHS)
def test_binary_ops_equal_the_reference_exactly(isa: Isa, op: str, width: int) -> None:
    type_ = TensorType((ROWS, width), F32)
    run = build_kernel(signature(op, {}, {"a": type_, "b": type_}, type_), isa)
    for rows in (1, 7):
        a, b = matrix(rows, width, 1), matrix(rows, width, 2)
        out, memory = guarded(rows, width)
        run(a, b, out, n=rows, threads=3)
        np.testing.assert_array_equal(out, OPS[op].reference(a, b))
        assert (memory[:16] == -77).all()
        assert (memory[16 + out.size :] == -77).all()


@isas
@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("width", [15, 64, 67])
def test_unary_ops_equal_the_reference(isa: Isa, op: str, width: int) -> None:
    type_ = TensorType((ROWS, width), F32)
    run = build_kernel(signature(op, UNARY[op], {"x": type_}, type_), isa)
    x = matrix(5, width, 3)
    x[0, :5] = (0.0, -0.0, 90.0, -90.0, 1e-30)
    out, memory = guarded(5, width)
    run(x, out, n=5, threads=2)
    assert_close(out, OPS[op].reference(x, **UNARY[op]))
    assert (memory[16 + out.size :] == -77).all()


@isas
@pytest.mark.parametrize("op", ["silu", "add"])
def test_results_do_not_depend_on_threads_and_may_overwrite_an_operand(isa: Isa, op: str) -> None:
    type_ = TensorType((ROWS, 67), F32)
    names = [spec.name for spec in OPS[op].operands]
    run = build_kernel(signature(op, {}, dict.fromkeys(names, type_), type_), isa)
    operands = [matrix(9, 67, seed) for seed, _ in enumerate(names)]
    expected, _ = guarded(9, 67)
    run(*operands, expected, n=9, threads=1)
    for threads in (2, 3, 5):
        in_place = [operands[0].copy(), *operands[1:]]
        run(*in_place, in_place[0], n=9, threads=threads)
        np.testing.assert_array_equal(in_place[0], expected)


@isas
def test_elementwise_on_three_dimensions_and_no_rows(isa: Isa) -> None:
    type_ = TensorType((ROWS, 3, 5), F32)
    run = build_kernel(signature("mul", {}, {"a": type_, "b": type_}, type_), isa)
    a, b = matrix(4, 15, 4), matrix(4, 15, 5)
    out, memory = guarded(4, 15)
    run(a, b, out, n=0)
    assert (memory == -77).all()
    run(a, b, out, n=4, threads=2)
    np.testing.assert_array_equal(out, a * b)


@isas
@pytest.mark.parametrize("width", [1, 15, 256, 300, 1040])
@pytest.mark.parametrize(("op", "name"), [("bias_add", "bias"), ("scale_columns", "weight")])
def test_ops_with_a_vector(isa: Isa, op: str, name: str, width: int) -> None:
    x_type, vector_type = TensorType((ROWS, width), F32), TensorType((width,), F32)
    run = build_kernel(signature(op, {}, {"x": x_type, name: vector_type}, x_type), isa)
    x, vector = matrix(3, width, 6), matrix(1, width, 7)
    out, memory = guarded(3, width)
    run(x, vector, out, n=3, threads=5)
    np.testing.assert_array_equal(out, OPS[op].reference(x, vector[0]))
    assert (memory[16 + out.size :] == -77).all()


@isas
@pytest.mark.parametrize(("start", "stop"), [(0, 16), (3, 20), (64, 300), (299, 300)])
def test_slice(isa: Isa, start: int, stop: int) -> None:
    x_type, out_type = TensorType((ROWS, 300), F32), TensorType((ROWS, stop - start), F32)
    attributes = {"start": start, "stop": stop}
    run = build_kernel(signature("slice", attributes, {"x": x_type}, out_type), isa)
    x = matrix(6, 300, 8)
    out, memory = guarded(6, stop - start)
    run(x, out, n=6, threads=4)
    np.testing.assert_array_equal(out, x[:, start:stop])
    assert (memory[16 + out.size :] == -77).all()


@isas
@pytest.mark.parametrize("width", [5, 576])
def test_take_rows(isa: Isa, width: int) -> None:
    x_type, rows_type = TensorType((ROWS, width), F32), TensorType((Symbol("R", 512),), I32)
    out_type = TensorType((Symbol("R", 512), width), F32)
    wanted = signature("take_rows", {}, {"x": x_type, "rows": rows_type}, out_type)
    run = build_kernel(wanted, isa)
    x, rows = matrix(9, width, 9), np.array([8, 0, 8, 3], np.int32)
    out, memory = guarded(4, width)
    run(x, rows, out, n=4, threads=3)
    np.testing.assert_array_equal(out, x[rows])
    assert (memory[16 + out.size :] == -77).all()
