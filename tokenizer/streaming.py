"""Decoding a stream of tokens: complete characters as soon as they are complete."""

from __future__ import annotations

import codecs
from typing import Protocol


class TokenBytes(Protocol):
    """What a StreamDecoder needs of a tokenizer."""

    def token_bytes(self, token: int) -> bytes:
        """What one token stands for, empty for ids outside the vocabulary."""


class StreamDecoder:
    """Turns token ids into text, one at a time.

    Emits only complete UTF-8. A byte that is known to be invalid becomes one U+FFFD at once, an
    unfinished character at the end becomes one in `finalize`; nothing is lost or sent twice. All
    that is emitted, joined, is the batch decoding of all ids.
    """

    def __init__(self, tokenizer: TokenBytes) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        """The text that became complete with this token; "" while a character is unfinished."""
        return self._decoder.decode(self._tokenizer.token_bytes(token))

    def finalize(self) -> str:
        """What was held back; the decoder can be used again afterwards."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
