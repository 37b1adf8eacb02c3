"""Faults of stop strings and of characters that several tokens make, as users reported them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ggufc.runtime.errors import ArgumentError
from ggufc.runtime.stops import StopScanner
from ggufc.tokenizer import StreamDecoder


class Bytes:
    """Tokens that each stand for some bytes."""

    def __init__(self, *tokens: bytes) -> None:
        self.tokens = tokens

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token."""
        return self.tokens[token]


def shown(tokens: tuple[bytes, ...], *stops: str) -> tuple[list[str], str | None]:
    """What is shown after each token and at the end, and the stop string."""
    stream, scanner = StreamDecoder(Bytes(*tokens)), StopScanner(stops)
    texts = []
    for token in range(len(tokens)):
        found = scanner.add(stream.add(token))
        texts.append(found.text)
        if found.stop is not None:
            return texts, found.stop
    found = scanner.add(stream.finalize())
    return [*texts, found.text + ("" if found.stop else scanner.finish())], found.stop


def letters(text: str) -> tuple[bytes, ...]:
    """A token a character."""
    return tuple(character.encode() for character in text)


def test_a_stop_string_whose_character_two_tokens_make() -> None:
    assert shown((b"a", b"\xc3", b"\xa9", b"b"), "é") == (["a", "", ""], "é")
    assert shown((b"a", b"\xc3", b"\xa8", b"b"), "é") == (["a", "", "è", "b", ""], None)


def test_five_stop_strings() -> None:
    stops = ("HIJ", "EFG", "XYZ", "FG", "é")
    assert shown(letters("ABCDEFGHIJ"), *stops) == (["A", "B", "C", "D", "", "", ""], "EFG")


@pytest.mark.parametrize("stop", ["DEFGH", "CD", "C", "J", "ABCDEFGHIJ"])
def test_every_way_to_cut_the_text_in_tokens_of_two(stop: str) -> None:
    text = "ABCDEFGHIJ"
    for first in (1, 2):
        borders = [0, *range(first, len(text), 2), len(text)]
        tokens = tuple(text[a:b].encode() for a, b in pairwise(borders))
        texts, found = shown(tokens, stop)
        assert ("".join(texts), found) == (text[: text.index(stop)], stop)


@pytest.mark.parametrize("stop", ["\ud83d", "a\udcf0"])
def test_half_a_pair_is_no_stop_string(stop: str) -> None:
    with pytest.raises(ArgumentError, match="half of a surrogate pair"):
        StopScanner(["x", stop])


FAMILY = "👨‍👩‍👧"


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        (tuple(bytes([b]) for b in "😀".encode()), ["", "", "", "😀", ""]),
        (("日".encode()[:2], "日".encode()[2:]), ["", "日", ""]),
        (("日".encode()[:1], "日".encode()[1:]), ["", "日", ""]),
        ((b"a", b"\xf0"), ["a", "", "\ufffd"]),
        ((b"a", b"\xf0\x9f\x98"), ["a", "", "\ufffd"]),
        ((b"a\xff", b"b"), ["a\ufffd", "b", ""]),
        ((b"\xf0", b"\xff", b"b"), ["", "\ufffd\ufffd", "b", ""]),
    ],
)
def test_characters_are_shown_when_they_are_whole(
    tokens: tuple[bytes, ...], texts: list[str]
) -> None:
    assert shown(tokens) == (texts, None)
    assert "".join(texts) == b"".join(tokens).decode("utf-8", "replace")


def test_a_family_in_single_bytes() -> None:
    texts, _ = shown(tuple(bytes([b]) for b in FAMILY.encode()))
    assert "".join(texts) == FAMILY
    assert [text for text in texts if text] == list(FAMILY)
