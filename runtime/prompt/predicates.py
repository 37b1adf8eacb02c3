"""The tests of templates (`x is y`): jinja2's, charged before."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from jinja2.tests import TESTS as JINJA

from ggufc.runtime.prompt.guards import Function, guarded
from ggufc.runtime.prompt.operators import compare
from ggufc.runtime.prompt.values import text_of

_COMPARISONS = {
    "eq": ("eq", "==", "equalto"),
    "ne": ("ne", "!="),
    "gt": ("gt", ">", "greaterthan"),
    "gteq": ("ge", ">="),
    "lt": ("lt", "<", "lessthan"),
    "lteq": ("le", "<="),
    "in": ("in",),
}


def _is_lower(value: Any) -> bool:
    return text_of(value).islower()


def _is_upper(value: Any) -> bool:
    return text_of(value).isupper()


TESTS: dict[str, Function] = {
    **{name: cast(Function, test) for name, test in JINJA.items()},
    **{name: guarded(cast(Function, JINJA[name]), deep=True) for name in ("filter", "test")},
    **{n: partial(compare, operator) for operator, names in _COMPARISONS.items() for n in names},
    "lower": guarded(_is_lower, deep=True),
    "upper": guarded(_is_upper, deep=True),
}
