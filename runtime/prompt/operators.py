"""Operators of templates: Python's, with their cost charged before and numbers kept marked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from ggufc.runtime.prompt.errors import TemplateLimitError
from ggufc.runtime.prompt.limits import (
    LARGEST_INTEGER_BITS,
    charge,
    charge_items,
    charge_text,
    tick,
)
from ggufc.runtime.prompt.sources import weakest
from ggufc.runtime.prompt.values import CONTAINERS, JsonText, checked_integer, marked_number, survey

Binary = Callable[[Any, Any], Any]

_COMPARE: dict[str, Binary] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}


def compare(name: str, left: Any, right: Any) -> Any:
    """`left op right`, `name` as jinja2's syntax tree calls the operator."""
    if isinstance(left, str) and isinstance(right, str):
        charge(1 + (len(right) >> 6))
    elif name in ("in", "notin"):
        _charge_search(left, right)
    elif isinstance(left, CONTAINERS) and isinstance(right, CONTAINERS):
        survey(left)
        survey(right)
    else:
        tick()
    return _COMPARE[name](left, right)


def _charge_search(wanted: Any, place: Any) -> None:
    """Take the steps of looking for a value in a container or text: for one without parts, only
    the length counts."""
    if isinstance(wanted, CONTAINERS) or isinstance(place, str):
        survey(place)
    elif isinstance(place, list | tuple):
        charge(len(place) >> 2)
    survey(wanted)


def compare_chain(left: Any, *rest: Any) -> Any:
    """`left op right op right ...`: `rest` alternates names and functions that give the values."""
    result: Any = True
    for name, operand in zip(rest[::2], rest[1::2], strict=True):
        right = operand()
        result = compare(name, left, right)
        if not result:
            return result
        left = right
    return result


def binary(name: str, left: Any, right: Any) -> Any:
    """`left name right` for an arithmetic operator."""
    tick()
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _arithmetic(name, left, right)
    if name == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
        charge_items(len(left) + len(right))
    if name == "*":
        _check_repetition(left, right)
    return _OPERATORS[name](left, right)


def unary(name: str, value: Any) -> Any:
    """`name value` for a sign."""
    result = operator.neg(value) if name == "-" else operator.pos(value)
    return marked_number(result, survey(value)) if isinstance(value, int | float) else result


_OPERATORS: dict[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "**": operator.pow,
    "%": operator.mod,
}


def _arithmetic(name: str, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_size(name, left, right)
    result = checked_integer(_OPERATORS[name](left, right))
    if not isinstance(result, int | float):
        raise TypeError(f"{name} gives a complex number")
    return marked_number(result, weakest((survey(left), survey(right))))


def _check_size(name: str, left: int, right: int) -> None:
    """Refuse a product or power before it is computed. Raises TemplateLimitError."""
    if name == "*":
        bits = left.bit_length() + right.bit_length()
    elif name == "**":
        bits = left.bit_length() * max(right, 0) if abs(left) > 1 else 1
    else:
        return
    if bits > 2 * LARGEST_INTEGER_BITS:
        raise TemplateLimitError(
            f"the template makes an integer of about {bits} bits, "
            f"allowed are {LARGEST_INTEGER_BITS}"
        )


def _check_repetition(left: Any, right: Any) -> None:
    for items, count in ((left, right), (right, left)):
        if isinstance(items, list | tuple) and isinstance(count, int):
            charge_items(len(items) * max(count, 0))


def slice_of(value: Any, part: slice) -> Any:
    """`value[a:b:c]`."""
    tick()
    if isinstance(value, str):
        charge_text(len(value))
    elif isinstance(value, list | tuple):
        charge_items(len(range(*part.indices(len(value)))))
    return value[part]


def iterate(value: Any) -> Any:
    """What a `for` goes through, with a step charged for each item: `value` itself where its
    length is known."""
    if isinstance(value, JsonText):
        value = value.mapping()
    if isinstance(value, str):
        return value
    try:
        count = len(value)
    except TypeError:
        return stepwise(iter(value))
    charge_items(count)
    return value


def stepwise(items: Iterator[Any]) -> Iterator[Any]:
    """The items, a step each."""
    for item in items:
        tick()
        yield item
