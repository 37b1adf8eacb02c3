"""Leaving the last message open: a tag behind its text shows where the prompt has to end."""

from __future__ import annotations

from typing import Any

from ggufc.runtime.prompt.errors import RequestError
from ggufc.runtime.prompt.marked import Marked
from ggufc.runtime.prompt.rendered import Rendered
from ggufc.runtime.prompt.request import REASONING_FIELDS, Request
from ggufc.runtime.prompt.sources import Author

TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_PLACE = "(end of the last message)"


class ContinuedMessage:
    """The last message of a conversation with a tag behind the text of `field`.

    The tag's characters have a mark of their own, so that text which merely says the same is not
    taken for it.
    """

    def __init__(
        self, field: str, messages: list[dict[str, Any]], template: str, request: Request
    ) -> None:
        """Changes `messages`. Raises RequestError where there is no text to continue, or the
        `template` does not read the field."""
        self._path = f"messages[{len(messages) - 1}]"
        message = messages[-1]
        text = message.get(field)
        if text is None:
            raise RequestError(f"{self._path}: there is no {field!r} to continue")
        fields = [field]
        if field in REASONING_FIELDS:
            fields = [f for f in REASONING_FIELDS if message.get(f) == text]
        if not any(name in template for name in fields):
            raise RequestError(f"{self._path}.{field}: the chat template does not read {field!r}")
        self._tag = Marked(TAG, request.sources.add(Author.REQUEST, _PLACE))
        self._text = self._tagged_part(text) if isinstance(text, list | tuple) else text
        if not isinstance(text, list | tuple):
            for name in fields:
                message[name] = self._tagged(text, f"{self._path}.{field}")

    def _tagged(self, text: Any, path: str) -> Marked:
        if not isinstance(text, Marked):
            raise RequestError(f"{path}: only text can be continued")
        return text + self._tag

    def _tagged_part(self, parts: Any) -> Any:
        """Tag the last part that has text, and return that text."""
        for number, part in reversed(list(enumerate(parts))):
            if isinstance(part, dict) and "text" in part:
                text = part["text"]
                part["text"] = self._tagged(text, f"{self._path}.content[{number}].text")
                return text
        raise RequestError(f"{self._path}.content: there is no part with text to continue")

    def cut(self, rendered: Rendered) -> Rendered:
        """The prompt up to the end of the message; right-stripped where the template trimmed it.
        Raises RequestError where the template does not show the message as it is."""
        text = rendered.text
        start = _last_tag(rendered)
        if start is None or self._text.strip() not in text:
            raise RequestError(
                f"{self._path}: cannot be continued: the chat template does not show it unchanged"
            )
        return rendered.cut(start, strip=not text.startswith(TAG, start))


def _last_tag(rendered: Rendered) -> int | None:
    """Where the tag stands last: by its mark, or by its letters where a template printed it as
    part of a list, which is marked as a whole."""
    text, tag = rendered.text, TAG.rstrip()
    marked = [span.start for span in rendered.spans() if span.source.path == _PLACE]
    starts = [start for start in marked if text.startswith(tag, start)] or [text.rfind(tag)]
    return starts[-1] if starts[-1] >= 0 else None
