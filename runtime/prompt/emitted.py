"""What the code of compiled templates imports: this list is the contract with `codegen`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ggufc.runtime.prompt.errors import TemplateSecurityError
from ggufc.runtime.prompt.limits import charge_items, tick
from ggufc.runtime.prompt.marked import Marked, joined
from ggufc.runtime.prompt.operators import compare, compare_chain, iterate, slice_of
from ggufc.runtime.prompt.sources import TEMPLATE
from ggufc.runtime.prompt.values import survey, text_of

__all__ = [
    "TemplateList",
    "compare",
    "compare_chain",
    "constant",
    "iterate",
    "join_texts",
    "made_dict",
    "slice_of",
    "text_of",
    "tick",
]


def constant(text: str) -> Marked:
    """A string of the template."""
    return Marked(text, TEMPLATE)


def join_texts(values: Iterable[Any]) -> Marked:
    """`a ~ b ~ c`."""
    return joined([text_of(value) for value in values])


def made_dict(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dictionary that the template writes; keys that are tuples are hashed in bounded time."""
    made = {}
    for key, value in pairs:
        if not isinstance(key, str):
            survey(key)
        made[key] = value
    charge_items(len(made))
    return made


class TemplateList(list[Any]):
    """A list that the template writes. It alone may be changed, by `append` and `pop`: a template
    that keeps a queue works, and the request stays as it is."""

    def append(self, value: Any, /) -> None:
        """Add an item. Raises TemplateSecurityError where the list would contain itself."""
        charge_items(1)
        survey(value)
        if _contains(value, self):
            raise TemplateSecurityError("the template appends a list to itself")
        super().append(value)

    def pop(self, index: int = -1, /) -> Any:  # type: ignore[override]
        """Remove and return an item."""
        charge_items(len(self))
        return super().pop(index)


def _contains(value: Any, wanted: TemplateList) -> bool:
    """Whether `wanted` is `value` or lies in it."""
    if value is wanted:
        return True
    if isinstance(value, dict):
        return any(_contains(item, wanted) for item in value.values())
    return isinstance(value, list | tuple) and any(_contains(item, wanted) for item in value)
