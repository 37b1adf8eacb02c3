"""Filters and tests as templates call them: charged before, marked after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from ggufc.runtime.prompt.errors import TemplateLimitError
from ggufc.runtime.prompt.limits import LONGEST_PADDING, charge_text
from ggufc.runtime.prompt.marked import Marked
from ggufc.runtime.prompt.operators import stepwise
from ggufc.runtime.prompt.sources import weakest
from ggufc.runtime.prompt.values import checked_integer, marked_number, survey

Function = Callable[..., Any]


def guarded(function: Function, *, number: bool = False) -> Function:
    """The filter or test `function`, with a visit of all its arguments charged for first.

    A plain string that it returns is marked as the least trusted of the arguments, a number too
    if `number` says that it is made from them; a generator takes a step for each item.
    """
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        marks = [survey(value) for value in (*args[skipped:], *kwargs.values())]
        result = function(*args, **kwargs)
        if isinstance(result, Marked):
            return result
        if isinstance(result, str):
            charge_text(len(result))
            return Marked(result, weakest(marks))
        if isinstance(result, Iterator):
            return stepwise(result)
        if number and isinstance(result, int | float):
            return marked_number(checked_integer(result), weakest(marks))
        return result

    return call


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
