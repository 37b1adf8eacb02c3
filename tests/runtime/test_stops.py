"""Stop strings: any cutting of the text gives what a search over the whole text gives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggufc.runtime.errors import ArgumentError
from ggufc.runtime.stops import StopScanner

TEXT = st.text("abAB", max_size=40)
STOPS = st.lists(st.text("abAB", min_size=1, max_size=5), max_size=4)


def oracle(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Grow the text character by character until it ends with a stop string; the longest one
    counts."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


def scan(pieces: list[str], stops: list[str]) -> tuple[list[str], str | None]:
    """What is shown piece by piece, and the stop string."""
    scanner = StopScanner(stops)
    shown: list[str] = []
    for piece in pieces:
        found = scanner.add(piece)
        shown.append(found.text)
        if found.stop is not None:
            return shown, found.stop
    return [*shown, scanner.finish()], None


@given(TEXT, STOPS, st.lists(st.integers(0, 40), max_size=10))
def test_any_cutting_equals_a_search_of_the_whole(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    borders = sorted({0, len(text), *(c for c in cuts if c <= len(text))})
    pieces = [text[a:b] for a, b in pairwise(borders)]
    shown, stop = scan(pieces, stops)
    assert ("".join(shown), stop) == oracle(text, stops)


@given(TEXT, STOPS)
def test_nothing_shown_before_the_end_could_begin_a_stop_string(
    text: str, stops: list[str]
) -> None:
    scanner, shown = StopScanner(stops), ""
    for end, piece in enumerate(text, start=1):
        found = scanner.add(piece)
        shown += found.text
        if found.stop is not None:
            return
        held = text[:end][len(shown) :]
        for stop in stops:
            possible = [n for n in range(1, len(stop)) if text[:end].endswith(stop[:n])]
            assert len(held) >= max(possible, default=0)


@pytest.mark.parametrize(
    ("stops", "text", "stop"),
    [
        (["DEFGH"], "ABC", "DEFGH"),
        (["CD", "BCD"], "A", "BCD"),
        (["C"], "AB", "C"),
        (["XYZ"], "ABCDEFGHIJ", None),
    ],
)
def test_one_letter_a_token(stops: list[str], text: str, stop: str | None) -> None:
    shown, found = scan(list("ABCDEFGHIJ"), stops)
    assert ("".join(shown), found) == (text, stop)


def test_held_text_is_delivered_at_the_end() -> None:
    assert scan(["a", "b<", "|e"], ["<|end|>"]) == (["a", "b", "", "<|e"], None)


@pytest.mark.parametrize("bad", [[""], ["x", ""], [3]])
def test_an_empty_stop_string_is_refused(bad: list[str]) -> None:
    with pytest.raises(ArgumentError, match="expected a non-empty string"):
        StopScanner(bad)
