"""Proof, when a model is compiled, of what its chat templates can do.

Each canary is a small conversation with words that occur nowhere else. It is rendered and encoded
like any other; a capability is there if that works and the words stand in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ggufc.runtime.prompt.chat import ChatTemplate, Conversation
from ggufc.runtime.prompt.encoding import encode_prompt
from ggufc.runtime.prompt.errors import PromptError, TemplateLimitError, TemplateSyntaxError
from ggufc.tokenizer.base import Tokenizer
from ggufc.tokenizer.errors import TokenizerError

USER = "user"
PARTS = "content as parts"
OK = "ok"
_NOW = datetime(2025, 1, 2, 3, 4, 5)

_ASKED = "canary-question"
_ANSWERED = "canary-answer"
_SYSTEM = "canary-system"
_THOUGHT = "canary-thought"
_RESULT = "canary-result"
_TOOL = "canary_tool"
_VALUE = "canary-value"

_USER = {"role": "user", "content": _ASKED}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "A tool.",
            "parameters": {
                "type": "object",
                "properties": {"canary_name": {"type": "string", "description": "A name."}},
                "required": ["canary_name"],
            },
        },
    }
]
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": _TOOL, "arguments": {"canary_name": _VALUE}},
}


@dataclass(frozen=True)
class Canary:
    """A conversation and the words that its prompt has to show."""

    capability: str
    messages: Sequence[dict[str, Any]]
    shown: Sequence[str]
    tools: Sequence[dict[str, Any]] | None = None


CANARIES = (
    Canary(USER, [_USER], [_ASKED]),
    Canary("system", [{"role": "system", "content": _SYSTEM}, _USER], [_SYSTEM, _ASKED]),
    Canary(
        "reasoning in history",
        [
            _USER,
            {"role": "assistant", "content": f"<think>\n{_THOUGHT}\n</think>\n\n{_ANSWERED}"},
            {"role": "user", "content": "canary-again"},
        ],
        [_ASKED, _ANSWERED, "canary-again"],
    ),
    Canary(
        "tool call and result",
        [
            _USER,
            {"role": "assistant", "content": "", "tool_calls": [_CALL]},
            {"role": "tool", "name": _TOOL, "tool_call_id": "call00001", "content": _RESULT},
        ],
        [_ASKED, _TOOL, _VALUE, _RESULT],
        _TOOLS,
    ),
    Canary(PARTS, [{**_USER, "content": [{"type": "text", "text": _ASKED}]}], [_ASKED]),
    Canary("tools", [_USER], [_ASKED, _TOOL, "canary_name"], _TOOLS),
)


def check_template(template: ChatTemplate, name: str, tokenizer: Tokenizer) -> dict[str, str]:
    """For each capability `ok` or, in one line, why it is not there. A template that does not
    compile, or that breaks a limit, is not tried again."""
    found: dict[str, str] = {}
    hopeless: str | None = None
    for canary in CANARIES:
        try:
            found[canary.capability] = hopeless or verdict(template, name, tokenizer, canary)
        except (TemplateSyntaxError, TemplateLimitError) as error:
            found[canary.capability] = hopeless = _with_construct(error)
    return found


def verdict(template: ChatTemplate, name: str, tokenizer: Tokenizer, canary: Canary) -> str:
    """`ok`, or what is wrong about the prompt of one canary. Raises TemplateSyntaxError and
    TemplateLimitError."""
    try:
        conversation = Conversation(canary.messages, canary.tools, now=_NOW)
        rendered = template.render(conversation, name)
        encoded = encode_prompt(rendered, tokenizer, complete=template.own)
    except (TemplateSyntaxError, TemplateLimitError):
        raise
    except (PromptError, TokenizerError) as error:
        return _with_construct(error)
    missing = [word for word in canary.shown if word not in rendered.text]
    if missing:
        return f"the prompt does not show {missing[0]!r}"
    if "[{'type': 'text'" in rendered.text:
        return "the parts are printed as a Python list"
    begins = _begin_tokens(encoded.ids, tokenizer)
    if begins > 1:
        return f"the prompt begins with {begins} begin tokens"
    return OK


def _with_construct(error: Exception) -> str:
    construct = getattr(error, "construct", None)
    line = getattr(error, "template_line", None)
    if construct is None:
        return str(error)
    return (
        f"{error} in {construct}"
        if f"line {line}:" in str(error)
        else (f"{error} (line {line}: {construct})")
    )


def _begin_tokens(ids: Sequence[int], tokenizer: Tokenizer) -> int:
    """How many begin tokens the ids start with. Vocabularies that add none may use the token
    for something else."""
    if not tokenizer.spec.add_bos:
        return 0
    return next((i for i, token in enumerate(ids) if token != tokenizer.bos_id), len(ids))
