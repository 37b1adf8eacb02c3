"""Runs a pre-tokenizer's steps over text: strings in, the list of their pieces out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, pairwise

import regex

from ggufc.tokenizer import pretokenizers
from ggufc.tokenizer.pretokenizers import PreTokenizer
from ggufc.tokenizer.unicode_versions import as_in_unicode_16

Splitter = Callable[[str], list[str]]


def splitter(row: PreTokenizer) -> Splitter:
    """The splitter of one row: non-empty pieces, in order, that join to the text."""
    steps = (row.fused,) if row.fused else row.steps
    return _as_in_unicode_16(_chained(steps))


def stepwise_splitter(row: PreTokenizer) -> Splitter:
    """As `splitter`, always step by step: the definition that fused patterns are tested against."""
    return _as_in_unicode_16(_chained(row.steps))


def _as_in_unicode_16(cut: Splitter) -> Splitter:
    """The splitter with the classes of characters that the vocabularies were made with."""

    def split(text: str) -> list[str]:
        known = as_in_unicode_16(text)
        pieces = cut(known)
        if known is text:
            return pieces
        ends = [0, *accumulate(map(len, pieces))]
        return [text[start:end] for start, end in pairwise(ends)]

    return split


@lru_cache(maxsize=64)
def _chained(steps: tuple[str, ...]) -> Splitter:
    splitters = [_step(step) for step in steps]
    if len(splitters) == 1:
        return splitters[0]

    def split(text: str) -> list[str]:
        pieces = [text] if text else []
        for one in splitters:
            parts = {piece: one(piece) for piece in set(pieces)}
            pieces = [part for piece in pieces for part in parts[piece]]
        return pieces

    return split


def _step(pattern: str) -> Splitter:
    special = _FROM_RIGHT.get(pattern)
    return special if special is not None else _pattern_splitter(pattern)


def _pattern_splitter(pattern: str) -> Splitter:
    version = regex.V1 if "--" in pattern else regex.V0
    find = regex.compile(pattern, version).findall
    cut = regex.compile(f"({pattern})", version).split

    def split(text: str) -> list[str]:
        pieces: list[str] = find(text)
        if sum(map(len, pieces)) == len(text):
            return pieces
        return list(filter(None, cut(text)))

    return split


def _right_grouping(pattern: str) -> Splitter:
    """Cuts the runs that a pattern matches into threes from the right; a run whose first group
    does not take part in the match stays as it is, with the text around it."""
    runs = regex.compile(pattern)

    def split(text: str) -> list[str]:
        pieces: list[str] = []
        end = 0
        for match in runs.finditer(text):
            if match.group(1) is None:
                continue
            if match.start() > end:
                pieces.append(text[end : match.start()])
            pieces += _threes_from_right(match.group())
            end = match.end()
        if end < len(text):
            pieces.append(text[end:])
        return pieces

    return split


def _right_cutting(pattern: str) -> Splitter:
    """Cuts a text where a multiple of three characters is left of a run, and nowhere else: what
    stands beside a run stays with its first or last group."""
    runs = regex.compile(pattern)

    def split(text: str) -> list[str]:
        cuts = [
            place
            for match in runs.finditer(text)
            for place in range(match.start() + len(match.group()) % 3, match.end(), 3)
            if place
        ]
        return [text[start:end] for start, end in pairwise([0, *cuts, len(text)]) if end > start]

    return split


def _threes_from_right(run: str) -> list[str]:
    head = len(run) % 3
    groups = [run[i : i + 3] for i in range(head, len(run), 3)]
    return [run[:head], *groups] if head else groups


# A character of words, as the models' tokenizers have it for the end of a run of digits.
_WORD = r"(?![\u200c\u200d])[\w\xb2\xb3\xb9\xbc-\xbe]"

_FROM_RIGHT: dict[str, Splitter] = {
    pretokenizers.NUMBERS_FROM_RIGHT: _right_grouping(r"(\p{N}+)"),
    pretokenizers.DIGITS_FROM_RIGHT: _right_cutting(r"\d+"),
    pretokenizers.WHOLE_DIGITS_FROM_RIGHT: _right_grouping(rf"\d+((?!{_WORD}))?"),
}
