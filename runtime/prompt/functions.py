"""The functions that chat templates may call: what transformers offers, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

from jinja2.utils import Cycler, Joiner, Namespace

from ggufc.runtime.prompt.errors import (
    TemplateLimitError,
    TemplateRefusal,
    TemplateSecurityError,
)
from ggufc.runtime.prompt.limits import LARGEST_RANGE, LONGEST_PADDING, charge_items
from ggufc.runtime.prompt.marked import Marked, plain, weakest_mark
from ggufc.runtime.prompt.operators import iterate
from ggufc.runtime.prompt.sources import TEMPLATE
from ggufc.runtime.prompt.values import Holder, survey, text_of

LONGEST_FORMAT = 256
LONGEST_REFUSAL = 2000

clock: ContextVar[datetime | None] = ContextVar("prompt_clock", default=None)
"""The time that `strftime_now` tells; None: now."""


class TemplateNamespace(Namespace, Holder):
    """`namespace(...)`: values that survive the end of a loop. Names with an underscore in front
    are refused."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, args = args[0], args[1:]
        values = dict(*map(_dictionary_source, args), **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    def _held(self) -> Iterable[Any]:
        values: dict[str, Any] = object.__getattribute__(self, "_Namespace__attrs")
        return values.values()


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise TemplateSecurityError(f"a namespace may not hold {name!r}: it begins with _")


class TemplateDict:
    """`dict(...)`, without being the class itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """A dictionary of pairs or of another dictionary, and of keywords."""
        return dict(*map(_dictionary_source, args), **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        """A dictionary with the same value for all keys."""
        return dict.fromkeys(_dictionary_source(keys), value)


def _dictionary_source(value: Any) -> Any:
    """Pairs or keys as a list that has been charged for, since they will be hashed."""
    if isinstance(value, Mapping):
        return value
    items = list(iterate(value))
    survey(items)
    return items


def bounded_range(*args: int) -> range:
    """`range(...)`, of at most LARGEST_RANGE numbers."""
    numbers = range(*map(int, args)) if all(isinstance(a, int) for a in args) else range(*args)
    try:
        count = len(numbers)
    except OverflowError:
        count = LARGEST_RANGE + 1
    if count > LARGEST_RANGE:
        raise TemplateLimitError(
            f"the template asks for a range of more than {LARGEST_RANGE} numbers"
        )
    charge_items(1)
    return numbers


def raise_exception(message: Any) -> NoReturn:
    """Refuse the conversation, in the template's own words."""
    raise TemplateRefusal(plain(text_of(message))[:LONGEST_REFUSAL])


def strftime_now(format: str) -> str:
    """The time as `format` says."""
    if not isinstance(format, str):
        raise TypeError(f"strftime_now expects a format string, not {type(format).__name__}")
    if len(format) > LONGEST_FORMAT:
        raise TemplateLimitError(
            f"strftime_now: the format has {len(format)} characters, allowed are {LONGEST_FORMAT}"
        )
    moment = clock.get() or datetime.now()
    text = moment.strftime(plain(format))
    if len(text) > LONGEST_PADDING:
        raise TemplateLimitError(f"strftime_now: the result is longer than {LONGEST_PADDING}")
    return Marked(text, weakest_mark(format))


class TemplateJoiner(Joiner):
    """`joiner(sep)`: nothing the first time, then the separator."""

    def __init__(self, sep: str = Marked(", ", TEMPLATE)) -> None:
        super().__init__(sep)


GLOBALS: dict[str, Any] = {
    "range": bounded_range,
    "dict": TemplateDict(),
    "cycler": Cycler,
    "joiner": TemplateJoiner,
    "namespace": TemplateNamespace,
    "raise_exception": raise_exception,
    "strftime_now": strftime_now,
}
