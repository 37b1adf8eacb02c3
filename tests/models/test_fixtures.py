"""Graphs of whole models, run by the interpreter, against transformers in float32."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ggufc.compiler.gguf import GGUFFile
from ggufc.ir.numerics import F32Array
from tests.support.fixtures import LOCAL, PROMPTS, SHARED, SMALL, model_fixture
from tests.support.interpreted import InterpretedModel
from tests.support.shared import require_shared

TOLERANCE = 1e-3
CLEAR_MARGIN = 1e-3
MODELS = (*LOCAL, *SMALL, *SHARED)


def cases(prompts: tuple[str, ...], one: str) -> list[tuple[str, str]]:
    """A few models with every prompt, the others with one: compiled models run them all."""
    return [(m, p) for m in MODELS for p in (prompts if m in LOCAL else (one,))]


@cache
def interpreted(name: str) -> InterpretedModel:
    return InterpretedModel(GGUFFile.open(model_fixture(name).path))


def check(name: str, prompt_name: str, logits: F32Array) -> None:
    """Compare logits of all positions with the ones that are stored."""
    prompt = model_fixture(name).prompts[prompt_name]
    assert len(logits) == len(prompt.ids)
    assert np.abs(logits[-len(prompt.logits) :] - prompt.logits).max() < TOLERANCE
    assert (logits.argmax(axis=1) == prompt.argmax).all()


@pytest.mark.parametrize(("name", "prompt"), [(m, p) for m in MODELS for p in PROMPTS])
def test_in_one_piece(name: str, prompt: str) -> None:
    model = interpreted(name)
    model.reset()
    check(name, prompt, model.prefill(model_fixture(name).prompts[prompt].ids))


@pytest.mark.parametrize(("name", "prompt"), cases(("p7", "p33", "p130"), "p33"))
def test_in_chunks_of_three(name: str, prompt: str) -> None:
    model = interpreted(name)
    model.reset()
    check(name, prompt, model.in_chunks(model_fixture(name).prompts[prompt].ids, 3, sequence=1))


@pytest.mark.parametrize(("name", "prompt"), cases(("p7", "p33", "p130"), "p33"))
def test_step_by_step(name: str, prompt: str) -> None:
    model = interpreted(name)
    model.reset()
    check(name, prompt, model.step_by_step(model_fixture(name).prompts[prompt].ids, sequence=1))


@pytest.mark.parametrize(("name", "prompt"), cases(PROMPTS, "p7"))
def test_greedy_tokens(name: str, prompt: str) -> None:
    model = interpreted(name)
    model.reset()
    expected = model_fixture(name).prompts[prompt]
    assert expected.margins.min() > CLEAR_MARGIN
    assert model.greedy(expected.ids, len(expected.greedy)) == expected.greedy.tolist()


def test_two_sequences_at_once_do_not_mix() -> None:
    model = interpreted("gemma3")
    model.reset()
    first, second = (model_fixture("gemma3").prompts[p].ids for p in ("p33", "p7"))
    model.prefill(first[:20], sequence=0)
    model.prefill(second[:3], sequence=1)
    rows = [
        model.decode(
            np.array([first[20 + i], second[3 + i]]), np.array([20 + i, 3 + i]), np.array([0, 1])
        )
        for i in range(4)
    ]
    alone = [
        model_fixture("gemma3").prompts[p].logits[at : at + 4] for p, at in (("p33", 20), ("p7", 3))
    ]
    assert np.abs(np.stack(rows, axis=1) - np.stack(alone)).max() < TOLERANCE


def test_a_file_without_window_gets_full_attention() -> None:
    """The converter drops Mistral's window: llama.cpp, whose values these are, attends to
    everything."""
    folder = require_shared("models/models/mistral-swa")
    with np.load(folder / "ref.npz") as arrays:
        ids, expected = arrays["p33.ids"], arrays["p33.llama"]
    logits = InterpretedModel(GGUFFile.open(folder / "model.gguf")).prefill(ids)
    assert np.abs(logits - expected).max() < TOLERANCE
