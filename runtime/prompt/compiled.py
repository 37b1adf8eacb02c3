"""One template: compiled once, rendered for many conversations, within limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from types import TracebackType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.exceptions import TemplateSyntaxError as JinjaSyntaxError

from ggufc.runtime.prompt.environment import PromptEnvironment
from ggufc.runtime.prompt.errors import (
    PromptError,
    RequestError,
    TemplateError,
    TemplateLimitError,
    TemplateRefusal,
    TemplateSecurityError,
    TemplateSyntaxError,
)
from ggufc.runtime.prompt.functions import clock
from ggufc.runtime.prompt.limits import DEFAULT_LIMITS, Budget, Limits, limited
from ggufc.runtime.prompt.marked import Marked, joined

FILENAME = "<chat template>"
LONGEST_MESSAGE = 300
LONGEST_CONSTRUCT = 80

_OUR_TYPES = {
    "Marked": "str",
    "SafeMarked": "str",
    "JsonText": "str",
    "RequestInt": "int",
    "RequestFloat": "float",
    "TemplateList": "list",
    "TemplateNamespace": "Namespace",
}
_TYPE_NAME = re.compile(rf"\b(?:ggufc[\w.]*\.)?({'|'.join(_OUR_TYPES)})\b(?=['\"]| object)")
_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")


@cache
def environment() -> PromptEnvironment:
    """The environment of all templates."""
    return PromptEnvironment()


class CompiledTemplate:
    """A template that compiles. May be rendered in several threads at once."""

    def __init__(self, source: str, limits: Limits = DEFAULT_LIMITS) -> None:
        """Raises TemplateSyntaxError, TemplateSecurityError or TemplateLimitError."""
        self.source = source
        self.limits = limits
        if len(source) > limits.template:
            raise TemplateLimitError(
                f"the template has {len(source)} characters, allowed are {limits.template}"
            )
        with self._errors(TemplateSyntaxError):
            self._template = self._compile()

    def _compile(self) -> jinja2.Template:
        env = environment()
        tree = env._parse(self.source, None, None)
        code = env._compile(env._generate(tree, None, None), FILENAME)
        return jinja2.Template.from_code(env, code, env.globals)

    def render(
        self, variables: Mapping[str, Any], budget: Budget, now: datetime | None = None
    ) -> Marked:
        """The text for these variables, whose values are marked. `now` is the time that the
        template is told. Raises TemplateError."""
        token = clock.set(now)
        try:
            with limited(budget), self._errors(TemplateError):
                return self._written(variables, budget)
        finally:
            clock.reset(token)

    def _written(self, variables: Mapping[str, Any], budget: Budget) -> Marked:
        context = self._template.new_context(dict(variables))
        pieces = []
        for piece in self._template.root_render_func(context):
            budget.charge_output(len(piece))
            pieces.append(piece)
        return joined(pieces)

    @contextmanager
    def _errors(self, kind: type[TemplateError]) -> Iterator[None]:
        """Errors of the template as ours, by default of this kind, with line and construct."""
        try:
            yield
        except PromptError as error:
            self._place(error, self._line_of(error))
            raise
        except Exception as error:
            line = error.lineno if isinstance(error, JinjaSyntaxError) else self._line_of(error)
            found = translated(error, kind)
            self._place(found, line)
            raise found from None

    def _place(self, error: PromptError, line: int | None) -> None:
        if error.template_line is None and line is not None:
            error.template_line = line
            error.construct = self._construct(line)
            if not isinstance(error, TemplateRefusal | RequestError):
                error.args = (f"chat template, line {line}: {error}",)

    def _construct(self, line: int) -> str | None:
        """The first tag that reaches into a line, or the line itself, cut short."""
        lines = self.source.splitlines(keepends=True)
        start = sum(map(len, lines[: line - 1]))
        stop = start + len("".join(lines[line - 1 : line]))
        tags = (tag for tag in _TAG.finditer(self.source) if tag.end() > start)
        tag = next(tags, None)
        found = tag[0] if tag is not None and tag.start() < stop else self.source[start:stop]
        text = " ".join(found.split())
        return text if len(text) <= LONGEST_CONSTRUCT else text[: LONGEST_CONSTRUCT - 3] + "..."

    def _line_of(self, error: BaseException) -> int | None:
        """The line of the template that was at work last when the error was raised."""
        found = None
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILENAME:
                found = trace.tb_lineno
            trace = trace.tb_next
        return None if found is None else self._template.get_corresponding_lineno(found)


def translated(error: Exception, kind: type[TemplateError]) -> TemplateError:
    """What jinja2 or Python says about a template, in one line of ours."""
    message = cleaned(str(error)) or type(error).__name__
    if isinstance(error, JinjaSyntaxError):
        return TemplateSyntaxError(cleaned(error.message or message))
    if isinstance(error, SecurityError):
        return TemplateSecurityError("the template calls something that is not allowed")
    if isinstance(error, SyntaxError) and "nested" not in str(error):
        return TemplateSyntaxError(cleaned(error.msg))
    if isinstance(error, RecursionError | SyntaxError | MemoryError):
        return TemplateLimitError(f"the template is nested too deeply ({type(error).__name__})")
    if isinstance(error, KeyError):
        return kind(f"there is no key {message}")
    if isinstance(error, ValueError) and "int_max_str_digits" in message:
        return TemplateLimitError("the template has a number of too many digits")
    return kind(message)


def cleaned(message: str) -> str:
    """A message on one line, with Python's names of types and without addresses."""
    line = " ".join(message.split())
    line = _TYPE_NAME.sub(lambda match: _OUR_TYPES[match[1]], line)
    line = _ADDRESS.sub("an object", line)
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 3] + "..."
