"""Decode attention in parts: equal to attention in one piece, whatever the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from tests.backends.test_attention import Case, aligned_caches, expected, inputs, tolerance
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature

ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
SPLIT = 128

CASES = [
    Case(9, 3, phase="decode", positions=(300, 0, 128, 127), sequences=(2, 0, 1, 3)),
    Case(4, 1, 256, 256, "f16", phase="decode", positions=(319,), sequences=(0,), window=150),
    Case(40, 2, 24, 7, "f32", phase="decode", positions=(255, 256), sequences=(1, 0), softcap=9.0),
]


def attend_in_parts(case: Case, isa: Isa, threads: int, split: int = SPLIT) -> np.ndarray:
    """The result of the two kernels; parts begin as NaN, so that reading an unseen one shows."""
    given, tokens = inputs(case), len(case.positions)
    parts = -(-case.context // split)
    shapes = {
        "q": f"f32[B, {case.heads}, {case.dim}]",
        "positions": "i32[B]",
        "sequences": "i32[B]",
        "k_cache": f"{case.element}[S, C, {case.kv_heads}, {case.dim}]",
        "v_cache": f"{case.element}[S, C, {case.kv_heads}, {case.value_dim}]",
    }
    rows = f"f32[B, {case.heads}, {parts}, {case.value_dim + 2}]"
    attributes = {"window": case.window, "split": split}
    partial = op_signature(
        "attention_partial",
        shapes,
        (rows,),
        "decode",
        scale=float(case.dim**-0.5),
        softcap=case.softcap,
        parts=parts,
        **attributes,
    )
    combine = op_signature(
        "attention_combine",
        {"parts": rows, "positions": "i32[B]"},
        (f"f32[B, {case.heads}, {case.value_dim}]",),
        "decode",
        **attributes,
    )
    between = aligned((tokens, case.heads, parts, case.value_dim + 2), np.float32, np.nan)
    out = aligned((tokens, case.heads, case.value_dim), np.float32, np.nan)
    counts: dict[str, Any] = {"n": tokens, "context": case.context, "threads": threads}
    operands = (given.q, given.positions, given.sequences, *aligned_caches(case, given))
    build_kernel(partial, isa)(*operands, between, **counts)
    build_kernel(combine, isa)(between, given.positions, out, **counts)
    return out


@ISA
@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_make_the_whole_whatever_the_threads(isa: Isa, case: Case) -> None:
    one, two, three = (attend_in_parts(case, isa, threads) for threads in (1, 2, 3))
    exact = expected(case, inputs(case))
    np.testing.assert_allclose(one, exact, rtol=0, atol=tolerance(case, isa))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@ISA
def test_parts_longer_than_a_block_of_keys(isa: Isa) -> None:
    case = Case(4, 2, phase="decode", positions=(319, 100), sequences=(0, 1))
    found = attend_in_parts(case, isa, threads=2, split=320)
    exact = expected(case, inputs(case))
    np.testing.assert_allclose(found, exact, rtol=0, atol=tolerance(case, isa))
