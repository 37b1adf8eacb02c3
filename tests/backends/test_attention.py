"""Attention against float64, with caches whose unwritten rows are NaN."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from ggufc.backends.llvm import kernels
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.states import CacheLayout, pack_cache
from ggufc.ir import dtype, f32_to_bf16, to_f32
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature

kernels.load()
ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
NAN: dict[str, Any] = {"f32": np.float32(np.nan), "f16": np.float16(np.nan), "bf16": 0x7FC0}
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Case:
    """One call: sizes, options, and the tokens' positions and sequences."""

    heads: int = 4
    kv_heads: int = 2
    dim: int = 64
    value_dim: int = 64
    element: str = "bf16"
    window: int = 0
    softcap: float = 0.0
    phase: Phase = "prefill"
    positions: tuple[int, ...] = tuple(range(40))
    sequences: tuple[int, ...] = ()
    context: int = 320

    def __str__(self) -> str:
        changed = {
            f.name: value
            for f in dataclasses.fields(self)
            if (value := getattr(self, f.name)) != f.default
        }
        if len(self.positions) > 4:
            changed["positions"] = f"{self.positions[0]}-{self.positions[-1]}"
        return " ".join(f"{name}={value}" for name, value in changed.items()).replace(", ", ",")


def sequences(case: Case) -> np.ndarray:
    """The given ones, or sequence 1 throughout."""
    return np.array(case.sequences or [1] * len(case.positions), np.int32)


@dataclass
class Inputs:
    """Arrays of one call; caches are logical, `[S, C, H, D]`."""

    q: np.ndarray
    positions: np.ndarray
    sequences: np.ndarray
    k_cache: np.ndarray
    v_cache: np.ndarray


def inputs(case: Case, seed: int = 0) -> Inputs:
    """Random inputs; every row beyond the last position of its sequence is NaN."""
    rng = np.random.default_rng(seed)
    n_sequences = int(sequences(case).max()) + 2
    positions = np.array(case.positions, np.int32)
    q = rng.standard_normal((positions.size, case.heads, case.dim)).astype(np.float32)
    caches = []
    for dim in (case.dim, case.value_dim):
        rows = rng.standard_normal((n_sequences, case.context, case.kv_heads, dim))
        cache = rounded(rows.astype(np.float32), case.element)
        for s in range(n_sequences):
            cache[s, positions[sequences(case) == s].max(initial=-1) + 1 :] = NAN[case.element]
        caches.append(cache)
    return Inputs(q, positions, sequences(case), *caches)


def rounded(values: np.ndarray, element: str) -> np.ndarray:
    """float32 as the array type of a cache."""
    return f32_to_bf16(values) if element == "bf16" else values.astype(dtype(element).numpy)


