"""`%` on marked text: Python's printf-style formatting, conversion by conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ggufc.runtime.prompt.limits import charge_text, check_padding
from ggufc.runtime.prompt.marked import Marked, joined, marks_of, plain, weakest_mark
from ggufc.runtime.prompt.sources import weakest
from ggufc.runtime.prompt.values import mark_of, text_of

_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?"
    r"(?:\.(?P<precision>\*|\d*))?[hlL]?(?P<kind>.|\Z)",
    re.DOTALL,
)


class _Values:
    """The right side of `%`: a mapping, or values taken one after another."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._queue = list(values) if isinstance(values, tuple) else [values]
        self.keyed = False

    def keyed_value(self, key: str) -> Any:
        """The value of `%(key)s`. Raises TypeError where the right side is no mapping."""
        if not isinstance(self._values, dict):
            raise TypeError("format requires a mapping")
        self.keyed = True
        return self._values[key]

    def next(self) -> Any:
        """The next value. Raises TypeError where there is none."""
        if not self._queue:
            raise TypeError("not enough arguments for format string")
        return self._queue.pop(0)

    def check_all_used(self) -> None:
        """Raise TypeError where a value was given that nothing converts; a mapping or list may
        go unused."""
        subscripted = hasattr(type(self._values), "__getitem__")
        if subscripted and not isinstance(self._values, tuple | str):
            return
        if self._queue and not self.keyed:
            raise TypeError("not all arguments converted during string formatting")


def format_percent(template: Marked, values: Any, operand: Callable[[str], str]) -> tuple[str, str]:
    """`template % values` as text and marks. `operand` is applied to the text of each value."""
    given = _Values(values)
    pieces: list[str] = []
    position = 0
    while (start := template.find("%", position)) >= 0:
        pieces.append(template[position:start])
        match = _CONVERSION.match(plain(template), start)
        assert match is not None
        pieces.append(_converted(match, template[start], given, operand))
        position = match.end()
    pieces.append(template[position:])
    given.check_all_used()
    whole = joined(pieces)
    return plain(whole), marks_of(whole)


def _converted(
    match: re.Match[str], percent: Marked, given: _Values, operand: Callable[[str], str]
) -> str:
    """The text of one conversion."""
    kind = match["kind"]
    if not kind:
        raise ValueError("incomplete format")
    if kind == "%":
        return percent
    width, precision = _number(match["width"], given), _number(match["precision"], given)
    value = given.next() if match["key"] is None else given.keyed_value(match["key"])
    if kind == "s" and width is None and precision is None:
        return operand(text_of(value))
    if kind not in "diouxXeEfFgGcrsa":
        raise ValueError(
            f"unsupported format character {kind!r} ({ord(kind):#x}) at index {match.end() - 1}"
        )
    return _formatted(match, kind, width, precision, value, percent)


def _formatted(
    match: re.Match[str],
    kind: str,
    width: int | None,
    precision: int | None,
    value: Any,
    percent: Marked,
) -> Marked:
    """A value converted by Python; the whole of it is marked as the value is."""
    field = "" if width is None else str(width)
    digits = "" if precision is None else f".{precision}"
    charge_text(width or 0)
    mark = mark_of(value)
    if kind in "sra":
        value, kind = {"s": text_of, "r": repr, "a": ascii}[kind](value), "s"
    text = plain(f"%{match['flags']}{field}{digits}{kind}" % (value,))
    charge_text(len(text))
    return Marked(text, weakest((mark, weakest_mark(percent))))


def _number(text: str | None, given: _Values) -> int | None:
    """A width or precision, checked against the limit."""
    if text is None:
        return None
    value = given.next() if text == "*" else int(text[:12] or 0)
    if not isinstance(value, int):
        raise TypeError("* wants int")
    check_padding(value)
    return value
