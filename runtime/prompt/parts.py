"""Content as a text or as a list of parts: whichever of the two a template can take.

Templates that know only texts print a list of parts as Python does, or fail; those that know only
parts show nothing of a text. What a template can take was found out when the model was compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ggufc.runtime.prompt.canaries import OK, PARTS, USER
from ggufc.runtime.prompt.chat import Conversation

SEPARATOR = "\n"
"""Between the texts of parts that become one text."""


def fitted(conversation: Conversation, capabilities: Mapping[str, str]) -> Conversation:
    """The conversation with every content in the form that a template with these capabilities
    shows; unchanged where it takes both forms, or where nothing is known of it."""
    takes_text, takes_parts = capabilities.get(USER) == OK, capabilities.get(PARTS) == OK
    if takes_text == takes_parts or not isinstance(conversation.messages, list | tuple):
        return conversation
    change = joined_text if takes_text else as_parts
    return replace(conversation, messages=[_changed(m, change) for m in conversation.messages])


def _changed(message: Any, change: Any) -> Any:
    if not isinstance(message, Mapping) or "content" not in message:
        return message
    return {**message, "content": change(message["content"])}


def joined_text(content: Any) -> Any:
    """The texts of parts with a new line between them; anything that is no list of texts as it
    is."""
    if not isinstance(content, list | tuple) or not content:
        return content
    texts = [_text_of(part) for part in content]
    return SEPARATOR.join(texts) if all(isinstance(text, str) for text in texts) else content


def _text_of(part: Any) -> Any:
    if isinstance(part, Mapping) and part.get("type", "text") == "text":
        return part.get("text")
    return None


def as_parts(content: Any) -> Any:
    """A text as a list of one part; anything else as it is."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
