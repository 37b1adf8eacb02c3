"""The rope table and the rotation of heads against the IR's definition."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernels import load
from ggufc.ir import OPS
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature

load()
ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)


@ISA
@pytest.mark.parametrize("half", [32, 40, 3])
def test_table_is_within_an_ulp_of_exact_cosines_up_to_a_million(isa: Isa, half: int) -> None:
    positions = np.array([0, 1, 2, 511, 4095, 65537, 999_999], np.int32)
    freqs = (10000.0 ** (-np.arange(half) / half)).astype(np.float32)
    operands = {"positions": "i32[T]", "freqs": f"@f32[{half}]"}
    run = build_kernel(
        op_signature("rope_table", operands, (f"f32[T, {2 * half}]",), scale=1.0), isa
    )
    out = aligned((7, 2 * half), np.float32, np.nan)
    run(positions, freqs, out, n=7, threads=2)
    angles = (positions.astype(np.float32)[:, None] * freqs).astype(np.longdouble)
    exact = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    ulp = np.spacing(np.abs(exact).astype(np.float32)).astype(np.longdouble)
    assert (np.abs(out - exact) <= 0.51 * ulp).all()


@ISA
def test_table_is_scaled(isa: Isa) -> None:
    positions, freqs = np.array([3, 70], np.int32), np.array([1.0, 0.25, 0.01], np.float32)
    operands = {"positions": "i32[T]", "freqs": "@f32[3]"}
    run = build_kernel(op_signature("rope_table", operands, ("f32[T, 6]",), scale=1.25), isa)
    out = aligned((2, 6), np.float32)
    run(positions, freqs, out, n=2)
    expected = OPS["rope_table"].reference(
        positions, freqs, None, None, scale=1.25, short_context=0
    )
    np.testing.assert_allclose(out, expected, rtol=3e-7)


@ISA
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(("dim", "rotated"), [(64, 64), (80, 32), (24, 24), (10, 6), (256, 256)])
def test_rotation_in_place_and_apart(isa: Isa, pairing: str, dim: int, rotated: int) -> None:
    rng = np.random.default_rng(dim)
    x = rng.standard_normal((5, 3, dim)).astype(np.float32)
    angles = rng.uniform(-3, 3, (5, rotated // 2))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    operands = {"x": f"f32[T, 3, {dim}]", "table": f"f32[T, {rotated}]"}
    run = build_kernel(op_signature("rope", operands, (f"f32[T, 3, {dim}]",), pairing=pairing), isa)
    expected = OPS["rope"].reference(x, table, pairing=pairing)
    apart, within = aligned(x.shape, np.float32, np.nan), x.copy()
    run(x, table, apart, n=5, threads=3)
    run(within, table, within, n=5)
    np.testing.assert_allclose(apart, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(within, apart)
