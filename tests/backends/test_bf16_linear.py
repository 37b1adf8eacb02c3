"""Linears of bf16 activations through matrix tiles, which this machine may have to emulate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ggufc.backends.llvm.isa import ISAS, Isa
from ggufc.backends.llvm.kernel import OpSignature
from ggufc.backends.llvm.kernels import load
from ggufc.ir import bf16_to_f32, f32_to_bf16
from ggufc.ir.quants import QUANTS
from tests.support.native import (
    aligned,
    assembly,
    build_kernel,
    kernel_module,
    runnable_isas,
)
from tests.support.signatures import tensor
from tests.support.weights import (
    LAYOUTS,
    MatrixWeight,
    bf16a_rows,
    product,
    random_weight,
    value,
    vector,
)

load()


def tile_isas() -> list[Isa]:
    """This machine's own tiles if it has them, and emulations with and without bf16 conversion."""
    runnable = {isa.name: isa for isa in runnable_isas()}
    chosen = [runnable[name] for name in ("x86-64-amx",) if name in runnable]
    bases = [isa for name, isa in runnable.items() if name in ("x86-64-v4-bf16", "x86-64")]
    return chosen + [replace(isa, name=f"{isa.name} emulating tiles", tiles=True) for isa in bases]


ISA = pytest.mark.parametrize("isa", tile_isas(), ids=lambda isa: isa.name)
# What is slow to emulate is tried on one layout of each kind.
SOME = ("q4_1", "q5_0", "q8_0", "q6_k", "q2_k", "q1_0", "iq1_m", "iq2_s", "mxfp4", "nvfp4")


def layouts_by_isa() -> list[object]:
    """All layouts on the first, some on the others."""
    first, *others = tile_isas()
    cases = [(first, name) for name in LAYOUTS] + [(isa, name) for isa in others for name in SOME]
    return [pytest.param(isa, name, id=f"{name}-{isa.name}") for isa, name in cases]


def normal(tokens: int, k: int, seed: int) -> np.ndarray:
    """Normal numbers that bf16 holds exactly."""
    x = np.random.default_rng(seed).standard_normal((tokens, k), np.float32)
    return bf16_to_f32(f32_to_bf16(x))


def rounded(weight: MatrixWeight) -> MatrixWeight:
    """The weight with its values rounded to bf16, as tiles hold them."""
    copy = MatrixWeight(weight.type_name, weight.n, weight.k, weight.raw)
    copy.__dict__["values"] = bf16_to_f32(f32_to_bf16(weight.values))
    return copy


@pytest.mark.parametrize(("isa", "type_name"), layouts_by_isa())
def test_products_are_those_of_rounded_weights(isa: Isa, type_name: str) -> None:
    block = QUANTS[type_name].block_size
    k = 21 * block if block == 32 else 768
    weight = random_weight(type_name, 77, k, np.random.default_rng(0))
    x = normal(37, k, 1)
    operands = (value("x", f"bf16a[T, {k}]"), weight.operand())
    signature = OpSignature("linear", (), operands, (tensor("f32[T, 77]"),), "prefill")
    out = aligned((37, 77), np.float32, np.nan)
    build_kernel(signature, isa)(bf16a_rows(x), weight.packed, out, n=37)
    exact, magnitude = product(x, [rounded(weight)])
    # Weights near a tie may round the other way, since they are decoded with fewer roundings.
    error = np.abs(out - exact) / magnitude
    assert error.max() < 1e-3
    assert np.median(error) < 2e-6


