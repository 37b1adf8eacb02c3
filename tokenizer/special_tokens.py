"""Finding added tokens (control and user-defined ones) in text: the leftmost match first, the
longest at that place, whatever the order of the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import regex

Permit = Callable[[int, int, int], bool]

_MANY_LENGTHS = 5
_SPACE_AHEAD = regex.compile(r"\s+")
_SPACE_BEHIND = regex.compile(r"(?r)\s+")


@dataclass(frozen=True)
class Match:
    """An added token at text[start:end], white space that it takes with it included."""

    start: int
    end: int
    token: int


class AddedTokens:
    """A set of added tokens, given as (text, id), to be found in text.

    `strip`: ids to "l", "r" or "lr", the sides on which a token takes white space with it.
    Nothing is compiled but one pattern over the first two characters: sets of thousands are quick.
    """

    def __init__(self, tokens: Iterable[tuple[str, int]], strip: Mapping[int, str]) -> None:
        self._ids: dict[str, int] = {}
        for text, token in tokens:
            if text:
                self._ids.setdefault(text, token)
        self._strip = strip
        lengths: dict[str, set[int]] = {}
        for text in self._ids:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {
            head: tuple(sorted(sizes | _single(lengths, head), reverse=True))
            for head, sizes in lengths.items()
        }
        self._families = self._patterns()
        self._heads = regex.compile(_heads_pattern(self._lengths)) if self._ids else None

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, text: str, permit: Permit | None = None) -> Iterator[Match]:
        """Matches from left to right, none overlapping another.

        `permit(id, start, end)` may refuse a match; the next shorter token at that place is tried,
        then the next place.
        """
        if self._heads is None:
            return
        position = 0
        while head := self._heads.search(text, position):
            start = head.start()
            token = self.longest_at(text, start, permit)
            if token is None:
                position = start + 1
                continue
            match = self._widened(text, position, start, *token)
            yield match
            position = match.end

    def longest_at(self, text: str, start: int, permit: Permit | None) -> tuple[int, int] | None:
        """(end, id) of the longest permitted token that begins at `start`."""
        head = text[start : start + 2]
        family = self._families.get(head) if permit is None else None
        if family is not None:
            whole = family.match(text, start)
            return (whole.end(), self._ids[whole.group()]) if whole else None
        for size in self._lengths.get(head) or self._lengths.get(head[:1], ()):
            token = self._ids.get(text[start : start + size])
            if token is not None and (permit is None or permit(token, start, start + size)):
                return start + size, token
        return None

    def _patterns(self) -> dict[str, regex.Pattern[str]]:
        """One pattern for each head with many lengths (runs of white space, say): quicker than to
        try one after another."""
        found: dict[str, regex.Pattern[str]] = {}
        for head, sizes in self._lengths.items():
            if len(sizes) >= _MANY_LENGTHS:
                texts = [text for text in self._ids if text[:2] == head or text == head[:1]]
                if len(texts) <= 2 * len(sizes):
                    ordered = sorted(texts, key=len, reverse=True)
                    escaped = (regex.escape(text, literal_spaces=True) for text in ordered)
                    found[head] = regex.compile("|".join(escaped))
        return found

    def _widened(self, text: str, floor: int, start: int, end: int, token: int) -> Match:
        sides = self._strip.get(token, "")
        if "l" in sides and (space := _SPACE_BEHIND.match(text, floor, start)):
            start = space.start()
        if "r" in sides and (space := _SPACE_AHEAD.match(text, end)):
            end = space.end()
        return Match(start, end, token)

    def every(self, text: str) -> Iterator[Match]:
        """Every place where a token begins, overlapping ones too, with the longest there."""
        if self._heads is None:
            return
        for head in self._heads.finditer(text, overlapped=True):
            token = self.longest_at(text, head.start(), None)
            if token is not None:
                yield Match(head.start(), *token)


def _single(lengths: Mapping[str, set[int]], head: str) -> set[int]:
    """{1} where the first character of this head is a token too."""
    return {1} if head[:1] in lengths else set()


def _heads_pattern(heads: Iterable[str]) -> str:
    """A pattern for the first character of every possible match."""
    seconds: dict[str, set[str]] = {}
    for head in heads:
        seconds.setdefault(head[0], set()).add(head[1:])
    parts = []
    for first, rest in sorted(seconds.items()):
        tail = "".join(regex.escape(char, literal_spaces=True) for char in sorted(rest - {""}))
        one = regex.escape(first, literal_spaces=True)
        parts.append(one if "" in rest else f"{one}[{tail}]")
    return "|".join(parts)
