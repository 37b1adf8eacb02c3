"""Who wrote a piece of text: the template, the request, or the assistant in an earlier turn.

A *mark* is one character that stands for one source, so that marks of a text are themselves a text
of the same length, and slicing, joining and repeating marks is slicing, joining and repeating
strings. U+0000 is text of unknown origin, which counts as the request's; U+0001 the template's;
even code points are strings of the request, odd ones strings of the assistant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

UNKNOWN = "\0"
TEMPLATE = "\1"


class Author(StrEnum):
    """Who wrote something."""

    TEMPLATE = "template"
    REQUEST = "request"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Source:
    """One string: who wrote it, where it stands in the request, and what it says there."""

    author: Author
    path: str
    text: str = ""


_UNKNOWN_SOURCE = Source(Author.REQUEST, "(unknown)")
_TEMPLATE_SOURCE = Source(Author.TEMPLATE, "")


def author_of(mark: str) -> Author:
    """The author that a mark stands for."""
    if mark == TEMPLATE:
        return Author.TEMPLATE
    return Author.ASSISTANT if ord(mark) & 1 else Author.REQUEST


def weakest(marks: Iterable[str]) -> str:
    """The mark of text that comes from all of these: the request's if any of them is, else the
    assistant's, else the template's."""
    found = TEMPLATE
    for mark in marks:
        if not ord(mark) & 1:
            return mark
        if mark != TEMPLATE:
            found = mark
    return found


class SourceTable:
    """All strings of one request, and the mark of each."""

    def __init__(self) -> None:
        self._sources = {UNKNOWN: _UNKNOWN_SOURCE, TEMPLATE: _TEMPLATE_SOURCE}
        self._next = {Author.REQUEST: 2, Author.ASSISTANT: 3}

    def add(self, author: Author, path: str, text: str = "") -> str:
        """The mark of a new string. When there are no more marks it is UNKNOWN."""
        if author is Author.TEMPLATE:
            return TEMPLATE
        code = self._next[author]
        if code > sys.maxunicode:
            return UNKNOWN
        self._next[author] = code + 2
        self._sources[chr(code)] = Source(author, path, text)
        return chr(code)

    def __getitem__(self, mark: str) -> Source:
        return self._sources[mark]

    def __iter__(self) -> Iterator[Source]:
        """The strings of the request and of the assistant, in the order they were added."""
        return (s for s in self._sources.values() if s.path and s is not _UNKNOWN_SOURCE)
