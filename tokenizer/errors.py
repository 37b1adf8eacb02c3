"""Exceptions of the tokenizer: each message is one line with what, where, found and allowed."""


class TokenizerError(Exception):
    """Base class of everything this package raises on bad input."""


class SpecError(TokenizerError):
    """A vocabulary cannot be reproduced exactly, or its stored form is damaged."""


class TextError(TokenizerError):
    """Text cannot be encoded; `offset` is where, in characters (str) or bytes (bytes)."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class ControlTokenInTextError(TokenizerError):
    """A text spells a control token, and the policy is `reject`."""

    def __init__(self, token: str, offset: int) -> None:
        super().__init__(
            f"the text contains the control token {token!r} at character {offset}, "
            "which the policy 'reject' does not allow"
        )
        self.token = token
        self.offset = offset


class DroppedBytesError(TokenizerError):
    """Strict encoding met bytes that the vocabulary has no token for."""

    def __init__(self, message: str, dropped: list[tuple[int, int]]) -> None:
        super().__init__(message)
        self.dropped = dropped


def refuse_dropped(dropped: list[tuple[int, int]]) -> None:
    """Raise DroppedBytesError for the first of the dropped bytes (offset, value), if any."""
    for offset, value in dropped[:1]:
        raise DroppedBytesError(
            f"byte 0x{value:02x} at byte offset {offset} has no token in this vocabulary "
            f"({len(dropped)} bytes would be dropped)",
            dropped,
        )
