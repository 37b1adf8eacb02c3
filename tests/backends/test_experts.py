"""Products of experts: rows of many tokens, unevenly spread, against float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ggufc.backends.llvm.isa import ISAS, Isa
from ggufc.backends.llvm.kernel import OperandSignature, OpSignature
from ggufc.backends.llvm.kernels import load
from ggufc.ir import TensorType, bf16_to_f32, dtype, f32_to_bf16, to_f32
from tests.support.native import aligned, build_kernel, kernel_module, object_code, runnable_isas
from tests.support.signatures import tensor
from tests.support.weights import (
    MatrixWeight,
    bf16a_rows,
    levels,
    product,
    q8a_rows,
    random_activation,
    random_weight,
    value,
)

load()

EXPERTS, USED, N, K = 7, 3, 53, 96


@dataclass(frozen=True)
class Stack:
    """The weights of all experts."""

    name: str
    experts: list[MatrixWeight]

    def operand(self) -> OperandSignature:
        """The operand of a signature."""
        one = self.experts[0].operand(self.name)
        shape = (len(self.experts), *one.type.max_shape)
        return replace(one, type=TensorType(shape, dtype(self.experts[0].type_name)))

    def packed(self) -> np.ndarray:
        """The packed matrices, one after another."""
        parts = np.concatenate([expert.packed for expert in self.experts])
        out = aligned(parts.size, np.uint8)
        out[:] = parts
        return out

    def products(self, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Every row with its expert's matrix, in float64."""
        own = [
            product(x[starts[e] : starts[e + 1]], [expert])[0]
            for e, expert in enumerate(self.experts)
        ]
        return np.concatenate(own)


def stack(name: str, type_name: str, seed: int) -> Stack:
    rng = np.random.default_rng(seed)
    return Stack(name, [random_weight(type_name, N, K, rng) for _ in range(EXPERTS)])


def starts_of(tokens: int) -> np.ndarray:
    """Where experts' rows begin: the first has a row of every token, the third has none."""
    rng = np.random.default_rng(tokens)
    rest = rng.multinomial((USED - 1) * tokens, [0.4, 0.0, 0.3, 0.2, 0.06, 0.04])
    starts = aligned(EXPERTS + 1, np.int32)
    starts[:] = np.concatenate([[0], np.cumsum([tokens, *rest])])
    return starts


def signature(stacks: list[Stack], x_type: str, phase: str = "prefill") -> OpSignature:
    op = "expert_linear" if len(stacks) == 1 else "expert_glu"
    attributes = () if len(stacks) == 1 else (("activation", "silu"),)
    starts = value("starts", f"i32[{EXPERTS + 1}]")
    operands = (value("x", f"{x_type}[T, {USED}, {K}]"), starts, *(s.operand() for s in stacks))
    return OpSignature(op, attributes, operands, (tensor(f"f32[T, {USED}, {N}]"),), phase)  # type: ignore[arg-type]


def run(isa: Isa, stacks: list[Stack], x_type: str, x: np.ndarray, tokens: int) -> np.ndarray:
    """The result [T K, N], the same for any number of threads."""
    kernel = build_kernel(signature(stacks, x_type), isa)
    weights = [s.packed() for s in stacks]
    results = []
    for threads in (1, 2, 5):
        out = aligned((tokens * USED, N), np.float32, np.nan)
        kernel(x, starts_of(tokens), *weights, out, n=tokens, threads=threads)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    return results[0]


@pytest.mark.parametrize("isa", levels(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("type_name", ["q4_0", "q8_0", "mxfp4"])
@pytest.mark.parametrize("tokens", [1, 40, 130])
def test_quantised_rows(isa: Isa, type_name: str, tokens: int) -> None:
    weights = stack("weight", type_name, 1)
    x = random_activation(tokens * USED, K, np.random.default_rng(2))
    exact = weights.products(to_f32(x), starts_of(tokens))
    out = run(isa, [weights], "q8a", q8a_rows(x), tokens)
    assert np.abs(out - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("isa", levels(), ids=lambda isa: isa.name)
def test_gated_units_of_mixed_types(isa: Isa) -> None:
    gate, up = stack("gate", "q5_0", 3), stack("up", "q4_1", 4)
    x = random_activation(40 * USED, K, np.random.default_rng(5))
    g, u = (s.products(to_f32(x), starts_of(40)) for s in (gate, up))
    exact = g / (1 + np.exp(-g)) * u
    out = run(isa, [gate, up], "q8a", q8a_rows(x), 40)
    assert np.abs(out - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("type_name", ["q4_0", "mxfp4"])
def test_matrix_tiles(type_name: str) -> None:
    """In emulation, where this machine has none."""
    isa = replace(runnable_isas()[0], name="emulating tiles", tiles=True)
    isa = next((own for own in runnable_isas() if own.tiles), isa)
    weights = stack("weight", type_name, 6)
    x = np.random.default_rng(7).standard_normal((40 * USED, K), np.float32)
    x = bf16_to_f32(f32_to_bf16(x))
    exact = weights.products(x, starts_of(40))
    out = run(isa, [weights], "bf16a", bf16a_rows(x), 40)
    assert np.abs(out - exact).max() < 5e-3 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["x86-64-amx", "aarch64-dotprod", "aarch64"])
def test_code_for_other_machines(name: str) -> None:
    x_type = "bf16a" if ISAS[name].tiles else "q8a"
    stacks = [stack("gate", "q4_0", 8), stack("up", "q8_0", 9)]
    assert object_code(kernel_module(signature(stacks, x_type), ISAS[name]), ISAS[name])
