"""Prompts of a loaded model: from a text to be continued, or from a conversation, to ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ggufc.runtime.prompt.chat import ChatTemplate, Conversation
from ggufc.runtime.prompt.encoding import (
    DEFAULT_POLICY,
    EncodedPrompt,
    encode_prompt,
    with_begin,
)
from ggufc.runtime.prompt.parts import fitted
from ggufc.tokenizer.base import Tokenizer

RAW_POLICY = "native"
"""For a text that is continued as it is: whoever runs the model wrote it."""


def text_prompt(text: str, tokenizer: Tokenizer, policy: str = RAW_POLICY) -> EncodedPrompt:
    """The ids of a text, with the begin token that the vocabulary asks for unless the text begins
    with it. Raises TokenizerError."""
    encoding = tokenizer.encode_with_details(text, control_tokens=policy, add_special=False)
    return EncodedPrompt(with_begin(encoding.ids, tokenizer), [], encoding.dropped_bytes)


def chat_prompt(
    messages: Sequence[Mapping[str, Any]] | Conversation,
    template: ChatTemplate,
    tokenizer: Tokenizer,
    report: Mapping[str, Any],
    name: str | None = None,
    policy: str = DEFAULT_POLICY,
) -> EncodedPrompt:
    """The ids of a conversation, by the template of that name; content as a text or as parts,
    whichever the template was found to take, as the `report` of the manifest says. Raises
    PromptError."""
    whole = messages if isinstance(messages, Conversation) else Conversation(messages)
    chosen = template.name_for(name, whole.tools)
    capabilities = report.get("templates", {}).get(chosen, {})
    rendered = template.render(fitted(whole, capabilities), chosen, text_only=True)
    return encode_prompt(rendered, tokenizer, policy)
