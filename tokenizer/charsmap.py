"""SentencePiece's precompiled normalisation: a map from strings to strings in a double array.

The blob holds the size of the array in bytes, the array (32-bit units) and the replacements, each
ended by a zero byte. A unit has its label in bits 0-7 (with bit 31 where it is a value), a flag in
bit 8 that a value hangs below it, and its offset in bits 10-30, times 256 where bit 9 is set.
"""

from __future__ import annotations

import struct

from ggufc.tokenizer.errors import SpecError

_KEY = "tokenizer.ggml.precompiled_charsmap"
_LABEL_MASK = 0x800000FF
_VALUE_MASK = 0x7FFFFFFF


class CharsMap:
    """Replaces the longest known prefix, again and again. Raises SpecError for a damaged blob."""

    def __init__(self, blob: bytes) -> None:
        if len(blob) < 4 or (size := struct.unpack_from("<I", blob)[0]) + 4 > len(blob) or size % 4:
            raise SpecError(f"{_KEY} is {len(blob)} bytes long and does not hold its own table")
        self._units = struct.unpack_from(f"<{size // 4}I", blob, 4)
        self._replacements = blob[4 + size :]
        if self._units and not self._replacements.endswith(b"\0"):
            raise SpecError(f"{_KEY} ends inside a replacement")
        self._plain: dict[str, bool] = {}

    def normalize(self, text: str) -> str:
        """The text with every longest match from the left replaced."""
        parts: list[str] = []
        position = 0
        while position < len(text):
            if self._is_plain(text[position]):
                parts.append(text[position])
                position += 1
                continue
            size, replacement = self._longest(text, position)
            parts.append(text[position] if replacement is None else replacement)
            position += size or 1
        return "".join(parts)

    def _is_plain(self, char: str) -> bool:
        """Whether no key begins with this character."""
        plain = self._plain.get(char)
        if plain is None:
            node, plain = self._offset(self._unit(0)), False
            for byte in char.encode("utf-8", "surrogateescape"):
                node ^= byte
                unit = self._unit(node)
                plain = plain or byte == 0 or unit & _LABEL_MASK != byte
                node ^= self._offset(unit)
            self._plain[char] = plain
        return plain

    def _longest(self, text: str, start: int) -> tuple[int, str | None]:
        """(characters, replacement) of the longest key that the text has at `start`."""
        size, value = 0, -1
        node = self._offset(self._unit(0))
        for end in range(start, len(text)):
            for byte in text[end].encode("utf-8", "surrogateescape"):
                node ^= byte
                unit = self._unit(node)
                if byte == 0 or unit & _LABEL_MASK != byte:
                    return size, self._replacement(value) if size else None
                node ^= self._offset(unit)
            if unit >> 8 & 1:
                size, value = end + 1 - start, self._unit(node) & _VALUE_MASK
        return size, self._replacement(value) if size else None

    def _unit(self, index: int) -> int:
        if index >= len(self._units):
            return 0
        return int(self._units[index])

    @staticmethod
    def _offset(unit: int) -> int:
        return (unit >> 10 & 0x1FFFFF) << ((unit & 1 << 9) >> 6)

    def _replacement(self, value: int) -> str:
        end = self._replacements.find(b"\0", value)
        return self._replacements[value:end].decode("utf-8", "replace") if end >= 0 else ""
