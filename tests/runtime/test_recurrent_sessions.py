"""Sessions of models with recurrent layers, whose state cannot be taken back to an earlier
token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from ggufc.runtime.step_inputs import Step
from tests.support.fixtures import model_fixture, scratch

IDS = np.random.default_rng(3).integers(3, 64, 24).tolist()
OTHERS = np.random.default_rng(4).integers(3, 64, 17).tolist()


@pytest.fixture(scope="module", params=["small/mamba", "small/lfm2moe"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    destination = scratch() / f"{request.param.replace('/', '-')}-sessions.ggufc"
    compile_model(model_fixture(request.param).path, destination, CompileOptions(kv_type="f32"))
    with Model.load(destination, threads=2, sequences=2) as loaded:
        yield loaded


def fresh(model: Model, ids: list[int]) -> npt.NDArray[np.float32]:
    """Logits after `ids`, in a sequence of their own from its beginning."""
    return model.logits(ids)


def assert_near(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)


def test_the_bundle_says_what_a_sequence_takes(model: Model) -> None:
    states = model.manifest.states
    assert not model.engine.can_rewind
    assert all((s.position_bytes > 0) != (s.sequence_bytes > 0) for s in states)


def test_a_prompt_that_goes_on_reuses_all(model: Model) -> None:
    with model.session() as session:
        session.prefill(IDS[:10])
        assert session.reuse(IDS) == 10
        assert_near(session.prefill(IDS[10:]), fresh(model, IDS))


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (IDS[:10], "the last token has to be run again"),
        (IDS[:7], "the state is past the prompt"),
        (IDS[:5] + OTHERS, "the state has tokens that the prompt has not"),
    ],
)
def test_anything_else_begins_anew(model: Model, ids: list[int], why: str) -> None:
    with model.session() as session:
        session.prefill(IDS[:10])
        assert session.reuse(ids) == 0, why
        assert session.position == 0
        assert_near(session.prefill(ids), fresh(model, ids))


def test_generations_reuse_what_was_said(model: Model) -> None:
    first = model.generate(IDS, max_tokens=6, ignore_eos=True)
    # The last token was sampled but not run.
    said = IDS + first.ids[:-1]
    second = model.generate(said + OTHERS, max_tokens=5, ignore_eos=True)
    assert second.usage.cached_tokens == len(said)
    again = model.generate(IDS, max_tokens=6, ignore_eos=True)
    assert (again.usage.cached_tokens, again.ids) == (0, first.ids)


def test_a_sequence_that_is_used_again_begins_with_zeros(model: Model) -> None:
    with model.session() as session:
        for _ in range(2):
            session.clear()
            first = session.prefill(IDS).copy()
        session.prefill(OTHERS)
        session.clear()
        assert np.array_equal(session.prefill(IDS), first)


def test_a_call_that_was_broken_off_forgets_the_tokens(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal may have come before the call or, as here, after it."""
    decode = model.engine.decode

    def interrupted(*arguments: Any) -> None:
        decode(*arguments)
        raise KeyboardInterrupt

    with model.session() as session:
        session.prefill(IDS[:10])
        monkeypatch.setattr(model.engine, "decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.decode(IDS[10])
        monkeypatch.undo()
        assert session.reuse(IDS) == 0
        assert_near(session.prefill(IDS), fresh(model, IDS))


def test_sequences_do_not_mix(model: Model) -> None:
    with model.session() as one, model.session() as two:
        one.prefill(IDS[:9])
        two.prefill(OTHERS[:5])
        logits = np.empty((2, model.engine.vocab_size), np.float32)
        steps = [Step(two.index, 5, OTHERS[5], 6), Step(one.index, 9, IDS[9], 10)]
        model.engine.decode(steps, logits)
    assert_near(logits, np.stack([fresh(model, OTHERS[:6]), fresh(model, IDS[:10])]))


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_threads_change_no_bit(model: Model, threads: int) -> None:
    with Model.load(model.bundle.path, threads=threads, sequences=1) as other:
        assert np.array_equal(other.logits(IDS, all=True), model.logits(IDS, all=True))
        assert np.array_equal(other.logits(IDS, step=True), model.logits(IDS, step=True))


def test_a_prompt_that_goes_on_otherwise_starts_from_a_checkpoint(model: Model) -> None:
    """After the first prompt the answer is not what the second prompt has there."""
    with model.session() as session:
        session.prefill(IDS[:10])
        session.checkpoint()
        for token in OTHERS[:5]:
            session.decode(token)
        assert session.reuse(IDS) == 10
        found = session.prefill(IDS[10:]).copy()
    assert np.array_equal(found, fresh(model, IDS))


def test_the_last_checkpoints_are_kept(model: Model) -> None:
    with model.session() as session:
        for start in range(0, 20, 4):
            session.prefill(IDS[start : start + 4])
            session.checkpoint()
            session.checkpoint()
        session.prefill(IDS[20:])
        assert [session.reusable(IDS[:n] + OTHERS) for n in (23, 20, 19, 16, 15)] == [
            20, 20, 16, 16, 0,
        ]  # fmt: skip
        assert session.reuse(IDS[:18] + OTHERS) == 16
        assert session.reusable(IDS[:20] + OTHERS) == 16
        assert np.array_equal(session.prefill(IDS[16:]), fresh(model, IDS))
        session.clear()
        assert session.reusable(IDS) == 0


def test_a_restored_session_has_no_checkpoints(model: Model, tmp_path: Path) -> None:
    with model.session() as session:
        session.prefill(IDS[:10])
        session.save(tmp_path / "s")
        session.prefill(IDS[10:12])
        session.checkpoint()
        session.restore(tmp_path / "s")
        assert session.reusable(IDS[:10] + OTHERS) == 10
        assert session.reusable(IDS[:9] + OTHERS) == 0


def test_an_answer_that_is_taken_back_leaves_its_prompt(model: Model) -> None:
    model.generate(IDS, max_tokens=4, ignore_eos=True)
    second = model.generate(IDS + OTHERS, max_tokens=3, ignore_eos=True)
    assert second.usage.cached_tokens == len(IDS)
    with model.session() as session:
        single = model.generate(IDS + OTHERS, session=session, max_tokens=3, ignore_eos=True)
    assert (single.usage.cached_tokens, single.ids) == (0, second.ids)
