"""Compiled models against transformers in float32: logits at every stored position, and greedy
tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm import host_isas
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from ggufc.verification import verify_bundle
from tests.support.fixtures import LOCAL, PROMPTS, SHARED, SMALL, model_fixture, scratch
from tests.support.shared import shared_fixtures

TOLERANCE = 1e-3
# Greedy tokens follow from the logits, unless two of them are closer than the tolerance.
MARGIN = 2 * TOLERANCE

# Compiling takes a second each: of twins only the larger one, where it is here.
TWINS = {f"small/{name}" for name in SHARED} if shared_fixtures() else set()
MODELS = [*LOCAL, *(name for name in SMALL if name not in TWINS), *SHARED]
FEEDING: list[dict[str, int]] = [{}, {"chunk": 1}, {"chunk": 3}, {"chunk": 64}, {"step": True}]


def bundle(name: str, target: str = "native") -> Path:
    """The compiled model, made once a run."""
    destination = scratch() / f"{name}-{target}.ggufc"
    if not destination.exists():
        destination.parent.mkdir(exist_ok=True)
        options = CompileOptions(target=target, kv_type="f32")
        compile_model(model_fixture(name).path, destination, options)
    return destination


def largest_error(model: Model, name: str, feeding: dict[str, int]) -> float:
    """The largest difference of a logit over all prompts of a model."""
    errors = []
    for prompt in model_fixture(name).prompts.values():
        found = model.logits(prompt.ids.tolist(), all=True, **feeding)  # type: ignore[arg-type]
        errors.append(np.abs(found[-len(prompt.logits) :] - prompt.logits).max())
    return float(max(errors))


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_greedy_tokens(name: str) -> None:
    with Model.load(bundle(name), threads=2) as model:
        for feeding in FEEDING:
            assert largest_error(model, name, feeding) < TOLERANCE, feeding
        for key in PROMPTS:
            prompt = model_fixture(name).prompts[key]
            count = len(prompt.greedy)
            found = model.generate(prompt.ids.tolist(), max_tokens=count, ignore_eos=True)
            sure = int(np.append(np.flatnonzero(prompt.margins < MARGIN), count)[0])
            assert found.ids[:sure] == prompt.greedy[:sure].tolist()


@pytest.mark.parametrize("name", ["qwen2", "small/glm4moe", "small/deepseek2-yarn"])
def test_verification(name: str) -> None:
    """Of programs with joined biases, experts, and weights of heads."""
    assert verify_bundle(bundle(name), threads=2).passed


@pytest.mark.parametrize("name", ["llama", "gemma3", "small/deepseek2-yarn"])
@pytest.mark.parametrize("isa", host_isas()[1:])
def test_other_instruction_sets(name: str, isa: str) -> None:
    with Model.load(bundle(name, isa), threads=2) as model:
        assert model.engine.isa == isa
        for feeding in FEEDING:
            assert largest_error(model, name, feeding) < TOLERANCE, feeding


def test_a_sequence_that_becomes_long_is_computed_again() -> None:
    """The model has other frequencies above 64 positions: as if all tokens had been given at
    once."""
    name = "small/phi3-longrope"
    ids = model_fixture(name).prompts["p130"].ids.tolist()
    with Model.load(bundle(name), threads=2) as model, model.session() as session:
        whole = {n: model.logits(ids[:n]).copy() for n in (62, 64, 65, 66, 70)}
        session.prefill(ids[:61])
        for n in range(62, 71):
            logits = session.decode(ids[n - 1])
            if n in whole:
                assert np.abs(logits - whole[n]).max() < 1e-4, n
        assert session.reuse(ids[:64]) == 63
        assert np.abs(session.decode(ids[63]) - whole[64]).max() < 1e-4
        session.clear()
        session.prefill(ids[:40], chunk=7)
        assert np.abs(session.prefill(ids[40:66], chunk=5) - whole[66]).max() < 1e-4


def test_steps_of_a_known_sequence_know_its_length() -> None:
    """A text of more than 64 tokens is long from its first token on, however it is fed."""
    name = "small/phi3-longrope"
    ids = model_fixture(name).prompts["p130"].ids.tolist()
    with Model.load(bundle(name), threads=2) as model:
        whole = model.logits(ids, all=True)
        assert np.abs(model.logits(ids, all=True, step=True) - whole).max() < 1e-4
        short = model.logits(ids[:60], all=True)
        assert np.abs(short - whole[:60]).max() > 0.1
        assert np.abs(model.logits(ids[:60], all=True, step=True) - short).max() < 1e-4
