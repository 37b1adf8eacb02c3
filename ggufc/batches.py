"""Many requests, one JSON object a line, answered together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ggufc import json_lines
from ggufc.runtime.batch import BatchEvent, Request, Wanted
from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.runtime.prompt import PromptError
from ggufc.runtime.settings import Settings, options_of
from ggufc.tokenizer.errors import TokenizerError

if TYPE_CHECKING:
    from ggufc.runtime.model import Model

# Results that may wait for an earlier one, since they are given in the order of the requests.
WINDOW = 4096
_PROMPTS = ("prompt", "ids", "messages")
_CHAT = (
    "tools",
    "documents",
    "kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "template",
    "now",
)
_SETTINGS = tuple(Settings.__annotations__)
_KEYS = ("id", *_PROMPTS, *_CHAT, "control_tokens", *_SETTINGS)

Line = Mapping[str, Any]


class Answers:
    """The answers of a model to lines of JSON, in their order, while later ones are under way."""

    def __init__(self, model: Model, defaults: Settings, sequences: int | None = None) -> None:
        """`defaults` are the settings of requests that have none of their own; at most `sequences`
        requests are under way at once. Raises ArgumentError for bad defaults."""
        options_of(defaults)
        self._model, self._defaults, self._sequences = model, defaults, sequences
        self._labels: dict[int, Any] = {}
        self._done: dict[int, dict[str, Any]] = {}
        self._asked = self._given = 0

    def to(self, lines: Iterable[bytes | Exception]) -> Iterator[dict[str, Any]]:
        """One object for each line: the result, or the error that the line met."""
        for event in self._model.run_batch(self._requests(lines), sequences=self._sequences):
            if event.result is None and event.error is None:
                continue
            self._done[event.index] = self._answer(event)
            while self._given in self._done:
                yield self._done.pop(self._given)
                self._given += 1

    def _requests(self, lines: Iterable[bytes | Exception]) -> Iterator[Wanted]:
        for line in lines:
            while self._asked - self._given >= WINDOW:
                yield None
            self._asked += 1
            yield self._request(line)

    def _request(self, line: bytes | Exception) -> Request | Exception:
        """The request in a line, whose label is kept, or what is wrong with it."""
        if isinstance(line, Exception):
            return line
        try:
            found = parsed(line)
            if "id" in found:
                self._labels[self._asked - 1] = checked_label(found["id"])
            check_keys(found)
            options = options_of({**self._defaults, **settings_of(found)})
            return Request(prompt_of(self._model, found), options)
        except (RunError, PromptError, TokenizerError) as error:
            return error

    def _answer(self, event: BatchEvent) -> dict[str, Any]:
        label = {"index": event.index}
        if event.index in self._labels:
            label = {"id": self._labels.pop(event.index), **label}
        if event.error is None:
            assert event.result is not None
            return {**label, **asdict(event.result)}
        kind = getattr(event.error, "kind", type(event.error).__name__)
        return {**label, "error": {"kind": kind, "message": str(event.error)}}


def parsed(line: bytes) -> Line:
    """The object in a line. Raises ArgumentError."""
    found = json_lines.parsed(line)
    if not isinstance(found, dict):
        raise ArgumentError(f"expected an object, found {found!r:.40}")
    return found


def check_keys(found: Line) -> None:
    """Raise ArgumentError for keys that no request has, or that do not go together."""
    for key in found:
        json_lines.check_key(key, _KEYS)
    given = [key for key in _PROMPTS if key in found]
    if len(given) != 1:
        raise ArgumentError(f"expected one of {', '.join(_PROMPTS)}; found {given or 'none'}")
    for key in _CHAT:
        if key in found and given != ["messages"]:
            raise ArgumentError(f"{key} belongs to messages, and there are none")


def checked_label(label: Any) -> Any:
    """An id that JSON can give back. Raises ArgumentError for the numbers that JSON has not, which
    Python reads."""
    try:
        json.dumps(label, allow_nan=False)
    except (ValueError, RecursionError):
        raise ArgumentError(f"id: expected finite numbers, found {label!r:.40}") from None
    return label


def settings_of(found: Line) -> Settings:
    """The settings in a request. Raises ArgumentError for stops that are no texts."""
    stop = found.get("stop", [])
    if not isinstance(stop, str | list):
        raise ArgumentError(f"stop: expected a string or a list of strings, found {stop!r:.40}")
    given = {key: found[key] for key in _SETTINGS if found.get(key) is not None}
    if not isinstance(given.get("ignore_eos", False), bool):
        raise ArgumentError(
            f"ignore_eos: expected true or false, found {given['ignore_eos']!r:.40}"
        )
    return given  # type: ignore[return-value]


def prompt_of(model: Model, found: Line) -> list[int]:
    """The token ids that a request begins with. Raises ArgumentError, PromptError,
    TokenizerError."""
    if "ids" in found:
        return checked_ids(found["ids"])
    if "messages" in found:
        from ggufc.prompts import request_of

        keys = ("messages", "control_tokens", *_CHAT)
        request = request_of({key: found[key] for key in keys if key in found})
        return model.encode_chat(request.conversation, request.template, request.control_tokens)
    text, policy = found["prompt"], found.get("control_tokens", "native")
    if not isinstance(text, str):
        raise ArgumentError(f"prompt: expected a string, found {text!r:.40}")
    return list(model.encode_text(text, policy))


def checked_ids(ids: Any) -> list[int]:
    """Token ids as JSON has them. Raises ArgumentError."""
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise ArgumentError(f"ids: expected a list of integers, found {ids!r:.40}")
    return ids
