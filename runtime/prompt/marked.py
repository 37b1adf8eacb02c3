"""Text that knows, for every character, who wrote it.

`Marked` is a `str` whose methods and operators keep the marks. What an operation adds by itself
(padding, the text of a number) counts as written by the least trusted of its operands, and any
plain `str` that meets a `Marked` counts as written by the request: whatever loses its marks is
never taken for the template's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, SupportsIndex

from ggufc.runtime.prompt.limits import charge, charge_items, charge_text, check_padding
from ggufc.runtime.prompt.sources import TEMPLATE, UNKNOWN, weakest

BYTES_PER_PIECE = 96
"""About what a short `Marked` takes."""


def plain(text: str) -> str:
    """The characters alone, as an exact `str`."""
    return str.__str__(text)


def marks_of(text: str) -> str:
    """The marks of a text: one for all of it, or one a character."""
    return text._marks if isinstance(text, Marked) else UNKNOWN


def full_marks(text: str) -> str:
    """The marks of a text, one a character."""
    marks = marks_of(text)
    return marks if len(marks) == len(text) else marks * len(text)


def weakest_mark(*texts: str) -> str:
    """The mark of what comes from all of these texts; empty ones say nothing."""
    return weakest(mark for text in texts if text for mark in set(marks_of(text)))


def common_mark(pieces: Iterable[str]) -> str | None:
    """The single mark that all of these pieces have, None where they differ."""
    found = {marks_of(piece) for piece in pieces if piece}
    if not found:
        return TEMPLATE
    only = found.pop()
    return only if not found and len(only) == 1 else None


def join_marks(pieces: Sequence[str]) -> str:
    """The marks of pieces end to end."""
    return common_mark(pieces) or "".join(map(full_marks, pieces))


def joined(pieces: Sequence[str]) -> Marked:
    """Pieces end to end, in time linear in the result."""
    charge_text(sum(map(len, pieces)))
    return Marked("".join(pieces), join_marks(pieces))


class Marked(str):
    """A text and its marks: one mark for the whole text, or one a character."""

    __slots__ = ("_marks",)
    _marks: str

    def __new__(cls, text: str, marks: str = UNKNOWN) -> Self:
        """`marks` is as long as the text, or a single mark."""
        made = super().__new__(cls, text)
        made._marks = marks
        return made

    def _like(self, text: str, marks: str) -> Self:
        """A result of an operation on this text."""
        return type(self)(text, marks)

    def _operand(self, text: str) -> str:
        """Another text as it takes part in an operation on this one."""
        return text

    def _cut(self, start: int, stop: int) -> Self:
        """The characters from `start` to `stop`, both inside the text."""
        charge(1 + (len(self) >> 6))
        marks = self._marks
        part = str.__getitem__(self, slice(start, stop))
        return self._like(part, marks if len(marks) == 1 else marks[start:stop])

    def __str__(self) -> str:
        return self

    # One text from several

    def __add__(self, other: str) -> Self:
        if isinstance(other, str):
            return self._concatenated(self, self._operand(other))
        if hasattr(type(other), "__radd__") and not isinstance(other, int | float):
            return NotImplemented
        raise TypeError(f'can only concatenate str (not "{type(other).__name__}") to str')

    def __radd__(self, other: str) -> Self:
        if not isinstance(other, str):
            return NotImplemented
        return self._concatenated(self._operand(other), self)

    def _concatenated(self, *pieces: str) -> Self:
        charge_text(sum(map(len, pieces)))
        return self._like("".join(pieces), join_marks(pieces))

    def __mul__(self, count: SupportsIndex) -> Self:
        if not hasattr(count, "__index__"):
            return NotImplemented
        times = max(count.__index__(), 0)
        charge_text(len(self) * times)
        marks = self._marks
        return self._like(plain(self) * times, marks if len(marks) == 1 else marks * times)

    __rmul__ = __mul__

    def join(self, items: Iterable[str], /) -> Self:
        pieces = [self._operand(item) if isinstance(item, str) else item for item in items]
        lengths = sum(len(piece) for piece in pieces if isinstance(piece, str))
        charge_text(lengths + len(self) * max(len(pieces) - 1, 0))
        charge_items(len(pieces))
        text = str.join(self, pieces)
        shared = common_mark([*pieces, self] if len(pieces) > 1 else pieces)
        return self._like(text, shared or full_marks(self).join(map(full_marks, pieces)))

    def __mod__(self, values: Any) -> Self:
        from ggufc.runtime.prompt.printf import format_percent

        return self._like(*format_percent(self, values, self._operand))

    # Parts of the text

    def __getitem__(self, key: SupportsIndex | slice) -> Self:
        part = str.__getitem__(self, key)
        marks = self._marks
        return self._like(part, marks if len(marks) == 1 else marks[key])

    def __iter__(self) -> Iterator[Self]:
        charge_items(BYTES_PER_PIECE // 8 * len(self))
        return map(self._like, str.__iter__(self), full_marks(self))

    def strip(self, chars: str | None = None, /) -> Self:
        start = len(self) - len(str.lstrip(self, chars))
        return self._cut(start, max(len(str.rstrip(self, chars)), start))

    def lstrip(self, chars: str | None = None, /) -> Self:
        return self._cut(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> Self:
        return self._cut(0, len(str.rstrip(self, chars)))

    def removeprefix(self, prefix: str, /) -> Self:
        return self._cut(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> Self:
        return self._cut(0, len(str.removesuffix(self, suffix)))

    def partition(self, sep: str, /) -> tuple[Self, Self, Self]:
        left, _, right = str.partition(self, sep)
        return self._three(len(left), len(self) - len(right))

    def rpartition(self, sep: str, /) -> tuple[Self, Self, Self]:
        left, _, right = str.rpartition(self, sep)
        return self._three(len(left), len(self) - len(right))

    def _three(self, first: int, second: int) -> tuple[Self, Self, Self]:
        return self._cut(0, first), self._cut(first, second), self._cut(second, len(self))

    def split(  # type: ignore[override]
        self, /, sep: str | None = None, maxsplit: SupportsIndex = -1
    ) -> list[Self]:
        return self._located(str.split(self, sep, maxsplit), None if sep is None else len(sep))

    def rsplit(  # type: ignore[override]
        self, /, sep: str | None = None, maxsplit: SupportsIndex = -1
    ) -> list[Self]:
        return self._located(str.rsplit(self, sep, maxsplit), None if sep is None else len(sep))

    def splitlines(self, /, keepends: bool = False) -> list[Self]:  # type: ignore[override]
        lines = self._located(str.splitlines(self, keepends=True), 0)
        if keepends:
            return lines
        return [line._cut(0, len(str.splitlines(line)[0])) for line in lines]

    def _located(self, pieces: list[str], gap: int | None) -> list[Self]:
        """Pieces of this text, in their order, with their marks. Between two of them are `gap`
        characters, or white space where that is None: then no piece begins with any."""
        charge_items(BYTES_PER_PIECE // 8 * len(pieces))
        if len(self._marks) == 1:
            return [self._like(piece, self._marks) for piece in pieces]
        found, position = [], 0
        for piece in pieces:
            start = str.find(self, piece, position) if gap is None else position
            found.append(self._cut(start, start + len(piece)))
            position = start + len(piece) + (gap or 0)
        return found

    # The same text written otherwise

    def upper(self) -> Self:
        return self._recased(str.upper(self))

    def lower(self) -> Self:
        return self._recased(str.lower(self))

    def capitalize(self) -> Self:
        return self._recased(str.capitalize(self))

    def title(self) -> Self:
        return self._recased(str.title(self))

    def swapcase(self) -> Self:
        return self._recased(str.swapcase(self))

    def casefold(self) -> Self:
        return self._recased(str.casefold(self))

    def _recased(self, text: str) -> Self:
        """The text in another case. No character becomes shorter, so texts of equal length match
        character by character."""
        charge_text(len(text))
        same = len(text) == len(self) or len(self._marks) == 1
        return self._like(text, self._marks if same else weakest_mark(self))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Self:
        if not (isinstance(old, str) and isinstance(new, str)):
            return self._like(str.replace(self, old, new, count), UNKNOWN)
        new, limit = self._operand(new), count.__index__()
        found = str.count(self, old) if limit < 0 else min(str.count(self, old), limit)
        charge_text(len(self) + found * max(len(new) - len(old), 0))
        text = str.replace(self, old, new, count)
        if not found:
            return self
        if len(self._marks) == 1 and (not new or marks_of(new) == self._marks):
            return self._like(text, self._marks)
        charge_items(16 * found)
        return self._like(text, self._replaced_marks(old, new, found))

    def _replaced_marks(self, old: str, new: str, count: int) -> str:
        marks, between = full_marks(self), full_marks(new)
        if not old:
            tail = marks[count:] if count <= len(marks) else ""
            return "".join(between + mark for mark in marks[:count]) + (
                tail if count <= len(marks) else between
            )
        parts, position = [], 0
        for _ in range(count):
            start = str.find(self, old, position)
            parts.append(marks[position:start])
            position = start + len(old)
        return between.join([*parts, marks[position:]])

    def translate(self, table: Mapping[int, str | int | None], /) -> Self:  # type: ignore[override]
        charge(len(self))
        length = 0
        for char, count in Counter(str.__iter__(self)).items():
            charge_text(size := len(str.translate(char, table)))
            length += count * size
        charge_text(length)
        texts = [p for p in getattr(table, "values", tuple)() if isinstance(p, str)]
        return self._like(str.translate(self, table), weakest_mark(self, *texts))

    def expandtabs(self, /, tabsize: SupportsIndex = 8) -> Self:
        check_padding(tabsize.__index__())
        charge_text(len(self) + str.count(self, "\t") * max(tabsize.__index__(), 0))
        return self._like(str.expandtabs(self, tabsize), weakest_mark(self))

    # Padding

    def ljust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        return self._padded(str.ljust(self, self._width(width), fillchar), 0, fillchar)

    def rjust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        text = str.rjust(self, self._width(width), fillchar)
        return self._padded(text, len(text) - len(self), fillchar)

    def center(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        text = str.center(self, self._width(width), fillchar)
        left = len(text) - len(self)
        # Python puts the odd one out on the left where the width is odd too.
        left = left // 2 + (left & width.__index__() & 1)
        return self._padded(text, left, fillchar)

    def zfill(self, width: SupportsIndex, /) -> Self:
        text = str.zfill(self, self._width(width))
        return self if len(text) == len(self) else self._like(text, weakest_mark(self))

    def _width(self, width: SupportsIndex) -> int:
        check_padding(width.__index__())
        charge_text(max(width.__index__(), 0))
        return width.__index__()

    def _padded(self, text: str, left: int, fill: str) -> Self:
        added = weakest_mark(self, fill) if isinstance(fill, Marked) else weakest_mark(self)
        right = len(text) - len(self) - left
        return self._like(text, added * left + full_marks(self) + added * right)

    def format(self, /, *args: Any, **kwargs: Any) -> str:
        raise TypeError("str.format goes through the environment, which checks the fields")

    def format_map(self, mapping: Any, /) -> str:
        raise TypeError("str.format_map goes through the environment, which checks the fields")
