"""A rendered prompt: its text, and who wrote each part of it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ggufc.runtime.prompt.marked import Marked, full_marks, plain
from ggufc.runtime.prompt.sources import Author, Source, SourceTable

_RUN = re.compile(r"(.)\1*", re.DOTALL)


@dataclass(frozen=True)
class Span:
    """text[start:stop] comes from one source."""

    start: int
    stop: int
    source: Source

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Rendered:
    """The text of a prompt; `sources` tells who wrote each character, and holds all strings of
    the request; `media` are paths and kinds of parts that are no text."""

    marked: Marked
    sources: SourceTable
    media: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The characters alone."""
        return plain(self.marked)

    def spans(self) -> Iterator[Span]:
        """The text from its beginning to its end, in pieces of one source each."""
        return iter(self._spans)

    @cached_property
    def _spans(self) -> list[Span]:
        runs = _RUN.finditer(full_marks(self.marked))
        return [Span(run.start(), run.end(), self.sources[run[1]]) for run in runs]

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self._spans]

    def mask(self, *authors: Author) -> bytes:
        """One byte a character: 1 where one of `authors` wrote it, else 0."""
        return b"".join(
            (b"\1" if span.source.author in authors else b"\0") * len(span) for span in self.spans()
        )

    def paths(self, start: int, stop: int) -> list[str]:
        """The paths of the request's strings that wrote text[start:stop], in order."""
        first = bisect_right(self._starts, start) - 1
        covering = self._spans[max(first, 0) : bisect_left(self._starts, stop)]
        return list(
            dict.fromkeys(s.source.path for s in covering if s.source.author != Author.TEMPLATE)
        )

    def cut(self, stop: int, *, strip: bool = False) -> Rendered:
        """The text before `stop`, without the white space at its end if `strip`."""
        part = self.marked[:stop]
        return Rendered(part.rstrip() if strip else part, self.sources, self.media)