def expected(case: Case, given: Inputs) -> np.ndarray:
    """softmax(q k^T / sqrt(D)) v in float64, token by token and head by head."""
    out = np.empty((given.positions.size, case.heads, case.value_dim))
    group = case.heads // case.kv_heads
    for t, (position, sequence) in enumerate(zip(given.positions, given.sequences, strict=True)):
        start = max(0, position + 1 - case.window) if case.window else 0
        rows = slice(start, position + 1)
        for h in range(case.heads):
            keys, values = (
                to_f32(cache[sequence, rows, h // group]).astype(np.float64)
                for cache in (given.k_cache, given.v_cache)
            )
            scores = keys @ given.q[t, h].astype(np.float64) / np.sqrt(case.dim)
            if case.softcap:
                scores = case.softcap * np.tanh(scores / case.softcap)
            weights = np.exp(scores - scores.max())
            out[t, h] = weights @ values / weights.sum()
    return out


def attend(case: Case, given: Inputs, isa: Isa, threads: int = 1) -> np.ndarray:
    """The kernel's result."""
    element = case.element
    shapes = {
        "q": f"f32[T, {case.heads}, {case.dim}]",
        "positions": "i32[T]",
        "sequences": "i32[T]",
        "k_cache": f"{element}[S, C, {case.kv_heads}, {case.dim}]",
        "v_cache": f"{element}[S, C, {case.kv_heads}, {case.value_dim}]",
    }
    signature = op_signature(
        "attention",
        shapes,
        (f"f32[T, {case.heads}, {case.value_dim}]",),
        case.phase,
        scale=float(case.dim**-0.5),
        window=case.window,
        softcap=case.softcap,
    )
    caches = aligned_caches(case, given)
    out = aligned((given.positions.size, case.heads, case.value_dim), np.float32, np.nan)
    build_kernel(signature, isa)(
        given.q,
        given.positions,
        given.sequences,
        *caches,
        out,
        n=given.positions.size,
        context=case.context,
        threads=threads,
    )
    return out


def aligned_caches(case: Case, given: Inputs) -> list[np.ndarray]:
    """The caches in their planned layout."""
    element = dtype(case.element)
    layouts = (
        CacheLayout("keys", element, case.kv_heads, case.dim),
        CacheLayout("values", element, case.kv_heads, case.value_dim),
    )
    caches = (given.k_cache, given.v_cache)
    return [aligned_copy(pack_cache(la, c)) for la, c in zip(layouts, caches, strict=True)]


def aligned_copy(array: np.ndarray) -> np.ndarray:
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def tolerance(case: Case, isa: Isa) -> float:
    """Float rounding, or that of bf16 factors where the target multiplies those."""
    rounds = isa.has_bf16_dot or (isa.tiles and case.phase == "prefill")
    return 1.5e-2 if case.element == "bf16" and rounds else 4e-6


PREFILLS = [
    Case(),
    Case(element="f32"),
    Case(element="f16"),
    Case(9, 3, positions=tuple(range(270)), context=320),
    Case(9, 3, positions=tuple(range(261, 300)), window=30),
    Case(4, 1, 256, 256, positions=tuple(range(50, 75)), window=512),
    Case(4, 1, 96, 128, positions=tuple(range(300, 320)), window=7, element="f16"),
    Case(2, 2, 24, 24, positions=tuple(range(33))),
    Case(14, 2, 80, 80, positions=tuple(range(63, 66)), softcap=20.0),
    Case(5, 1, 128, 40, positions=(256,)),
    Case(3, 3, 15, 7, positions=tuple(range(17))),
    Case(3, 3, 15, 7, positions=tuple(range(17)), element="f32", window=3),
]

DECODES = [
    Case(9, 3, phase="decode", positions=(0,), sequences=(0,)),
    Case(9, 3, phase="decode", positions=(128, 0, 319), sequences=(2, 0, 1)),
    Case(4, 1, 256, 256, phase="decode", positions=(257,), sequences=(0,), window=100),
    Case(16, 8, 128, 128, phase="decode", positions=(127, 63), sequences=(1, 0)),
    Case(40, 1, 24, 80, "f16", phase="decode", positions=(64, 191), sequences=(0, 1)),
    Case(2, 2, 15, 7, "f32", phase="decode", positions=(200,), sequences=(1,), softcap=5.0),
    Case(7, 1, phase="decode", positions=(300, 2), sequences=(0, 1), window=16),
]


@ISA
@pytest.mark.parametrize("case", PREFILLS + DECODES, ids=str)
def test_equals_float64_and_ignores_unwritten_rows(isa: Isa, case: Case) -> None:
    given = inputs(case)
    found = attend(case, given, isa)
    np.testing.assert_allclose(found, expected(case, given), rtol=0, atol=tolerance(case, isa))


MATRIX_CASES = [
    PREFILLS[0],
    Case(9, 3, positions=tuple(range(40, 90)), window=20),
    Case(4, 2, 80, 40, positions=tuple(range(250, 270)), softcap=20.0),
    Case(6, 1, 24, 15, positions=(0, 1, 2)),
]


def matrix_isas() -> list[Isa]:
    """This machine's matrix tiles if it has them, and emulated ones."""
    own = [isa for isa in runnable_isas() if isa.tiles]
    base = runnable_isas()[len(own)]
    return [*own, dataclasses.replace(base, name=f"{base.name} emulating tiles", tiles=True)]


@pytest.mark.parametrize("isa", matrix_isas(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("case", MATRIX_CASES, ids=str)
def test_matrix_tiles_equal_float64_and_ignore_unwritten_rows(isa: Isa, case: Case) -> None:
    given = inputs(case)
    one, three = (attend(case, given, isa, threads) for threads in (1, 3))
    np.testing.assert_allclose(one, expected(case, given), rtol=0, atol=tolerance(case, isa))
    np.testing.assert_array_equal(one, three)


@ISA
@pytest.mark.parametrize("case", [PREFILLS[3], PREFILLS[4], DECODES[1], DECODES[4]], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(isa: Isa, case: Case) -> None:
    given = inputs(case)
    one, two, three = (attend(case, given, isa, threads) for threads in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@ISA
@pytest.mark.parametrize("window", [0, 50])
def test_prefill_equals_decode(isa: Isa, window: int) -> None:
    case = Case(9, 3, window=window, positions=(300,), sequences=(1,))
    given = inputs(case)
    prefill = attend(case, given, isa)
    decode = attend(dataclasses.replace(case, phase="decode"), given, isa)
    np.testing.assert_allclose(prefill, decode, rtol=0, atol=tolerance(case, isa))


@ISA
def test_large_scores_keep_the_largest(isa: Isa) -> None:
    case = Case(2, 2, 64, 64, "f32", positions=(40,))
    given = inputs(case)
    given.q *= 1e4
    np.testing.assert_allclose(attend(case, given, isa), expected(case, given), rtol=0, atol=1e-3)


@ISA
def test_nan_in_a_query_stays_in_its_head(isa: Isa) -> None:
    case = Case(4, 2, positions=(20, 21, 22))
    given = inputs(case)
    clean = attend(case, given, isa)
    given.q[1, 2, 5] = np.nan
    found = attend(case, given, isa)
    assert np.isnan(found[1, 2]).all()
    found[1, 2] = clean[1, 2]
    np.testing.assert_array_equal(found, clean)
