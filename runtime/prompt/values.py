"""Values inside templates: numbers and JSON text of the request, and the text of any value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ggufc.runtime.prompt.errors import RequestError, TemplateLimitError
from ggufc.runtime.prompt.limits import (
    DEEPEST_NESTING,
    LARGEST_INTEGER_BITS,
    active,
    charge_text,
)
from ggufc.runtime.prompt.marked import Marked, marks_of, plain
from ggufc.runtime.prompt.sources import TEMPLATE, UNKNOWN, weakest


class Holder:
    """The base of objects that hold values and print them, besides Python's own containers."""

    def _held(self) -> Iterable[Any]:
        raise NotImplementedError


class RequestInt(int):
    """An integer of the request: its digits are not the template's."""

    mark = UNKNOWN


class RequestFloat(float):
    """A number of the request: its digits are not the template's."""

    mark = UNKNOWN


def marked_number(value: float, mark: str) -> float:
    """A number that carries a mark; the template's own stay as they are."""
    if mark == TEMPLATE or isinstance(value, bool):
        return value
    made: RequestInt | RequestFloat
    made = RequestInt(value) if isinstance(value, int) else RequestFloat(value)
    made.mark = mark
    return made


def checked_integer(value: Any) -> Any:
    """The value, unless it is an integer beyond the limit."""
    if isinstance(value, int) and value.bit_length() > LARGEST_INTEGER_BITS:
        raise TemplateLimitError(
            f"the template makes an integer of {value.bit_length()} bits, "
            f"allowed are {LARGEST_INTEGER_BITS}"
        )
    return value


_UNMARKED = frozenset({int, float, bool, type(None)})
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
CONTAINERS: tuple[type, ...] = (
    list,
    tuple,
    dict,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    Holder,
)


class JsonText(Marked):
    """The arguments of a tool call as the JSON text that APIs send.

    It is a string wherever a template takes it for one, and the object where a template takes it
    for a mapping.
    """

    __slots__ = ("_object", "_path")
    _path: str
    _object: dict[str, Any]

    @classmethod
    def at(cls, text: str, mark: str, path: str) -> JsonText:
        """The text of the request at `path`."""
        made = cls(text, mark)
        made._path = path
        return made

    def _like(self, text: str, marks: str) -> Any:
        return Marked(text, marks)

    def mapping(self) -> dict[str, Any]:
        """The object; none at all for empty text. Raises RequestError where it is no object."""
        if not hasattr(self, "_object"):
            self._object = self._parsed()
        return self._object

    def _parsed(self) -> dict[str, Any]:
        if not self.strip():
            return {}
        try:
            value = parse_json(self)
        except ValueError as error:
            raise RequestError(
                f"{self._path}: the template reads it as an object, but it is not JSON: {error}"
            ) from None
        if not isinstance(value, dict):
            kind = type(value).__name__.removeprefix("Request").lower()
            raise RequestError(
                f"{self._path}: the template reads it as an object, but it is JSON of type {kind}"
            )
        return value


def parse_json(text: str) -> Any:
    """JSON text as values, every string and number in it marked as the text is. Raises
    ValueError."""
    mark = weakest(set(marks_of(text)))
    active().charge_memory(32 * len(text))
    try:
        return _marked_copy(json.loads(plain(text)), mark, 0)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _marked_copy(value: Any, mark: str, depth: int) -> Any:
    if depth > DEEPEST_NESTING:
        raise ValueError(f"it is nested more than {DEEPEST_NESTING} deep")
    active().charge(1)
    if isinstance(value, str):
        return Marked(value, mark)
    if isinstance(value, dict):
        return {Marked(k, mark): _marked_copy(v, mark, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_marked_copy(item, mark, depth + 1) for item in value]
    if isinstance(value, int | float):
        return marked_number(checked_integer(value), mark)
    return value


def survey(value: Any) -> str:
    """Charge the steps of a full visit of a value, and return the mark of all that is in it.

    What compares, hashes, prints or searches a container visits it as a tree, however its parts
    are shared: this bounds that work before it is done. Raises TemplateLimitError.
    """
    budget = active()
    weight, mark = _visited(value, budget.known, {}, 0)
    budget.charge(weight)
    return mark


_Visits = dict[int, tuple[int, str]]


def _visited(value: Any, known: _Visits, seen: _Visits, depth: int) -> tuple[int, str]:
    """How many steps a visit of a value as a tree takes, and the mark of what is in it. `known`
    and `seen` are containers that need no second look."""
    if isinstance(value, str):
        marks = marks_of(value)
        return 1 + (len(value) >> 6), marks if len(marks) == 1 else weakest(set(marks))
    if not isinstance(value, CONTAINERS):
        return 1, getattr(value, "mark", TEMPLATE) if isinstance(value, int | float) else TEMPLATE
    found = known.get(id(value)) or seen.get(id(value))
    if found is not None:
        return found
    if depth >= DEEPEST_NESTING:
        raise TemplateLimitError(f"the template nests values more than {DEEPEST_NESTING} deep")
    weight, marks_found = 1, {TEMPLATE}
    for part in _parts(value):
        if type(part) in _UNMARKED:
            weight += 1
            continue
        steps, mark = _visited(part, known, seen, depth + 1)
        weight += steps
        marks_found.add(mark)
    seen[id(value)] = weight, weakest(marks_found)
    return seen[id(value)]


def _parts(value: Any) -> Iterable[Any]:
    """What a container holds."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return type(value)._held(value) if isinstance(value, Holder) else value


def mark_of(value: Any) -> str:
    """The mark of the text of a value that is not marked character by character."""
    if value is None or isinstance(value, bool):
        return UNKNOWN
    return survey(value)


def text_of(value: Any) -> Marked:
    """The text of a value as `str` gives it, marked; that of a container is marked as a whole."""
    if type(value) is Marked:
        return value
    if isinstance(value, Marked):
        return Marked(plain(value), value._marks)
    mark = marks_of(value) if isinstance(value, str) else mark_of(value)
    text = plain(str(value))
    if not isinstance(value, (str, int, float, *CONTAINERS)):
        text = _ADDRESS.sub("", text)
    charge_text(len(text))
    return Marked(text, mark)
