"""The alphabet that byte-level vocabularies are spelled in: one printable character a byte.

Bytes that are printable in Latin-1 stand for themselves, the others for U+0100, U+0101, ... in
order (as GPT-2's vocabulary first had it).
"""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in set(_PRINTABLE)]


class _ToByte(dict[int, int]):
    """Code point to byte; anything outside the alphabet to a code point that is no byte."""

    def __missing__(self, code: int) -> int:
        return 0x100


_BYTE_OF = _ToByte({byte: byte for byte in _PRINTABLE})
_BYTE_OF.update({0x100 + i: byte for i, byte in enumerate(_OTHERS)})


def decode(text: bytes) -> bytes:
    """The bytes that a token spelled in the alphabet stands for; other text stands for itself."""
    try:
        return text.decode("utf-8").translate(_BYTE_OF).encode("latin-1")
    except UnicodeError:
        return text
