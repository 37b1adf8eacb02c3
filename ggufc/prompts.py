"""Requests to render: from JSON to a prompt, with a bundle, with the metadata of a GGUF file, or
with a template alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ggufc.runtime.prompt import ChatTemplate, Conversation, Rendered
from ggufc.runtime.prompt.encoding import (
    DEFAULT_POLICY,
    EncodedPrompt,
    checked_policy,
    encode_prompt,
    special_tokens,
)
from ggufc.runtime.prompt.errors import RequestError
from ggufc.tokenizer import Policy, Tokenizer

_TYPES: dict[str, tuple[type, ...]] = {
    "messages": (list,),
    "tools": (list, type(None)),
    "documents": (list, type(None)),
    "kwargs": (dict, type(None)),
    "add_generation_prompt": (bool, type(None)),
    "continue_final_message": (bool, str, type(None)),
    "control_tokens": (str,),
    "strict": (bool,),
    "chat_template": (str, type(None)),
    "template": (str, type(None)),
    "special_tokens": (dict, type(None)),
    "now": (str, type(None)),
    "id": (str, int),
    "name": (str,),
}
_WORDS = {
    list: "a list",
    dict: "an object",
    bool: "true or false",
    str: "a string",
    int: "a number",
}


@dataclass(frozen=True)
class PromptRequest:
    """One conversation to render, as a line of JSON gives it; `strict` refuses bytes that the
    vocabulary has no token for; `label` is echoed in the result."""

    conversation: Conversation
    control_tokens: Policy = DEFAULT_POLICY
    strict: bool = False
    chat_template: str | None = None
    template: str | None = None
    special_tokens: Mapping[str, str] | None = None
    label: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt and, where there is a vocabulary, its ids."""

    rendered: Rendered
    encoded: EncodedPrompt | None

    def to_json(self) -> dict[str, Any]:
        """The object that `ggufc render --json` prints."""
        if self.encoded is None:
            return {"text": self.rendered.text}
        found: dict[str, Any] = {
            "text": self.rendered.text,
            "ids": self.encoded.ids,
            "control_tokens_in_content": [
                {"path": spelled.path, "token": spelled.token} for spelled in self.encoded.spelled
            ],
        }
        if self.encoded.dropped_bytes:
            found["dropped_bytes"] = [list(pair) for pair in self.encoded.dropped_bytes]
        return found


class PromptSource:
    """What prompts are made with: the templates and the vocabulary of a model, or neither."""

    def __init__(
        self, template: ChatTemplate | None = None, tokenizer: Tokenizer | None = None
    ) -> None:
        self.template = template
        self.tokenizer = tokenizer
        self._others: dict[tuple[Any, ...], ChatTemplate] = {}

    @classmethod
    def open(cls, path: Path) -> PromptSource:
        """The prompt part of a bundle or of a GGUF file, of which only the metadata is read.
        Raises BundleError, GGUFError, CompileError or TokenizerError."""
        if path.is_dir():
            return cls._of_bundle(path)
        from ggufc.compiler.gguf import GGUFFile
        from ggufc.compiler.prompt_import import own_templates
        from ggufc.compiler.tokenizer_import import import_tokenizer
        from ggufc.tokenizer import create_tokenizer

        with GGUFFile.open(path) as file:
            tokenizer = create_tokenizer(import_tokenizer(file.metadata))
            templates = own_templates(file.metadata)
        return cls(ChatTemplate(templates, special_tokens(tokenizer)), tokenizer)

    @classmethod
    def _of_bundle(cls, path: Path) -> PromptSource:
        from ggufc.runtime.bundle import Bundle
        from ggufc.tokenizer import load_tokenizer

        Bundle.open(path)
        tokenizer = load_tokenizer(path)
        return cls(ChatTemplate.load(path, special_tokens(tokenizer)), tokenizer)

    def template_for(self, request: PromptRequest) -> ChatTemplate:
        """The templates of a request: its own, else the model's. Raises RequestError where there
        is neither."""
        if request.chat_template is None and request.special_tokens is None:
            if self.template is None:
                raise RequestError("no model and no chat_template: there is nothing to render with")
            return self.template
        special = request.special_tokens
        if special is None:
            special = self.template.special_tokens if self.template else {}
        key = (request.chat_template, *sorted(special.items()))
        if key not in self._others:
            self._others[key] = self._other(request.chat_template, special)
        return self._others[key]

    def _other(self, text: str | None, special: Mapping[str, str]) -> ChatTemplate:
        if text is not None:
            return ChatTemplate({"chat_template": text}, special, own=False)
        if self.template is None:
            raise RequestError("no model and no chat_template: there is nothing to render with")
        return ChatTemplate(self.template.templates, special, own=self.template.own)

    def prompt(self, request: PromptRequest) -> Prompt:
        """Render and, if there is a vocabulary, encode. Raises PromptError."""
        template = self.template_for(request)
        text_only = self.tokenizer is not None
        rendered = template.render(request.conversation, request.template, text_only=text_only)
        if self.tokenizer is None:
            return Prompt(rendered, None)
        encoded = encode_prompt(
            rendered,
            self.tokenizer,
            request.control_tokens,
            complete=template.own,
            strict=request.strict,
        )
        return Prompt(rendered, encoded)


