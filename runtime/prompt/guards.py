"""Filters as templates call them: charged before, marked after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from ggufc.runtime.prompt.errors import TemplateLimitError
from ggufc.runtime.prompt.limits import LONGEST_PADDING, charge_text, tick
from ggufc.runtime.prompt.marked import Marked
from ggufc.runtime.prompt.operators import stepwise
from ggufc.runtime.prompt.sources import weakest
from ggufc.runtime.prompt.values import checked_integer, marked_number, survey

Function = Callable[..., Any]


def guarded(function: Function, *, deep: bool = False, number: bool = False) -> Function:
    """The filter `function` as templates call it.

    `deep` says that it compares, hashes or prints what is in its arguments: a visit of all of them
    is charged for first. A plain string that it returns is marked as the least trusted of the
    arguments, a number too if `number` says that it is made from them; a generator takes a step
    for each item.
    """
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tick()
        given = (*args[skipped:], *kwargs.values())
        if deep:
            weakest_of(given)
        result = function(*args, **kwargs)
        if isinstance(result, Marked):
            return result
        if isinstance(result, str):
            charge_text(len(result))
            return Marked(result, weakest_of(given))
        if isinstance(result, Iterator):
            return stepwise(result)
        if number and isinstance(result, int | float):
            return marked_number(checked_integer(result), weakest_of(given))
        return result

    return call


def weakest_of(values: Iterable[Any]) -> str:
    """The mark of all that is in these values; the visit is charged for."""
    return weakest([survey(value) for value in values])


def listed(function: Function) -> Function:
    """`function`, with a list in place of a generator as its value: it compares the items or
    keeps them all, so that they have to be visited before."""
    place = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(args[place], Iterator):
            args = (*args[:place], list(stepwise(args[place])), *args[place + 1 :])
        return function(*args, **kwargs)

    return call


def small(function: Function) -> Function:
    """`function` for texts and numbers of at most LONGEST_PADDING: filters that no prompt needs
    on more, and that may take long."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            size = len(value) if isinstance(value, str) else value
            if isinstance(size, int) and not -LONGEST_PADDING <= size <= LONGEST_PADDING:
                name = function.__name__.removeprefix("sync_").removeprefix("do_")
                raise TemplateLimitError(
                    f"filter {name} is given {size}, allowed are {LONGEST_PADDING}"
                )
        return function(*args, **kwargs)

    return call
