"""The prompt boundary: from messages to token ids, with the author of every character known.

`ChatTemplate` renders a `Conversation` through the model's own template, in a sandbox and within
limits; `encode_prompt` turns what it rendered into ids in which content is never a control token.
"""

from ggufc.runtime.prompt.chat import ChatTemplate, Conversation
from ggufc.runtime.prompt.encoding import (
    EncodedPrompt,
    encode_prompt,
    special_tokens,
    with_begin,
)
from ggufc.runtime.prompt.errors import PromptError
from ggufc.runtime.prompt.parts import fitted
from ggufc.runtime.prompt.rendered import Rendered

__all__ = [
    "ChatTemplate",
    "Conversation",
    "EncodedPrompt",
    "PromptError",
    "Rendered",
    "encode_prompt",
    "fitted",
    "special_tokens",
    "with_begin",
]
