"""What a chat template does, found out by rendering small conversations with words that occur
nowhere else: the capabilities that a compile proves, and what the text around the words shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError
from ggufc.runtime.prompt.canaries import OK, check_template
from ggufc.runtime.prompt.chat import DEFAULT
from ggufc.tokenizer.markers import end_texts
from tests.support.reference_jinja import PINNED
from tests.support.vocabularies import vocabulary

ASKED = "canary-question"
ANSWERED = "canary-answer"
THOUGHT = "canary-thought"
SYSTEM = "canary-system"
AGAIN = "canary-again"

USER = {"role": "user", "content": ASKED}
ASSISTANT = {"role": "assistant", "content": ANSWERED}
TURNS = [USER, ASSISTANT, {"role": "user", "content": AGAIN}]
THINKS = {"role": "assistant", "content": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWERED}"}
CALLS = {
    "role": "assistant",
    "content": "",
    "reasoning_content": THOUGHT,
    "tool_calls": [
        {"type": "function", "id": "call00001", "function": {"name": "f", "arguments": {"a": "b"}}}
    ],
}
RESULT = {"role": "tool", "name": "f", "tool_call_id": "call00001", "content": "c"}
SWITCHES: dict[str, tuple[Any, ...]] = {
    "enable_thinking": (True, False),
    "thinking": (True, False),
    "reasoning_effort": ("low", "medium", "high"),
}


@dataclass(frozen=True)
class Features:
    """Of one template: capabilities as a compile reports them, in a word; texts that it writes,
    None where it writes none. `end` is what stands behind what the assistant said."""

    capabilities: Mapping[str, str]
    alternates: bool
    default_system: str | None
    begin: bool
    opening: str | None
    end: str | None
    switches: tuple[str, ...]
    earlier_thoughts: bool
    current_thoughts: bool


class Probe:
    """One template, to be tried."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self.special_tokens = special_tokens
        self.chat = ChatTemplate({DEFAULT: source}, special_tokens)

    def text(self, messages: Iterable[Mapping[str, Any]], **arguments: Any) -> str:
        """The prompt, empty where the template refuses or fails."""
        try:
            return self.chat.render(Conversation(list(messages), now=PINNED, **arguments)).text
        except PromptError:
            return ""

    def default_system(self) -> str | None:
        """What stands where a system message would, when there is none."""
        before, shown, after = self.text([{"role": "system", "content": SYSTEM}, USER]).partition(
            SYSTEM
        )
        plain = self.text([USER])
        if not (shown and before and plain.startswith(before) and plain.endswith(after)):
            return None
        return plain[len(before) : len(plain) - len(after)].strip() or None

    def opening(self) -> str | None:
        """What opens the assistant's turn."""
        closed = self.text([USER], add_generation_prompt=False)
        opened = self.text([USER])
        return opened.removeprefix(closed) or None if opened.startswith(closed) else None

    def end(self) -> str | None:
        """What ends the assistant's turn: a token that is known to, else the line that follows."""
        behind = self.text(TURNS).partition(ANSWERED)[2].partition(AGAIN)[0]
        known = {*end_texts(), self.special_tokens.get("eos_token", "")} - {""}
        found = [(behind.find(text), -len(text), text) for text in known if text in behind]
        return min(found)[2] if found else behind.strip().partition("\n")[0] or None

    def switches(self) -> tuple[str, ...]:
        """The variables that change how the model is asked to reason."""
        found = []
        for name, values in SWITCHES.items():
            prompts = {self.text([USER], variables={name: value}) for value in values}
            if len(prompts | {self.text([USER])}) > 1:
                found.append(name)
        return tuple(found)

    def features(self) -> Features:
        """Everything."""
        verdicts = check_template(self.chat, DEFAULT, vocabulary("smollm2"))
        begin = self.special_tokens.get("bos_token", "")
        return Features(
            capabilities={name: word(verdict) for name, verdict in verdicts.items()},
            alternates=bool(self.text(TURNS)) and not self.text([USER, TURNS[2]]),
            default_system=self.default_system(),
            begin=bool(begin) and self.text([USER]).startswith(begin),
            opening=self.opening(),
            end=self.end(),
            switches=self.switches(),
            earlier_thoughts=THOUGHT in self.text([USER, THINKS, TURNS[2]]),
            current_thoughts=THOUGHT in self.text([USER, CALLS, RESULT]),
        )


def word(verdict: str) -> str:
    """A verdict of `check_template` in a word."""
    if verdict == OK:
        return "yes"
    if verdict.startswith("the prompt does not show"):
        return "no"
    if verdict == "the parts are printed as a Python list":
        return "as text"
    return "fails" if verdict.startswith("chat template, line") else "refused"
