"""Sessions of models with recurrent layers, whose state cannot be taken back to an earlier
token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
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
        sequences, positions, ids = (
            np.array(values, np.int32)
            for values in ([two.index, one.index], [5, 9], [OTHERS[5], IDS[9]])
        )
        model.engine.decode(sequences, positions, ids, logits)
    assert_near(logits, np.stack([fresh(model, OTHERS[:6]), fresh(model, IDS[:10])]))


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_threads_change_no_bit(model: Model, threads: int) -> None:
    with Model.load(model.bundle.path, threads=threads, sequences=1) as other:
        assert np.array_equal(other.logits(IDS, all=True), model.logits(IDS, all=True))
        assert np.array_equal(other.logits(IDS, step=True), model.logits(IDS, step=True))
