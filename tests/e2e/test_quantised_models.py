"""Compiled models of every quantised type against float32 models of the dequantised weights.

Some are in `tests/data/quant`; the others are found beside the repository, or skip their test.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.backends.llvm import host_isas
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from tests.support.fixtures import PROMPTS, unpacked
from tests.support.shared import ROOT, require_shared

DATA = ROOT / "tests" / "data" / "quant"
LOCAL = ("IQ2_XS", "MXFP4", "Q1_0", "Q2_K", "TQ1_0")
SHARED = (
    "BF16", "F16", "IQ1_M", "IQ1_S", "IQ2_S", "IQ2_XXS", "IQ3_S", "IQ3_XXS", "IQ4_NL", "IQ4_XS",
    "NVFP4", "Q2_0", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0",
    "TQ2_0", "mix-Q2_K", "mix-Q3_K_M", "mix-Q4_0", "mix-Q4_K_M", "mix-Q5_K_M",
)  # fmt: skip
CASES = [*(f"llama-256/{name}" for name in (*LOCAL, *SHARED)), "qwen3-256/Q8_0"]
CASES.append("qwen3-256/mix-Q4_K_M")
# Activations of eight bits, and caches of sixteen.
LARGEST_DIVERGENCE, LARGEST_RMS = 2e-2, 0.1

Floats = npt.NDArray[np.floating]


@cache
def model_and_reference(case: str) -> tuple[Path, Path]:
    """The files of a case; skips the calling test, by name, where they are not here."""
    family, name = case.split("/")
    if family == "llama-256" and name in LOCAL:
        return unpacked(DATA / f"{name}.gguf.xz"), DATA / f"ref-{name}.npz"
    path = require_shared(f"models/quant/{case}.gguf")
    return path, path.parent / f"ref-{name}.npz"


def divergences(expected: Floats, found: Floats) -> Floats:
    """KL(expected || found) of each row."""
    p, q = log_softmax(expected), log_softmax(found)
    return np.asarray((np.exp(p) * (p - q)).sum(axis=1))


def log_softmax(logits: Floats) -> Floats:
    wide = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)))


def assert_near_the_reference(case: str, target: str, folder: Path) -> None:
    path, reference = model_and_reference(case)
    compile_model(path, folder / "m.ggufc", CompileOptions(target=target))
    with np.load(reference) as arrays, Model.load(folder / "m.ggufc", threads=2) as model:
        for prompt in PROMPTS:
            ids, expected = arrays[f"{prompt}.ids"].tolist(), arrays[f"{prompt}.deq"]
            for step in {False, len(ids) < 40}:
                found = model.logits(ids, all=True, step=step)[-len(expected) :]
                assert divergences(expected, found).max() < LARGEST_DIVERGENCE, prompt
                assert np.sqrt(np.mean((found - expected) ** 2)) < LARGEST_RMS, prompt


@pytest.mark.parametrize("case", CASES)
def test_logits_are_near_those_of_dequantised_weights(case: str, tmp_path: Path) -> None:
    assert_near_the_reference(case, "native", tmp_path)


@pytest.mark.parametrize("isa", host_isas()[1:])
@pytest.mark.parametrize("name", ["IQ2_XS", "MXFP4"])
def test_other_instruction_sets(name: str, isa: str, tmp_path: Path) -> None:
    assert_near_the_reference(f"llama-256/{name}", isa, tmp_path)