def parse_json(text: str | bytes, what: str) -> Any:
    """JSON, or a RequestError that names `what`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise RequestError(f"{what}: nested too deeply") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{what}: the byte at offset {error.start} is not UTF-8") from None
    except ValueError as error:
        raise RequestError(f"{what}: not JSON: {error}") from None


def request_of(data: Any, defaults: Mapping[str, Any] | None = None) -> PromptRequest:
    """The request in a JSON value: an object with the keys of `PromptRequest`, or a list of
    messages; `defaults` stand for keys that are missing. Raises RequestError."""
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, dict):
        raise RequestError(f"expected an object or a list of messages, found {data!r:.40}")
    for key, value in data.items():
        if key not in _TYPES:
            raise RequestError(f"unknown key {key!r:.60}; the keys are {', '.join(_TYPES)}")
        if not isinstance(value, _TYPES[key]):
            wanted = " or ".join(_WORDS[t] for t in _TYPES[key] if t in _WORDS)
            raise RequestError(f"{key}: expected {wanted}, found {value!r:.40}")
    if "messages" not in data:
        raise RequestError("there are no messages")
    return _request({**(defaults or {}), **data})


def _request(data: dict[str, Any]) -> PromptRequest:
    conversation = Conversation(
        messages=data["messages"],
        tools=data.get("tools"),
        documents=data.get("documents"),
        trusted_variables=data.get("kwargs") or {},
        add_generation_prompt=data.get("add_generation_prompt"),
        continue_final_message=data.get("continue_final_message") or False,
        now=_time(data.get("now")),
    )
    return PromptRequest(
        conversation=conversation,
        control_tokens=checked_policy(data.get("control_tokens", DEFAULT_POLICY)),
        strict=data.get("strict", False),
        chat_template=data.get("chat_template"),
        template=data.get("template"),
        special_tokens=_texts(data.get("special_tokens")),
        label=label_of(data),
    )


def label_of(data: Any) -> dict[str, Any]:
    """What a result echoes of a request, be the rest of it right or wrong."""
    given = data if isinstance(data, dict) else {}
    return {key: given[key] for key in ("id", "name") if isinstance(given.get(key), _TYPES[key])}


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"now: {text!r:.40} is not an ISO time such as 2025-03-09T13:05:07"
        ) from None


def _texts(values: Mapping[str, Any] | None) -> Mapping[str, str] | None:
    for name, text in (values or {}).items():
        if not isinstance(text, str | None):
            raise RequestError(f"special_tokens.{name}: expected a string, found {text!r:.40}")
    return None if values is None else {n: t for n, t in values.items() if t is not None}
