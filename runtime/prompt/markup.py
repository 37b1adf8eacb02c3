"""Text that a template called safe: what is joined to it is escaped for HTML.

Prompts are no HTML, but jinja2 escapes around the results of `safe` and `escape`, and models were
trained on what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from ggufc.runtime.prompt.marked import Marked, full_marks, joined, marks_of, plain

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}


def escaped(text: str) -> SafeMarked:
    """The text with the five characters of HTML replaced, unless it is safe already."""
    if isinstance(text, SafeMarked):
        return text
    source = Marked(plain(text), marks_of(text))
    if not any(char in source for char in _ESCAPES):
        return SafeMarked(plain(source), marks_of(source))
    pieces = [Marked(_ESCAPES.get(plain(c), plain(c)), marks_of(c)) for c in source]
    whole = joined(pieces)
    return SafeMarked(plain(whole), marks_of(whole))


class SafeMarked(Marked):
    """A `Marked` whose operands are escaped, and whose results are safe again."""

    __slots__ = ()

    def __html__(self) -> Self:
        return self

    def _operand(self, text: str) -> str:
        return escaped(text)

    # Not merely inherited: Python asks the right operand first only if it has its own.
    def __radd__(self, other: str) -> Self:
        return super().__radd__(other)

    def __iter__(self) -> Iterator[Marked]:  # type: ignore[override]
        return map(Marked, str.__iter__(self), full_marks(self))

    def __str__(self) -> str:
        return Marked(plain(self), self._marks)

    def __repr__(self) -> str:
        return f"Markup({str.__repr__(self)})"
