"""Attention within whole texts against the definition of the op, over several blocks of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm import kernels
from ggufc.backends.llvm.isa import Isa
from ggufc.ir import OPS
from tests.support.native import aligned, build_kernel, runnable_isas
from tests.support.signatures import op_signature

kernels.load()
ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)


@dataclass(frozen=True)
class Case:
    """One call: the lengths of its texts, sizes, options."""

    texts: tuple[int, ...]
    heads: int = 4
    kv_heads: int = 2
    dim: int = 32
    value_dim: int = 32
    window: int = 0
    softcap: float = 0.0
    has_slopes: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The attributes of the op."""
        return {"scale": self.dim**-0.5, "window": self.window, "softcap": self.softcap}


CASES = (
    Case((63, 64, 65)),
    Case((200,), 3, 3, 20, 12),
    Case((1, 130, 1, 70), 8, 1, 64, 24),
    Case((150, 2, 40), window=31),
    Case((150, 30), window=200, softcap=2.0),
    Case((90, 100), has_slopes=True),
    Case((33,), 12, 2, 7, 5, window=1),
)


def inputs(case: Case) -> dict[str, np.ndarray]:
    """Random operands of a case."""
    rng = np.random.default_rng(3)
    tokens = sum(case.texts)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    given = {
        "q": 2 * floats(tokens, case.heads, case.dim),
        "k": 2 * floats(tokens, case.kv_heads, case.dim),
        "v": floats(tokens, case.kv_heads, case.value_dim),
        "positions": np.concatenate([np.arange(n) for n in case.texts]).astype(np.int32),
        "lengths": np.repeat(case.texts, case.texts).astype(np.int32),
    }
    return given | ({"slopes": np.abs(floats(case.heads))} if case.has_slopes else {})


def attend(case: Case, given: dict[str, np.ndarray], isa: Isa, threads: int = 1) -> np.ndarray:
    """The kernel's result."""
    shapes = {
        "q": f"f32[T, {case.heads}, {case.dim}]",
        "k": f"f32[T, {case.kv_heads}, {case.dim}]",
        "v": f"f32[T, {case.kv_heads}, {case.value_dim}]",
        "positions": "i32[T]",
        "lengths": "i32[T]",
    }
    if case.has_slopes:
        shapes["slopes"] = f"f32[{case.heads}]"
    result = (f"f32[T, {case.heads}, {case.value_dim}]",)
    name = "bidirectional_attention"
    signature = op_signature(name, shapes, result, "prefill", **case.options)
    tokens = len(given["q"])
    out = aligned((tokens, case.heads, case.value_dim), np.float32, np.nan)
    build_kernel(signature, isa)(
        *given.values(), out, n=tokens, context=64, threads=threads
    )  # fmt: skip
    return out


@ISA
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_token_sees_its_text(case: Case, isa: Isa) -> None:
    given = inputs(case)
    reference = OPS["bidirectional_attention"].reference
    expected = reference(**{"slopes": None, **given}, **case.options)
    assert np.abs(attend(case, given, isa) - expected).max() < 2e-5


@ISA
def test_threads_change_no_bit(isa: Isa) -> None:
    case = CASES[2]
    given = inputs(case)
    one = attend(case, given, isa)
    assert (one.view(np.uint32) == attend(case, given, isa, threads=3).view(np.uint32)).all()


@ISA
@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[5]], ids=str)
def test_other_texts_change_no_bit(case: Case, isa: Isa) -> None:
    given = inputs(case)
    together = attend(case, given, isa)
    start = 0
    for length in case.texts:
        part = slice(start, start + length)
        own = {name: a if name == "slopes" else a[part] for name, a in given.items()}
        alone = attend(case, own, isa)
        assert (alone.view(np.uint32) == together[part].view(np.uint32)).all()
        start += length
