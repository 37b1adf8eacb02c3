"""The plain reference of chat templates: jinja2 set up as transformers does, without marks or
limits. Independent of ours but for jinja2 itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

PINNED = datetime(2025, 3, 9, 13, 5, 7)


class Generation(Extension):
    """The block that marks what the assistant says."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse up to the end tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_call"), [], [], body).set_lineno(line)

    def _call(self, caller: Any) -> Any:
        return caller()


def raise_exception(message: str) -> NoReturn:
    """What templates call to refuse a conversation."""
    raise TemplateError(message)


def tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    """JSON without escapes for HTML."""
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def reference_environment(*, mutable: bool = False) -> SandboxedEnvironment:
    """The environment; `mutable` lets templates change lists."""
    kind = SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment
    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = PINNED.strftime
    return environment


def reference_render(template: str, variables: Mapping[str, Any], *, mutable: bool = False) -> str:
    """What the reference writes. Raises whatever it raises."""
    return reference_environment(mutable=mutable).from_string(template).render(**variables)
