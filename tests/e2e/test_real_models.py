"""The two real models against float32 references, where model and references are here.

`make run` puts the first model where this looks for it; the references lie beside the repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from tests.support.shared import ROOT, require_shared

FOLDERS = (ROOT / ".cache", ROOT.parent / "models")
# Mean divergence of llama.cpp from the reference, over the stored positions.
LLAMA_CPP = {"smollm2": 0.0044, "gemma3": 0.0070}
FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
ALLOWED = 1.2
CERTAIN_MARGIN = 0.6

Arrays = dict[str, npt.NDArray[Any]]


def real_model(name: str) -> Path:
    """The model file; skips the calling test, by name, where it is not here."""
    for folder in FOLDERS:
        if (folder / FILES[name]).exists():
            return folder / FILES[name]
    pytest.skip(f"model {FILES[name]} is not here")


def divergence(logits: npt.NDArray[np.float32], arrays: Arrays, key: str, row: int) -> float:
    """KL(reference || logits) over the stored tokens, and one bucket for all others."""
    wide = logits.astype(np.float64) - float(logits.max())
    ours = wide - np.log(np.exp(wide).sum())
    theirs = arrays[f"{key}_top_logprob"][row].astype(np.float64)
    stored = ours[arrays[f"{key}_top_ids"][row]]
    rest, our_rest = 1 - np.exp(theirs).sum(), 1 - np.exp(stored).sum()
    tail = rest * np.log(rest / our_rest) if min(rest, our_rest) > 1e-12 else 0.0
    return float((np.exp(theirs) * (theirs - stored)).sum() + tail)


def logits_at(
    model: Model, ids: list[int], positions: list[int]
) -> Iterator[npt.NDArray[np.float32]]:
    """Logits after some tokens of a prompt, in rising order of position."""
    with model.session() as session:
        for position in positions:
            yield session.prefill(ids[session.position : position + 1])


@pytest.mark.parametrize("name", FILES)
def test_divergence_and_top_tokens(name: str, tmp_path: Path) -> None:
    prompts = json.loads((require_shared("real") / f"{name}.json").read_text())
    compile_model(real_model(name), tmp_path / "m.ggufc", CompileOptions())
    divergences = []
    with (
        np.load(require_shared("real") / f"{name}.npz") as stored,
        Model.load(tmp_path / "m.ggufc", sequences=1) as model,
    ):
        arrays = dict(stored)
        for key in (key for key in prompts if key.startswith("p")):
            positions = arrays[f"{key}_pos"].tolist()
            for row, logits in enumerate(logits_at(model, prompts[key]["ids"], positions)):
                divergences.append(divergence(logits, arrays, key, row))
                if arrays[f"{key}_margin"][row] > CERTAIN_MARGIN:
                    top = int(arrays[f"{key}_top_ids"][row, 0])
                    assert int(logits.argmax()) == top, (key, positions[row])
    assert len(divergences) == 45
    assert np.mean(divergences) <= ALLOWED * LLAMA_CPP[name]
