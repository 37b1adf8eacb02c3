"""Who wrote each character of a prompt, and which added tokens may be matched there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ggufc.tokenizer.errors import TokenizerError
from ggufc.tokenizer.special_tokens import Permit

Policy = Literal["literal", "control-only", "reject", "native"]
POLICIES = ("literal", "control-only", "reject", "native")


class Provenance:
    """The marks of one text: one entry a character, true where the template (or, in the second
    sequence, the assistant) wrote it."""

    def __init__(
        self,
        text: str,
        authored_by_template: Sequence[bool] | bytes,
        assistant: Sequence[bool] | bytes | None,
        policy: Policy,
    ) -> None:
        if policy not in POLICIES:
            raise TokenizerError(f"policy is {policy!r:.60}, allowed: {', '.join(POLICIES)}")
        self._template = _marks(authored_by_template, len(text), "authored_by_template")
        assistant = assistant if assistant is not None else bytes(len(text))
        self._trusted = bytes(
            a | b
            for a, b in zip(self._template, _marks(assistant, len(text), "assistant"), strict=True)
        )
        self._policy = policy

    def has_content(self, start: int, end: int) -> bool:
        """Whether the request wrote any of these characters."""
        return b"\0" in self._template[start:end]

    def permit(self, is_control: Callable[[int], bool], is_marker: Callable[[int], bool]) -> Permit:
        """The rule of the policy, for `AddedTokens.find`."""
        markers_anywhere = self._policy == "control-only"

        def allowed(token: int, start: int, end: int) -> bool:
            if is_control(token):
                return not self.has_content(start, end)
            if markers_anywhere or not is_marker(token):
                return True
            return b"\0" not in self._trusted[start:end]

        return allowed


def _marks(marks: Sequence[bool] | bytes, length: int, name: str) -> bytes:
    if not hasattr(marks, "__len__"):
        raise TokenizerError(f"{name} is {marks!r:.40}; allowed: a list of as many as characters")
    if len(marks) != length:
        raise TokenizerError(f"{name} has {len(marks)} entries for a text of {length} characters")
    return bytes(map(bool, marks))