@ISA
def test_segments_tails_bias_residual_and_threads(isa: Isa) -> None:
    rng = np.random.default_rng(2)
    weights = [random_weight(t, n, 96, rng) for t, n in (("q8_0", 70), ("q4_1", 16), ("q5_0", 7))]
    bias = rng.standard_normal(93).astype(np.float32)
    operands = [value("x", "bf16a[T, 96]"), *(w.operand() for w in weights)]
    operands += [vector("bias", 93), value("residual", "f32[T, 93]")]
    signature = OpSignature("linear", (), tuple(operands), (tensor("f32[T, 93]"),), "prefill")
    run = build_kernel(signature, isa)
    for tokens in (1, 16, 17, 32, 33, 600):
        x = normal(tokens, 96, tokens)
        residual = rng.standard_normal((tokens, 93)).astype(np.float32)
        exact, magnitude = product(x, [rounded(w) for w in weights])
        exact += bias + residual.astype(np.float64)
        results = []
        for threads in (1, 3):
            out = aligned((tokens, 93), np.float32)
            out[:] = residual
            run(
                bf16a_rows(x),
                *(w.packed for w in weights),
                bias,
                out,
                out,
                n=tokens,
                threads=threads,
            )
            results.append(out)
        assert np.array_equal(results[0], results[1])
        assert (np.abs(results[0] - exact) / (magnitude + np.abs(exact))).max() < 2e-3


@ISA
def test_glu_and_its_independence_of_the_number_of_tokens(isa: Isa) -> None:
    rng = np.random.default_rng(3)
    gate, up = random_weight("q4_0", 37, 96, rng), random_weight("q4_0", 37, 96, rng)
    operands = (value("x", "bf16a[T, 96]"), gate.operand("gate"), up.operand("up"))
    attributes = (("activation", "silu"),)
    result = (tensor("f32[T, 37]"),)
    run = build_kernel(OpSignature("linear_glu", attributes, operands, result, "prefill"), isa)
    x, out = normal(35, 96, 4), aligned((35, 37), np.float32, np.nan)
    run(bf16a_rows(x), gate.packed, up.packed, out, n=35, threads=2)
    g, u = (product(x, [rounded(w)])[0] for w in (gate, up))
    exact = g / (1 + np.exp(-g)) * u
    assert np.abs(out - exact).max() < 2e-3 * np.abs(exact).max()
    for first, last in ((0, 3), (3, 20), (20, 35)):
        part = aligned((last - first, 37), np.float32, np.nan)
        run(bf16a_rows(x[first:last]), gate.packed, up.packed, part, n=last - first)
        assert np.array_equal(part, out[first:last])


@ISA
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_a_rounded_glu_is_the_glu_rounded(isa: Isa, activation: str) -> None:
    rng = np.random.default_rng(4)
    gate, up = random_weight("q5_0", 37, 96, rng), random_weight("q8_0", 37, 96, rng)
    operands = (value("x", "bf16a[T, 96]"), gate.operand("gate"), up.operand("up"))
    found = {}
    for to, out in (
        ("f32", aligned((35, 37), np.float32)),
        ("bf16a", bf16a_rows(np.ones((35, 37)))),
    ):
        attributes = (("activation", activation), ("to", to))
        signature = OpSignature(
            "linear_glu", attributes, operands, (tensor(f"{to}[T, 37]"),), "prefill"
        )
        run = build_kernel(signature, isa)
        run(bf16a_rows(normal(35, 96, 5)), gate.packed, up.packed, out, n=35, threads=2)
        found[to] = out
    assert np.array_equal(found["bf16a"][:, :37], f32_to_bf16(found["f32"]))
    assert (found["bf16a"][:, 37:] == 0x7FC0).all()


def test_amx_code_keeps_its_tiles_in_registers() -> None:
    isa = ISAS["x86-64-amx"]
    assert "amx-bf16" in isa.features
    weight = random_weight("q4_k", 64, 256, np.random.default_rng(5))
    operands = (value("x", "bf16a[T, 256]"), weight.operand())
    signature = OpSignature("linear", (), operands, (tensor("f32[T, 64]"),), "prefill")
    text = assembly(kernel_module(signature, isa), isa)
    code = text[text.index("\nkernel_under_test_body:") :]
    code = code[: code.index(".Lfunc_end")]
    # 2 x 2 tiles in one place; what is loaded in the loop are tokens and weights, no sums.
    assert code.count("tdpbf16ps") == 4
    assert code.count("tileloadd") == 4
    assert code.count("tilestored") == 4
