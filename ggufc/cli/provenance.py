"""A prompt as people see it, with template text, content and spelled control tokens apart."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ggufc.prompts import Prompt
from ggufc.runtime.prompt.rendered import Span
from ggufc.runtime.prompt.sources import Author

_COLOURS = {Author.TEMPLATE: "\033[36m", Author.REQUEST: "\033[0m", Author.ASSISTANT: "\033[32m"}
_SPELLED = "\033[1;7;31m"
_RESET = "\033[0m"
LEGEND = (
    f"{_COLOURS[Author.TEMPLATE]}template{_RESET}  {_COLOURS[Author.REQUEST]}content{_RESET}  "
    f"{_COLOURS[Author.ASSISTANT]}assistant{_RESET}  {_SPELLED}control token in content{_RESET}"
)


def coloured(prompt: Prompt) -> str:
    """The text for a terminal, a legend below it."""
    spelled = spelled_places(prompt)
    pieces = []
    for span in prompt.rendered.spans():
        colour = _COLOURS[span.source.author]
        for start, stop, is_spelled in cut_at(span, spelled):
            text = harmless(prompt.rendered.text[start:stop])
            pieces.append(f"{_SPELLED if is_spelled else colour}{text}{_RESET}")
    return "".join(pieces) + f"\n{LEGEND}"


def listed(prompt: Prompt) -> str:
    """A line for each part: who wrote it, where it stands in the request, and the text as JSON;
    spelled control tokens on lines of their own."""
    spelled = spelled_places(prompt)
    lines = []
    for span in prompt.rendered.spans():
        for start, stop, is_spelled in cut_at(span, spelled):
            text = json.dumps(prompt.rendered.text[start:stop], ensure_ascii=False)
            note = "  CONTROL TOKEN" if is_spelled else ""
            place = f" {span.source.path}" if span.source.path else ""
            lines.append(f"{span.source.author}{place}: {harmless(text)}{note}")
    return "\n".join(lines)


def spelled_places(prompt: Prompt) -> list[tuple[int, int]]:
    """Where content spells control tokens in the text, from the beginning to the end."""
    if prompt.encoded is None:
        return []
    text, found = prompt.rendered.text, set()
    template = prompt.rendered.mask(Author.TEMPLATE)
    for token in {spelled.token for spelled in prompt.encoded.spelled}:
        start = text.find(token)
        while start >= 0:
            if b"\0" in template[start : start + len(token)]:
                found.add((start, start + len(token)))
            start = text.find(token, start + 1)
    return sorted(found)


def cut_at(span: Span, places: list[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """The parts of a span: inside of `places`, and outside."""
    position = span.start
    for start, stop in places:
        start, stop = max(start, position), min(stop, span.stop)
        if start >= stop:
            continue
        if start > position:
            yield position, start, False
        yield start, stop, True
        position = stop
    if position < span.stop:
        yield position, span.stop, False


def harmless(text: str) -> str:
    """Text without the control characters that a terminal would obey."""
    return "".join(
        c if c in "\n\t" or c.isprintable() else c.encode("unicode-escape").decode() for c in text
    )
