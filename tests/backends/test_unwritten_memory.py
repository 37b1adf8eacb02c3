"""Rows written over memory of NaN and attended to: what was not written reaches no result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm import kernels
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.states import CacheLayout, state_bytes
from ggufc.ir import dtype
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature

kernels.load()
HEADS, KV_HEADS, CONTEXT, SEQUENCE, SEQUENCES = 4, 2, 320, 1, 2
# A length that each of the layouts pads differently, and one that none pads.
DIMS = (7, 15, 16, 24, 40, 64, 80, 96, 100)
# Around the sizes of blocks: 16 keys, 32 values, 32 scored together, 256 a pass.
LENGTHS = (1, 15, 17, 31, 32, 33, 47, 129, 257)
NAN = 0x7FC0, 0x7FC0_0000


def isas() -> list[Isa]:
    """What this machine runs, and matrix tiles emulated with and without products of bf16."""
    runnable = runnable_isas()
    bases = [isa for isa in runnable if isa.name in ("x86-64-v4-bf16", "x86-64")]
    emulated = [replace(b, name=f"{b.name} emulating tiles", tiles=True) for b in bases]
    return [*runnable, *emulated]


class Attended:
    """The kernels that write rows and attend to them, for one size of head."""

    def __init__(self, isa: Isa, element: str, dim: int, **options: Any) -> None:
        self.dim = dim
        self.layouts = [CacheLayout(r, dtype(element), KV_HEADS, dim) for r in ("keys", "values")]
        rows, cache = f"f32[T, {KV_HEADS}, {dim}]", f"{element}[S, C, {KV_HEADS}, {dim}]"
        places = {"positions": "i32[T]", "sequences": "i32[T]"}
        caches = {"k_cache": cache, "v_cache": cache}
        write = op_signature("kv_write", {"k": rows, "v": rows} | places | caches)
        q = f"f32[T, {HEADS}, {dim}]"
        options = {"scale": float(dim**-0.5), "window": 0, "softcap": 0.0} | options
        attend = op_signature("attention", {"q": q} | places | caches, (q,), "prefill", **options)
        self._write, self._attend = (build_kernel(s, isa) for s in (write, attend))

    def caches(self, poisoned: bool) -> list[np.ndarray]:
        """Memory that no token has written: zero or, bit for bit, NaN."""
        found = []
        for layout in self.layouts:
            kind = np.uint16 if layout.pair == 2 else np.uint32
            count = state_bytes(layout, SEQUENCES, CONTEXT) // layout.element_bytes
            nan = 0x7E00 if layout.element.name == "f16" else NAN[layout.pair == 1]
            found.append(aligned(count, kind, nan if poisoned else 0))
        return found

    def __call__(self, length: int, poisoned: bool, chunk: int = CONTEXT) -> np.ndarray:
        """Results of `length` tokens, of which the kernels see `chunk` at a time."""
        rng, caches = np.random.default_rng(length), self.caches(poisoned)
        q, k, v = (
            rng.standard_normal((length, heads, self.dim), np.float32)
            for heads in (HEADS, KV_HEADS, KV_HEADS)
        )
        out = aligned(q.shape, np.float32, np.nan)
        for start in range(0, length, chunk):
            part = slice(start, start + chunk)
            positions = np.arange(length, dtype=np.int32)[part]
            places = (positions, np.full_like(positions, SEQUENCE), *caches)
            n = positions.size
            self._write(k[part], v[part], *places, n=n, context=CONTEXT)
            found = aligned(out[part].shape, np.float32, np.nan)
            self._attend(q[part], *places, found, n=n, context=CONTEXT)
            out[part] = found
        return out


def assert_ignores_memory(attended: Callable[..., np.ndarray], length: int, chunk: int) -> None:
    clean = attended(length, False, chunk)
    assert np.isfinite(clean).all()
    np.testing.assert_array_equal(attended(length, True, chunk), clean)


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("dim", DIMS)
def test_bf16_heads_of_any_size(isa: Isa, dim: int) -> None:
    attended = Attended(isa, "bf16", dim)
    for length in LENGTHS:
        assert_ignores_memory(attended, length, CONTEXT)
    assert_ignores_memory(attended, 65, 13)


@pytest.mark.parametrize("isa", isas(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("options", [{"window": 20}, {"softcap": 5.0}], ids=str)
def test_windows_and_capped_scores(isa: Isa, options: dict[str, Any]) -> None:
    attended = Attended(isa, "bf16", 40, **options)
    for length in (33, 129):
        assert_ignores_memory(attended, length, 50)


@pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("dim", [15, 80])
def test_other_elements(isa: Isa, element: str, dim: int) -> None:
    attended = Attended(isa, element, dim)
    for length in (1, 33, 129):
        assert_ignores_memory(attended, length, 50)
