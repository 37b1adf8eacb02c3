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


class DroppedBytesError(TokenizerError):
    """Strict encoding met bytes that the vocabulary has no token for."""

    def __init__(self, message: str, dropped: list[tuple[int, int]]) -> None:
        super().__init__(message)
        self.dropped = dropped
