"""Batches: what a sequence gives does not depend on the others, whoever joins and leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ggufc.runtime.batch import Request
from ggufc.runtime.engine import Engine
from ggufc.runtime.errors import ArgumentError, ContextError, LogitsError
from ggufc.runtime.generate import Generation, GenerationOptions
from ggufc.runtime.model import Model
from ggufc.runtime.sampling import SamplingOptions
from ggufc.runtime.session import decode_together
from ggufc.runtime.step_inputs import Step
from tests.support.bundles import letters
from tests.support.sequences import ALL, ATTENTION, EXPERTS, RECURRENT, bundle, random_ids


@pytest.fixture(scope="module", params=ALL)
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    with Model.load(bundle(request.param), threads=2, context=160) as loaded:
        yield loaded


@pytest.fixture
def llama() -> Iterator[Model]:
    with Model.load(bundle("llama"), threads=1, context=128) as loaded:
        yield loaded


def alone(model: Model, request: Request) -> Generation:
    """What a request gives with nobody else, from the beginning."""
    (event,) = [e for e in model.run_batch([request], sequences=1) if e.result is not None]
    assert event.result is not None
    return event.result


def request_of(model: Model, random: np.random.Generator, prompt: list[int]) -> Request:
    """A request with a length and a sampler of its own."""
    sampling = SamplingOptions()
    if random.random() < 0.6:
        seed = int(random.integers(1 << 30))
        sampling = SamplingOptions(temperature=1.5, top_k=int(random.integers(0, 9)), seed=seed)
    length = int(random.integers(0, 14))
    return Request(prompt, GenerationOptions(length, ignore_eos=True, sampling=sampling))


def requests_for(model: Model, seed: int) -> list[Request]:
    """More requests than sequences, some of which begin alike."""
    random = np.random.default_rng(seed)
    common = random_ids(model, seed, 40)
    prompts = [random_ids(model, seed + i, int(random.integers(1, 50))) for i in range(6)]
    prompts += [common[: int(random.integers(20, 41))] + prompt[:9] for prompt in prompts]
    return [request_of(model, random, prompts[i]) for i in random.permutation(len(prompts))]


@pytest.mark.parametrize("sequences", [2, 3, 4])
def test_together_equals_alone(model: Model, sequences: int) -> None:
    requests = requests_for(model, 10 * sequences)
    expected = [alone(model, request) for request in requests]
    found: dict[int, Generation] = {}
    for event in model.run_batch(requests, sequences=sequences):
        assert event.error is None
        if event.result is not None:
            found[event.index] = event.result
    assert [found[i].ids for i in range(len(requests))] == [e.ids for e in expected]
    assert [found[i].text for i in range(len(requests))] == [e.text for e in expected]
    assert [found[i].finish_reason for i in range(len(requests))] == [
        e.finish_reason for e in expected
    ]


def test_logits_have_the_bits_of_a_sequence_alone(model: Model) -> None:
    """Sessions at positions of their own, in batches of changing members and order."""
    random = np.random.default_rng(11)
    ids = [random_ids(model, 20 + i, 60) for i in range(4)]
    starts = [1, 13, 31, 5]
    rows: list[list[np.ndarray]] = [[], [], [], []]
    with model.session() as a, model.session() as b, model.session() as c, model.session() as d:
        sessions = [a, b, c, d]
        for session, tokens, start in zip(sessions, ids, starts, strict=True):
            session.prefill(tokens[:start])
        for _ in range(12):
            members = random.permutation(4)[: random.integers(1, 5)].tolist()
            logits = np.empty((len(members), model.engine.vocab_size), np.float32)
            chosen = [sessions[m] for m in members]
            tokens = [ids[m][sessions[m].position] for m in members]
            decode_together(chosen, tokens, logits)
            for member, row in zip(members, logits, strict=True):
                rows[member].append(row.copy())
    for tokens, start, found in zip(ids, starts, rows, strict=True):
        with model.session() as single:
            single.prefill(tokens[:start])
            expected = [single.decode(token).copy() for token in tokens[start:][: len(found)]]
        np.testing.assert_array_equal(found, expected)


def test_generate_batch(llama: Model) -> None:
    prompts = [random_ids(llama, i, 3 + i) for i in range(9)]
    each: list[Any] = [{"max_tokens": i} for i in range(9)]
    found = llama.generate_batch(prompts, each=each, temperature=0.8, seed=3, ignore_eos=True)
    for prompt, settings, result in zip(prompts, each, found, strict=True):
        single = llama.generate(prompt, temperature=0.8, seed=3, ignore_eos=True, **settings)
        assert (result.ids, result.prompt_ids) == (single.ids, prompt)
    assert llama.generate_batch([]) == []
    with pytest.raises(ArgumentError, match="each: expected settings for each of 9 prompts, found"):
        llama.generate_batch(prompts, each=each[:3])
    assert len(llama.generate_batch(prompts, max_tokens=1)) == 9


def test_texts_and_stops(alphabet: Any) -> None:
    """Each ends for a reason of its own."""
    with Model.load(alphabet, threads=1) as model:
        each: list[Any] = [{"stop": ["fg"]}, {}, {"max_tokens": 3}, {"max_tokens": 0}]
        found = model.generate_batch(["a", "w", "m", "k"], each=each)
        assert [r.text for r in found] == ["bcde", "xyz", "nop", ""]
        reasons = [r.finish_reason for r in found]
        assert reasons == ["stop_string", "stop", "length", "length"]
        streamed = ["", ""]
        prompts = [letters("a"), letters("u")]
        for event in model.run_batch(Request(p, GenerationOptions()) for p in prompts):
            streamed[event.index] += event.text
        assert streamed == ["bcdefghijklmnopqrstuvwxyz", "vwxyz"]


def test_a_request_is_asked_for_only_when_it_can_begin(llama: Model) -> None:
    asked: list[int] = []

    def requests() -> Iterator[Request]:
        for i in range(40):
            asked.append(i)
            yield Request(random_ids(llama, i, 4), GenerationOptions(3, ignore_eos=True))

    done = 0
    for event in llama.run_batch(requests(), sequences=3):
        done += event.result is not None
        assert len(asked) <= done + 3
    assert done == 40


def test_an_error_ends_one_sequence(llama: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    options = GenerationOptions(6, ignore_eos=True)
    prompts = [random_ids(llama, i, 5) for i in range(3)]
    expected = [alone(llama, Request(prompt, options)).ids for prompt in prompts]
    decode = Engine.decode

    def broken(self: Engine, steps: list[Step], logits: np.ndarray) -> None:
        decode(self, steps, logits)
        logits[[step.token == expected[1][2] for step in steps]] = np.nan

    requests = [*(Request(prompt, options) for prompt in prompts)]
    requests += [Request([], options), Request([5] * 129, options), Request([10**6], options)]
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "decode", broken)
        events = list(llama.run_batch(requests))
    results = {e.index: e.result.ids for e in events if e.result is not None}
    errors = {e.index: type(e.error) for e in events if e.error is not None}
    assert results == {0: expected[0], 2: expected[2]}
    assert errors == {1: LogitsError, 3: ArgumentError, 4: ContextError, 5: ArgumentError}
    with pytest.raises(ContextError, match="129 tokens"):
        llama.generate_batch([prompts[0], [5] * 129])
    assert llama.generate_batch(prompts[:1], max_tokens=6, ignore_eos=True)[0].ids == expected[0]


def test_leaving_a_batch_gives_its_sequences_back(llama: Model) -> None:
    options = GenerationOptions(50, ignore_eos=True)
    requests = [Request(random_ids(llama, i, 5), options) for i in range(9)]
    for _ in range(3):
        events = llama.run_batch(requests)
        for _ in range(10):
            next(events)
        events.close()  # type: ignore[attr-defined]
    with llama.session(), llama.session(), llama.session(), llama.session():
        pass


def test_a_batch_takes_what_others_leave_it(llama: Model) -> None:
    requests = [Request(random_ids(llama, i, 5), GenerationOptions(4)) for i in range(5)]
    expected = [alone(llama, request).ids for request in requests]
    with llama.session(), llama.session(), llama.session():
        found = {e.index: e.result.ids for e in llama.run_batch(requests) if e.result is not None}
    assert [found[i] for i in range(5)] == expected


@pytest.mark.parametrize("sequences", [0, 5, -1])
def test_the_number_of_sequences_is_checked(llama: Model, sequences: int) -> None:
    with pytest.raises(ContextError, match=f"sequences {sequences}: the bundle was compiled for 1"):
        llama.generate_batch(["a"], sequences=sequences)


def test_prompts_that_begin_alike_are_computed_once(llama: Model) -> None:
    common = random_ids(llama, 1, 60)
    prompts = [common + random_ids(llama, 2 + i, 5) for i in range(4)]
    found = llama.generate_batch(prompts, max_tokens=4, ignore_eos=True)
    assert [r.usage.cached_tokens for r in found] == [0, 60, 60, 60]


def test_every_kind_of_state_is_tried() -> None:
    kinds = {(bool(s.position_bytes), bool(s.sequence_bytes)) for n in ALL for s in states_of(n)}
    assert kinds == {(True, False), (False, True)}
    assert set(ALL) == {*ATTENTION, *EXPERTS, *RECURRENT}


def states_of(name: str) -> Any:
    """The states of a model."""
    with Model.load(bundle(name), threads=1, context=64) as model:
        return model.manifest.states
