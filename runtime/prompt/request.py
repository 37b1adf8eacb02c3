"""From a request to the variables of a template: checked, copied, and every string marked.

Who wrote what: everything in messages, tools, documents and variables is the request's, or the
assistant's in its own messages. Only the names of the fields that the message format defines, the
known roles and the known types of parts and calls count as the template's, since templates build
control tokens of them (`<|user|>`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ggufc.runtime.prompt.errors import RequestError
from ggufc.runtime.prompt.limits import DEEPEST_NESTING, LARGEST_INTEGER_BITS
from ggufc.runtime.prompt.marked import Marked
from ggufc.runtime.prompt.sources import TEMPLATE, Author, SourceTable, weakest
from ggufc.runtime.prompt.values import JsonText, marked_number

ROLES = frozenset("system user assistant tool developer function ipython model".split())
TYPES = frozenset(
    "text image image_url input_image audio audio_url input_audio video video_url function "
    "tool tool_call tool_result thinking reasoning refusal file document".split()
)
_FIELDS = frozenset(
    "role content name type text id index function arguments tool_calls tool_call_id parameters "
    "description reasoning_content reasoning thinking image image_url audio input_audio video "
    "tool_responses tools documents".split()
)
_MEDIA = frozenset(
    "image image_url input_image audio audio_url input_audio video video_url input_video file "
    "input_file".split()
)
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
RESERVED = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
SWITCHES = frozenset({"enable_thinking", "thinking"})

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRUCTURE = re.compile(
    r"messages\[\d+\](\.content\[\d+\]|\.(tool_calls\[\d+\]|function_call)(\.function)?)?"
)
_ARGUMENTS = re.compile(
    r"messages\[\d+\]\.(tool_calls\[\d+\](\.function)?|function_call)\.arguments"
)


class Request:
    """What is given to a template.

    `sources` has every string that was in it, `known` for every container the steps of a visit and
    the mark of what it holds, `weight` is the steps of a visit of everything, `media` are paths
    and kinds of parts that are no text.
    """

    def __init__(self) -> None:
        self.sources = SourceTable()
        self.weight = 0
        self.known: dict[int, tuple[int, str]] = {}
        self.media: list[tuple[str, str]] = []

    # What a request consists of

    def messages(self, messages: Any) -> list[dict[str, Any]]:
        """The conversation as transformers gives it to a template: keys without a value left
        out, reasoning under all its names. Raises RequestError."""
        if isinstance(messages, str) or not isinstance(messages, Sequence):
            raise RequestError(f"messages: expected a list, found {_kind(messages)}")
        if not messages:
            raise RequestError("messages: the conversation is empty; give at least one message")
        made = [self._message(item, f"messages[{i}]") for i, item in enumerate(messages)]
        self._register(made, Author.REQUEST, "messages")
        return made

    def _message(self, message: Any, path: str) -> dict[str, Any]:
        if not isinstance(message, Mapping):
            raise RequestError(f"{path}: expected an object, found {_kind(message)}")
        role = message.get("role")
        if role is not None and not isinstance(role, str):
            raise RequestError(f"{path}.role: expected a string, found {_kind(role)}")
        self._note_media(message.get("content"), path)
        author = Author.ASSISTANT if role == "assistant" else Author.REQUEST
        kept = {key: value for key, value in message.items() if value is not None}
        made: dict[str, Any] = self.value(kept, path, author)
        reasoning = next((made[key] for key in REASONING_FIELDS if key in made), None)
        if reasoning is None:
            return made
        made = {
            Marked("thinking", TEMPLATE): reasoning,
            **made,
            Marked("reasoning_content", TEMPLATE): reasoning,
        }
        self._register(made, author, path)
        return made

    def _note_media(self, content: Any, path: str) -> None:
        """Remember the parts that are no text."""
        self.media += media_in(content, f"{path}.content")

    def objects(self, name: str, values: Any) -> list[Any] | None:
        """`tools` or `documents`: a list of objects, or None. Raises RequestError."""
        if values is None:
            return None
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise RequestError(f"{name}: expected a list, found {_kind(values)}")
        for number, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise RequestError(f"{name}[{number}]: expected an object, found {_kind(value)}")
        return list(self.value(values, name, Author.REQUEST))

    def variables(self, values: Mapping[str, Any], author: Author) -> dict[str, Any]:
        """Further template variables by name. Raises RequestError for a name that is reserved."""
        if not isinstance(values, Mapping):
            raise RequestError(f"kwargs: expected an object, found {_kind(values)}")
        for name, value in values.items():
            if not isinstance(name, str):
                raise RequestError(f"kwargs: expected names of variables, found {name!r:.40}")
            if name in RESERVED:
                raise RequestError(f"kwargs: {name!r} may not be given as a template variable")
            if name in SWITCHES and type(value) in (str, int, float):
                raise RequestError(f"kwargs.{name}: expected true or false, found {_kind(value)}")
        return {
            str(name): self.value(value, member("kwargs", name), author)
            for name, value in values.items()
        }

    # Values

    def value(self, value: Any, path: str, author: Author, depth: int = 0) -> Any:
        """A copy of plain JSON-like data with every string marked. Raises RequestError."""
        if isinstance(value, str):
            return self._text(value, path, author)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, path, author)
        if depth >= DEEPEST_NESTING:
            raise RequestError(f"{path[:200]}: nested more than {DEEPEST_NESTING} deep")
        if isinstance(value, Mapping):
            return self._object(value, path, author, depth)
        if isinstance(value, list | tuple):
            items = [self.value(v, f"{path}[{i}]", author, depth + 1) for i, v in enumerate(value)]
            made = items if isinstance(value, list) else tuple(items)
            self._register(made, author, path)
            return made
        raise RequestError(f"{path}: {_kind(value)} is not a JSON value")

    def _object(
        self, value: Mapping[Any, Any], path: str, author: Author, depth: int
    ) -> dict[str, Any]:
        structural = _STRUCTURE.fullmatch(path) is not None
        made: dict[str, Any] = {}
        for name, item in value.items():
            if not isinstance(name, str):
                raise RequestError(f"{path}: key {name!r:.40} is not a string")
            below = member(path, name)
            mine = Author.TEMPLATE if structural and name in _FIELDS else author
            key = self._text(name, below, mine)
            if item is None and is_arguments(below):
                item = {}
            made[key] = self.value(item, below, author, depth + 1)
        self._register(made, author, path)
        return made

    def _text(self, text: str, path: str, author: Author) -> Marked:
        self.weight += 1 + (len(text) >> 6)
        if not text.isascii():
            check_characters(text, path)
        if self._is_templates(text, path):
            return Marked(text, TEMPLATE)
        mark = self.sources.add(author, path, text)
        if author is not Author.TEMPLATE and is_arguments(path):
            return JsonText.at(text, mark, path)
        return Marked(text, mark)

    def _is_templates(self, text: str, path: str) -> bool:
        """Whether a value is one of the words that the message format defines."""
        place, _, name = path.rpartition(".")
        if name == "role":
            return text in ROLES and _STRUCTURE.fullmatch(place) is not None
        return name == "type" and text in TYPES and _STRUCTURE.fullmatch(place) is not None

    def _number(self, value: float, path: str, author: Author) -> Any:
        if isinstance(value, int) and value.bit_length() > LARGEST_INTEGER_BITS:
            raise RequestError(
                f"{path}: an integer of {value.bit_length()} bits, "
                f"allowed are {LARGEST_INTEGER_BITS}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise RequestError(f"{path}: {value} is not a JSON number")
        return marked_number(value, self.sources.add(author, path))

    def _register(self, made: Any, author: Author, path: str) -> None:
        """Note the weight and the mark of a container."""
        weight, marks = 1, []
        for part in (*made.keys(), *made.values()) if isinstance(made, dict) else made:
            known = self.known.get(id(part)) if isinstance(part, dict | list | tuple) else None
            weight += known[0] if known else 1 + (len(part) >> 6 if isinstance(part, str) else 0)
            if known or isinstance(part, Marked):
                marks.append(known[1] if known else part._marks)
        mark = weakest(marks) if marks else self.sources.add(author, path)
        self.known[id(made)] = (weight, mark)


def media_in(content: Any, path: str) -> list[tuple[str, str]]:
    """Path and kind of the parts of a content that are no text."""
    found = []
    for number, part in enumerate(content if isinstance(content, list | tuple) else ()):
        if isinstance(part, Mapping):
            kind = next((key for key in part if key in _MEDIA), part.get("type"))
            if isinstance(kind, str) and kind in _MEDIA:
                found.append((f"{path}[{number}]", kind))
    return found


def is_arguments(path: str) -> bool:
    """Whether the arguments of a tool call stand at this path."""
    return path.endswith(".arguments") and _ARGUMENTS.fullmatch(path) is not None


def member(path: str, name: str) -> str:
    """The path of a member of the object at `path`."""
    if _PLAIN_KEY.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name, ensure_ascii=False)}]"


def check_characters(text: str, path: str) -> None:
    """Refuse half of a surrogate pair. Raises RequestError with its offset."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{path}: U+{ord(text[error.start]):04X} at character {error.start} is half of a "
            "surrogate pair, not a character"
        ) from None


def _kind(value: Any) -> str:
    """The type of a value in JSON's words."""
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return names.get(type(value), type(value).__name__)
