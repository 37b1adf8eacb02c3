"""Content as a text or as a list of parts: whichever of the two a template can take.

Templates that know only texts print a list of parts as Python does, or fail; those that know only
parts show nothing of a text. What a template can take was found out when the model was compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ggufc.runtime.prompt.canaries import OK, PARTS, USER
from ggufc.runtime.prompt.chat import Conversation, refuse_media
from ggufc.runtime.prompt.errors import RequestError
from ggufc.runtime.prompt.request import media_in

SEPARATOR = "\n"
"""Between the texts of parts that become one text."""


def fitted(conversation: Conversation, capabilities: Mapping[str, str]) -> Conversation:
    """The conversation with every content in the form that a template with these capabilities
    shows; unchanged where it takes both forms, or where nothing is known of it."""
    takes_text, takes_parts = capabilities.get(USER) == OK, capabilities.get(PARTS) == OK
    if takes_text == takes_parts or not isinstance(conversation.messages, list | tuple):
        return conversation
    change = joined_text if takes_text else as_parts
    messages = [_changed(m, change, number) for number, m in enumerate(conversation.messages)]
    return replace(conversation, messages=messages)


def _changed(message: Any, change: Any, number: int) -> Any:
    if not isinstance(message, Mapping) or "content" not in message:
        return message
    return {**message, "content": change(message["content"], f"messages[{number}].content")}


def joined_text(content: Any, path: str) -> Any:
    """The texts of parts with a new line between them; anything that is no list as it is. Raises
    RequestError for a part that is no text, which the template would print as Python does."""
    if not isinstance(content, list | tuple):
        return content
    refuse_media(media_in(content, path))
    texts = [_text_of(part) for part in content]
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            kind = content[number].get("type") if isinstance(content[number], Mapping) else None
            found = f"a part of type {kind!r:.40}" if kind else type(content[number]).__name__
            raise RequestError(f"{path}[{number}]: expected a part of type 'text', found {found}")
    return SEPARATOR.join(texts)


def _text_of(part: Any) -> Any:
    if isinstance(part, Mapping) and part.get("type", "text") == "text":
        return part.get("text")
    return None


def as_parts(content: Any, _path: str = "") -> Any:
    """A text as a list of one part; anything else as it is."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
