"""Tiny models with the logits that transformers computes from them in float32.

Some are in `tests/data/models`, compressed; the others are found beside the repository, or skip
the calling test.
"""

from __future__ import annotations

import atexit
import lzma
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.shared import ROOT, require_shared

DATA = ROOT / "tests" / "data" / "models"
PROMPTS = ("p1", "p7", "p33", "p130")
LOCAL = ("gemma3", "llama", "llama-rope-llama3", "llama-tied", "qwen2", "qwen3")
# A family of smaller ones: an architecture or feature each.
SMALL = tuple(sorted(f"small/{path.stem}" for path in (DATA / "small").glob("*.npz")))
# Found beside the repository only.
SHARED = (
    "cohere2", "command-r", "deepseek2-lite", "deepseek2-v3", "exaone", "falcon", "gemma2",
    "gemma4", "glm4", "gpt-oss-mxfp4", "gpt2", "gptneox", "granite", "granitemoe",
    "llama-bias-headdim", "minicpm", "mixtral", "olmo2", "olmoe", "phi2", "phi3",
    "phi3-longrope-short", "qwen2moe", "qwen3moe", "smollm3", "stablelm", "starcoder2",
    # With recurrent layers.
    "lfm2", "mamba", "mamba2", "qwen35", "qwen3next",
)  # fmt: skip


@dataclass(frozen=True)
class Prompt:
    """A prompt and what follows it. `logits` [n, vocabulary] are those of the last n positions;
    `greedy` are the tokens that the reference goes on with, `margins` by how much each of them
    won."""

    ids: npt.NDArray[np.int32]
    logits: npt.NDArray[np.float32]
    argmax: npt.NDArray[np.int32]
    greedy: npt.NDArray[np.int32]
    margins: npt.NDArray[np.float32]


@dataclass(frozen=True)
class ModelFixture:
    """A model file and its prompts by name."""

    name: str
    path: Path
    prompts: dict[str, Prompt]


@cache
def model_fixture(name: str) -> ModelFixture:
    """The model `name`; skips the calling test, by name, where it is not here."""
    if name in LOCAL or name in SMALL:
        path, reference = unpacked(DATA / f"{name}.gguf.xz"), DATA / f"{name}.npz"
    else:
        folder = require_shared(f"models/models/{name}")
        path, reference = folder / "model.gguf", folder / "ref.npz"
    with np.load(reference) as arrays:
        return ModelFixture(name, path, {p: read_prompt(dict(arrays), p) for p in PROMPTS})


def read_prompt(arrays: dict[str, npt.NDArray[Any]], name: str) -> Prompt:
    """One prompt of a reference file."""
    keys = ("ids", "hf", "hf_argmax", "hf_greedy", "hf_greedy_margin")
    return Prompt(*(arrays[f"{name}.{key}"] for key in keys))


@cache
def unpacked(path: Path) -> Path:
    """The content of an xz file, as a file that lives as long as the process."""
    target = scratch() / path.relative_to(DATA.parent).with_suffix("")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(lzma.decompress(path.read_bytes()))
    return target


@cache
def scratch() -> Path:
    """A folder that lives as long as the process."""
    folder = Path(tempfile.mkdtemp(prefix="ggufc-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
