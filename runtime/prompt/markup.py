"""Text that a template called safe: what is joined to it is escaped for HTML.

Prompts are no HTML, but jinja2 escapes around the results of `safe` and `escape`, and models were
trained on what it wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Self

from ggufc.runtime.prompt.limits import charge_items, charge_text
from ggufc.runtime.prompt.marked import BYTES_PER_PIECE, Marked, full_marks, joined, marks_of, plain

_RUN = re.compile(r"(.)\1*", re.DOTALL)
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}


def escaped(text: str) -> SafeMarked:
    """The text with the five characters of HTML replaced, unless it is safe already."""
    if isinstance(text, SafeMarked):
        return text
    if len(marks_of(text)) == 1:
        charge_text(len(text))
        return SafeMarked(escape(plain(text)), marks_of(text))
    runs = [(run.start(), run.end(), run[1]) for run in _RUN.finditer(full_marks(text))]
    whole = joined([Marked(escape(plain(text)[start:end]), mark) for start, end, mark in runs])
    return SafeMarked(plain(whole), marks_of(whole))


def escape(text: str) -> str:
    """A plain text with the five characters of HTML replaced."""
    for char, entity in _ESCAPES.items():
        text = text.replace(char, entity)
    return text


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
        charge_items(BYTES_PER_PIECE // 8 * len(self))
        return map(Marked, str.__iter__(self), full_marks(self))

    def __str__(self) -> str:
        return Marked(plain(self), self._marks)

    def __repr__(self) -> str:
        return f"Markup({str.__repr__(self)})"
