"""Rows of keys and values: where they go, how they are rounded, what stays untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernels import load
from ggufc.backends.llvm.states import CacheLayout, pack_cache, unpack_cache
from ggufc.ir import OPS, dtype
from tests.support.native import build_kernel, runnable_isas
from tests.support.signatures import op_signature

load()
ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
ELEMENT = pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
CONTEXT, SEQUENCES = 128, 3


def cache(element: str, heads: int, dim: int) -> np.ndarray:
    """A logical cache of distinct numbers, so that a stray write shows."""
    count = SEQUENCES * CONTEXT * heads * dim
    values = (np.arange(count) % 30000).reshape(SEQUENCES, CONTEXT, heads, dim)
    array: np.ndarray = values.astype(dtype(element).numpy)
    return array


def tokens(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Positions and sequences of six tokens, no two in the same place."""
    positions = np.array([0, 127, 31, 32, 63, 33], np.int32)
    return positions, rng.integers(0, SEQUENCES, 6).astype(np.int32)


@ISA
@ELEMENT
@pytest.mark.parametrize(("dim", "value_dim"), [(64, 64), (24, 80), (15, 7), (256, 128)])
def test_rows_land_in_the_planned_layout(isa: Isa, element: str, dim: int, value_dim: int) -> None:
    rng = np.random.default_rng(dim)
    k = (rng.standard_normal((6, 2, dim)) * 10.0 ** rng.integers(-12, 6, (6, 2, dim))).astype("f4")
    v = rng.standard_normal((6, 2, value_dim)).astype(np.float32)
    positions, sequences = tokens(rng)
    caches = cache(element, 2, dim), cache(element, 2, value_dim)
    layouts = (
        CacheLayout("keys", dtype(element), 2, dim),
        CacheLayout("values", dtype(element), 2, value_dim),
    )
    packed = [pack_cache(layout, c) for layout, c in zip(layouts, caches, strict=True)]
    operands = {
        "k": f"f32[T, 2, {dim}]",
        "v": f"f32[T, 2, {value_dim}]",
        "positions": "i32[T]",
        "sequences": "i32[T]",
        "k_cache": f"{element}[S, C, 2, {dim}]",
        "v_cache": f"{element}[S, C, 2, {value_dim}]",
    }
    run = build_kernel(op_signature("kv_write", operands), isa)
    run(k, v, positions, sequences, *packed, n=6, context=CONTEXT, threads=3)
    with np.errstate(over="ignore"):
        OPS["kv_write"].reference(k, v, positions, sequences, *caches)
    for layout, memory, expected in zip(layouts, packed, caches, strict=True):
        found = unpack_cache(layout, memory, SEQUENCES, CONTEXT)
        np.testing.assert_array_equal(found, expected)


@ISA
@ELEMENT
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "rotated"), [(9, 3, 64, 64), (4, 1, 40, 20)])
def test_fused_step_equals_its_parts(
    isa: Isa,
    element: str,
    pairing: str,
    normed: bool,
    heads: int,
    kv_heads: int,
    dim: int,
    rotated: int,
) -> None:
    rng = np.random.default_rng(heads)
    qkv = rng.standard_normal((6, (heads + 2 * kv_heads) * dim)).astype(np.float32)
    angles = rng.uniform(-3, 3, (6, rotated // 2))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    positions, sequences = tokens(rng)
    norms = [rng.uniform(0.5, 2, dim).astype(np.float32) for _ in range(2)] if normed else []
    caches = [cache(element, kv_heads, dim) for _ in range(2)]
    layouts = [CacheLayout(r, dtype(element), kv_heads, dim) for r in ("keys", "values")]
    packed = [pack_cache(layout, c) for layout, c in zip(layouts, caches, strict=True)]
    attributes: dict[str, Any] = {
        "n_heads": heads,
        "n_kv_heads": kv_heads,
        "head_dim": dim,
        "pairing": pairing,
        "eps": 1e-5,
    }
    operands = {
        "qkv": f"f32[T, {qkv.shape[1]}]",
        "table": f"f32[T, {rotated}]",
        "positions": "i32[T]",
        "sequences": "i32[T]",
        "k_cache": f"{element}[S, C, {kv_heads}, {dim}]",
        "v_cache": f"{element}[S, C, {kv_heads}, {dim}]",
    }
    if normed:
        operands |= {"q_norm": f"@f32[{dim}]", "k_norm": f"@f32[{dim}]"}
    signature = op_signature("rope_kv_write", operands, (f"f32[T, {heads}, {dim}]",), **attributes)
    run = build_kernel(signature, isa)
    q = np.full((6, heads, dim), np.nan, np.float32)
    run(qkv, table, positions, sequences, *packed, *norms, q, n=6, context=CONTEXT, threads=2)
    expected = OPS["rope_kv_write"].reference(
        qkv, table, positions, sequences, *caches, *(norms or (None, None)), **attributes
    )
    np.testing.assert_allclose(q, expected, rtol=2e-6, atol=2e-6)
    for layout, memory, logical in zip(layouts, packed, caches, strict=True):
        found = unpack_cache(layout, memory, SEQUENCES, CONTEXT)
        assert_rounded_equal(found, logical, element)


def assert_rounded_equal(found: np.ndarray, expected: np.ndarray, element: str) -> None:
    """Equal but for a last bit where the float32 values before rounding differ by theirs."""
    kind = {"f32": np.int32, "f16": np.int16, "bf16": np.int16}[element]
    difference = np.abs(found.view(kind).astype(np.int64) - expected.view(kind).astype(np.int64))
    if element == "f32":
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)
        return
    assert difference.max() <= 1
    assert (difference != 0).mean() < 0.001
