"""`str.format` on marked text, with every field looked up through the sandbox."""

from __future__ import annotations

import re
from _string import (  # type: ignore[import-not-found]
    formatter_field_name_split,
    formatter_parser,
)
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ggufc.runtime.prompt.limits import charge_text, check_padding
from ggufc.runtime.prompt.marked import Marked, joined, plain, weakest_mark
from ggufc.runtime.prompt.sources import weakest
from ggufc.runtime.prompt.values import mark_of, text_of

Lookup = Callable[[Any, Any], Any]

_DEEPEST_SPEC = 2
_NUMBER = re.compile(r"\d+")


class BraceFormatter:
    """`str.format`: `attribute(object, name)` and `item(object, key)` look up what a field names,
    `operand` is applied to the text of each value."""

    def __init__(self, attribute: Lookup, item: Lookup, operand: Callable[[str], str]) -> None:
        self._attribute = attribute
        self._item = item
        self._operand = operand

    def format(
        self, template: Marked, args: Sequence[Any], kwargs: Mapping[str, Any], depth: int = 0
    ) -> Marked:
        """The template with its fields replaced. What the template itself says is marked as a
        whole, since braces that are written twice count once."""
        if depth >= _DEEPEST_SPEC:
            raise ValueError("Max string recursion exceeded")
        own = weakest_mark(template)
        pieces: list[str] = []
        numbered = _Numbering()
        for literal, field, spec, conversion in formatter_parser(plain(template)):
            pieces.append(Marked(literal, own))
            if field is None:
                continue
            value = self._value(numbered(field), args, kwargs)
            nested = self.format(Marked(spec, own), args, kwargs, depth + 1) if spec else spec
            pieces.append(self._operand(_converted(value, conversion, nested)))
        return joined(pieces)

    def _value(self, field: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        first, rest = formatter_field_name_split(field)
        if isinstance(first, int):
            if first >= len(args):
                raise IndexError(
                    f"Replacement index {first} out of range for positional args tuple"
                )
            value = args[first]
        else:
            value = kwargs[first]
        for is_attribute, name in rest:
            value = (self._attribute if is_attribute else self._item)(value, name)
        return value


class _Numbering:
    """Gives fields without a number the next one."""

    def __init__(self) -> None:
        self._next: int | None = 0

    def __call__(self, field: str) -> str:
        name = re.split(r"[.\[]", field, maxsplit=1)[0]
        if name and not name.isdigit():
            return field
        if name:
            if self._next:
                raise ValueError(
                    "cannot switch from automatic field numbering to manual field specification"
                )
            self._next = None
            return field
        if self._next is None:
            raise ValueError(
                "cannot switch from manual field specification to automatic field numbering"
            )
        self._next += 1
        return f"{self._next - 1}{field}"


def _converted(value: Any, conversion: str | None, spec: str) -> Marked:
    """The text of a value after `!r`, `!s` or `!a`, formatted as `spec` says."""
    if conversion in (None, "s") and not spec:
        return text_of(value)
    mark = mark_of(value)
    if conversion is not None:
        conversions = {"s": text_of, "r": repr, "a": ascii}
        if conversion not in conversions:
            raise ValueError(f"Unknown conversion specifier {conversion!s}")
        value = conversions[conversion](value)
    for number in _NUMBER.findall(plain(spec)):
        check_padding(int(number[:12]))
        charge_text(int(number))
    text = format(plain(value) if isinstance(value, str) else value, plain(spec))
    return Marked(text, weakest((mark, weakest_mark(spec) if spec else mark)))
