"""Rendering in tests: one call, and the fixtures of prompts."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.prompt_import import ImportedPrompt, import_prompt
from ggufc.runtime.prompt import ChatTemplate, Conversation, Rendered
from ggufc.runtime.prompt.limits import DEFAULT_LIMITS, Limits
from ggufc.runtime.prompt.sources import Author
from tests.support.reference_jinja import PINNED
from tests.support.shared import ROOT
from tests.support.tiny_gguf import TinyModel, vocabulary

DATA = ROOT / "tests" / "data" / "prompt"
USER = ({"role": "user", "content": "hello"},)


@cache
def fixture(name: str) -> Any:
    """A file of `tests/data/prompt`."""
    return json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]] = USER,
    *,
    limits: Limits = DEFAULT_LIMITS,
    special_tokens: Mapping[str, str] | None = None,
    **arguments: Any,
) -> Rendered:
    """What our renderer makes of a template, at a pinned time."""
    chat = ChatTemplate({"chat_template": template}, special_tokens, own=False, limits=limits)
    return chat.render(Conversation(messages, **{"now": PINNED, **arguments}))


def text(template: str, messages: Sequence[Mapping[str, Any]] = USER, **variables: Any) -> str:
    """The text for some template variables."""
    return render(template, messages, variables=variables).text


def written_by(rendered: Rendered) -> list[tuple[str, str]]:
    """(author, text) of each part; parts of the same author are joined."""
    parts: list[tuple[str, str]] = []
    for span in rendered.spans():
        author, piece = span.source.author.value, rendered.text[span.start : span.stop]
        if parts and parts[-1][0] == author:
            parts[-1] = (author, parts[-1][1] + piece)
        else:
            parts.append((author, piece))
    return parts


def content_of(rendered: Rendered) -> str:
    """All characters that the template did not write."""
    mask = rendered.mask(Author.TEMPLATE)
    return "".join(c for c, own in zip(rendered.text, mask, strict=True) if not own)


def vocabulary_file(folder: Path, template: str | None = None, **keys: Any) -> Path:
    """A GGUF file without tensors; `keys` are further metadata of the tokenizer."""
    metadata = {"general.architecture": "llama", **vocabulary(64)}
    metadata |= {f"tokenizer.{name}": value for name, value in keys.items()}
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return TinyModel(metadata).write(folder / "vocabulary.gguf")


def imported(path: Path, chat_template: Path | None = None) -> ImportedPrompt:
    """The prompt part of a file, as a compile makes it."""
    with GGUFFile.open(path) as file:
        return import_prompt(file.metadata, chat_template)
