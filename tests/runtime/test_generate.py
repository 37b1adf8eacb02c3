"""Generation by a model that says the alphabet, so that every token is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ggufc.runtime.errors import ArgumentError, ContextError
from ggufc.runtime.model import Model
from tests.support.bundles import CHAIN_CONTEXT, END, letters


@pytest.fixture(scope="module")
def model(alphabet: Path) -> Iterator[Model]:
    with Model.load(alphabet, threads=1) as loaded:
        yield loaded


def test_until_the_end_token(model: Model) -> None:
    result = model.generate("w")
    assert (result.text, result.finish_reason, result.stop) == ("xyz", "stop", "</s>")
    assert result.ids == [*letters("xyz"), END]
    assert result.prompt_ids == letters("w")
    assert result.usage.completion_tokens == 4


def test_ignore_eos(model: Model) -> None:
    result = model.generate("x", max_tokens=5, ignore_eos=True)
    assert result.ids == [*letters("yz"), END, *letters("ab")]
    assert result.finish_reason == "length"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_length(model: Model, count: int) -> None:
    result = model.generate("a", max_tokens=count)
    assert (result.text, result.finish_reason) == ("bcd"[:count], "length")
    assert len(result.ids) == count


STOPS = [
    (["defgh"], "bc"),
    (["cd", "bcd"], ""),
    (["f"], "bcde"),
    (["a"], "bcdefghijklmnopqrstuvwxyz"),
    (["hij", "gh"], "bcdef"),
    (["zz", "xyz"], "bcdefghijklmnopqrstuvw"),
]


@pytest.mark.parametrize(("stop", "text"), STOPS)
def test_stop_strings(model: Model, stop: list[str], text: str) -> None:
    result = model.generate("a", stop=stop)
    assert result.text == text
    expected = "stop" if stop == ["a"] else "stop_string"
    assert result.finish_reason == expected
    streamed = "".join(event.text for event in model.generate("a", stop=stop, stream=True))
    assert streamed == text


def test_a_string_alone_is_one_stop(model: Model) -> None:
    assert model.generate("a", stop="de").text == "bc"


def test_held_text_is_delivered_when_tokens_run_out(model: Model) -> None:
    result = model.generate("a", stop=["defX"], max_tokens=5)
    assert (result.text, result.finish_reason) == ("bcdef", "length")


@pytest.mark.parametrize("max_tokens", [-1, 10**9])
@pytest.mark.parametrize("length", [CHAIN_CONTEXT - 1, CHAIN_CONTEXT])
def test_the_context_ends_a_generation(model: Model, length: int, max_tokens: int) -> None:
    prompt = letters("a") * length
    result = model.generate(prompt, max_tokens=max_tokens)
    assert result.finish_reason == "context"
    assert len(result.ids) == CHAIN_CONTEXT - length + 1


def test_a_prompt_that_does_not_fit_is_refused_at_once(model: Model) -> None:
    prompt = letters("a") * (CHAIN_CONTEXT + 1)
    message = f"the prompt has {CHAIN_CONTEXT + 1} tokens, the context holds {CHAIN_CONTEXT}"
    for stream in (False, True):
        with pytest.raises(ContextError, match=message):
            model.generate(prompt, stream=stream)


def test_a_smaller_context_counts(alphabet: Path) -> None:
    with Model.load(alphabet, context=5) as small:
        result = small.generate("a", max_tokens=-1)
        assert (result.text, result.finish_reason) == ("bcdef", "context")
        with pytest.raises(
            ContextError, match=r"6 tokens, the context holds 5 \(compiled for 64\)"
        ):
            small.generate("abcdef")


def test_the_cache_is_reused(model: Model) -> None:
    first = model.generate("abcd", max_tokens=2)
    again = model.generate("abcdef", max_tokens=1)
    assert (first.text, again.text) == ("ef", "g")
    assert again.usage.cached_tokens == 5
    assert again.usage.prompt_tokens == 6


def test_streams_end_with_the_result(model: Model) -> None:
    events = list(model.generate("v", stream=True))
    assert [event.text for event in events] == ["w", "x", "y", "z", ""]
    assert [event.result is None for event in events] == [True] * 4 + [False]


def test_an_abandoned_stream_gives_its_sequence_back(alphabet: Path) -> None:
    with Model.load(alphabet, sequences=1) as single:
        stream = single.generate("a", stream=True)
        assert next(stream).text == "b"
        del stream
        assert single.generate("a", max_tokens=1).text == "b"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_seed_repeats_a_generation(tiny: Path, seed: int) -> None:
    with Model.load(tiny) as random:
        runs = [
            random.generate("the", temperature=1.5, seed=seed, max_tokens=20).ids for _ in range(3)
        ]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": -2}, "max_tokens -2: expected an integer from -1"),
        ({"temperature": -0.5}, "temperature -0.5"),
        ({"stop": [""]}, "stop string 0 is ''"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_settings(model: Model, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model.generate("a", **settings)


def test_no_prompt(model: Model) -> None:
    with pytest.raises(ArgumentError, match="the prompt has no tokens"):
        model.generate([])
