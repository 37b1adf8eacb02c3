"""The sandbox that templates run in: which attributes, calls and globals there are."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from ggufc.runtime.prompt.codegen import PromptCodeGenerator
from ggufc.runtime.prompt.emitted import TemplateList
from ggufc.runtime.prompt.errors import TemplateSecurityError
from ggufc.runtime.prompt.filters import FILTERS
from ggufc.runtime.prompt.formatting import BraceFormatter
from ggufc.runtime.prompt.functions import (
    GLOBALS,
    TemplateDict,
    TemplateJoiner,
    TemplateNamespace,
)
from ggufc.runtime.prompt.limits import active, charge
from ggufc.runtime.prompt.marked import Marked, joined, marks_of
from ggufc.runtime.prompt.operators import binary, unary
from ggufc.runtime.prompt.predicates import TESTS
from ggufc.runtime.prompt.values import JsonText, survey

# What templates may reach of each type. Anything else that an object has is refused.
_ATTRIBUTES: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize casefold center count endswith expandtabs find format format_map index isalnum "
        "isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
        "istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title "
        "translate upper zfill".split()
    ),
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    TemplateList: frozenset({"append", "copy", "count", "index", "pop"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "grouper", "index", "list"}),
    int: frozenset({"bit_length", "is_integer"}),
    float: frozenset({"is_integer"}),
    range: frozenset({"count", "index", "start", "step", "stop"}),
    LoopContext: frozenset(
        "changed cycle depth depth0 first index index0 last length nextitem previtem revindex "
        "revindex0".split()
    ),
    Macro: frozenset({"arguments", "caller", "catch_kwargs", "catch_varargs", "name"}),
    Cycler: frozenset({"current", "items", "next", "pos", "reset"}),
    Joiner: frozenset({"sep", "used"}),
    TemplateDict: frozenset({"fromkeys"}),
    BlockReference: frozenset({"name", "super"}),
}
_OF_DICTIONARIES = frozenset(dir(dict))
_MAPPING_METHODS = frozenset({"items", "keys", "values", "get"})
_INTERNAL_KEYWORDS = frozenset({"_loop_vars", "_block_vars"})


def _allowed(kind: type) -> frozenset[str]:
    """The attributes of a type that templates may reach: its own, or its nearest base's."""
    return next((_ATTRIBUTES[base] for base in kind.__mro__ if base in _ATTRIBUTES), frozenset())


class PromptUndefined(Undefined):
    """A value that is not there. Its messages call our types by the names of Python's."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    def __hash__(self) -> int:
        return id(PromptUndefined)


PromptUndefined.__name__ = "Undefined"


class GenerationBlock(Extension):
    """`{% generation %}`: marks what the assistant says for training; renders as a call block."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the block up to `{% endgeneration %}`."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Callable[[], str]) -> str:
        return caller()


class PromptEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox as transformers sets it up, with marks, limits and a list of
    what may be reached. One serves all templates and threads."""

    code_generator_class = PromptCodeGenerator
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})
    intercepted_unops = frozenset({"+", "-"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            undefined=PromptUndefined,
            extensions=[GenerationBlock, LoopControlExtension],
        )
        self.globals = dict(GLOBALS)
        self.filters = dict(FILTERS)
        self.tests = dict(TESTS)

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """The text of a macro, a call or a set block."""
        return joined([_as_text(piece) for piece in pieces])

    # Attributes and items

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute`: the attribute first, then the item. Raises TemplateSecurityError for
        one that exists but is not listed."""
        if type(obj) is dict and attribute not in _OF_DICTIONARIES:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if isinstance(obj, Namespace):
            return self._namespace_item(obj, attribute)
        if isinstance(obj, Undefined):
            obj._fail_with_undefined_error()
        if self._has(obj, attribute):
            return self._attribute(obj, attribute)
        if attribute.startswith("__") and not isinstance(obj, dict):
            raise _unsafe(obj, attribute)
        try:
            return self._item(obj, attribute)
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]`: the item first, then the attribute."""
        if not isinstance(argument, str):
            survey(argument)
        try:
            return self._item(obj, argument)
        except (TypeError, LookupError):
            if isinstance(argument, str):
                if isinstance(obj, Namespace):
                    return self._namespace_item(obj, argument)
                if self._has(obj, argument):
                    return self._attribute(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def _item(self, obj: Any, key: Any) -> Any:
        if isinstance(obj, JsonText) and isinstance(key, str):
            return obj.mapping()[key]
        return obj[key]

    def _namespace_item(self, obj: Namespace, name: str) -> Any:
        _check_name(obj, name)
        try:
            return getattr(obj, name)
        except AttributeError:
            return self.undefined(obj=obj, name=name)

    def _has(self, obj: Any, name: str) -> bool:
        if isinstance(obj, JsonText) and name in _MAPPING_METHODS:
            return True
        return hasattr(type(obj), name) or name in getattr(obj, "__dict__", ())

    def _attribute(self, obj: Any, name: str) -> Any:
        """An attribute that is there."""
        if isinstance(obj, JsonText) and name in _MAPPING_METHODS:
            return getattr(obj.mapping(), name)
        if name not in _allowed(type(obj)) and not isinstance(obj, Undefined):
            raise _unsafe(obj, name)
        if isinstance(obj, str):
            return self._text_attribute(obj, name)
        return getattr(obj, name)

    def _text_attribute(self, obj: str, name: str) -> Any:
        charge(1 + (len(obj) >> 6))
        text = obj if isinstance(obj, Marked) else Marked(obj)
        if name not in ("format", "format_map"):
            return getattr(text, name)
        formatter = BraceFormatter(self.getattr, self.getitem, text._operand)

        def format(*args: Any, **kwargs: Any) -> str:
            whole = formatter.format(text, args, kwargs)
            return text._like(str.__str__(whole), marks_of(whole))

        def format_map(mapping: Mapping[str, Any], /) -> str:
            return format(**mapping)

        return format if name == "format" else format_map

    # Operators and calls

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An arithmetic operator."""
        return binary(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        """A sign."""
        return unary(operator, arg)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call from the template, one step and one level deep."""
        budget = active()
        budget.enter()
        try:
            if not isinstance(obj, Macro):
                _charge_arguments(args, kwargs)
            return super().call(context, obj, *args, **kwargs)
        finally:
            budget.leave()

    def _filter_test_common(self, name: Any, *args: Any, **kwargs: Any) -> Any:
        """A filter or test that another filter was given by name."""
        survey(name)
        return super()._filter_test_common(name, *args, **kwargs)

    def is_safe_callable(self, obj: Any) -> bool:
        """Only what the environment itself hands out is called."""
        return not isinstance(obj, type) or obj in _CALLABLE_TYPES


_CALLABLE_TYPES = (TemplateNamespace, Cycler, TemplateJoiner)


def _charge_arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    """Take the steps of a visit of the arguments: methods of containers compare or hash them."""
    for value in args:
        survey(value)
    for name, value in kwargs.items():
        if name not in _INTERNAL_KEYWORDS:
            survey(value)


def _as_text(piece: Any) -> Any:
    """A piece of output: a marked text without the safety of HTML; anything else as it is."""
    return piece.__str__() if isinstance(piece, Marked) else piece


def _check_name(obj: Any, name: str) -> None:
    if name.startswith("_"):
        raise _unsafe(obj, name)


def _unsafe(obj: Any, name: str) -> TemplateSecurityError:
    kind = type(obj).__name__
    if isinstance(obj, str | dict | list | tuple | int | float):
        kind = next(t.__name__ for t in type(obj).__mro__ if t.__module__ == "builtins")
    elif isinstance(obj, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        kind = "function"
    return TemplateSecurityError(f"access to attribute {name!r} of {kind!r} object is not allowed")
