r"""SentencePiece's precompiled normalisation: a map from strings to strings in a double array.

The blob holds the size of the array in bytes, the array (32-bit units) and the replacements, each
ended by a zero byte. A unit has its label in bits 0-7 (with bit 31 where it is a value), a flag in
bit 8 that a value hangs below it, and its offset in bits 10-30, times 256 where bit 9 is set.

The map is applied as Hugging Face's tokenizers do, whose ids the models were trained with: a
grapheme (`\X`) of up to five bytes is replaced whole by what the map has for its shortest known
prefix; in all others each character by itself. SentencePiece would take the longest known prefix.
"""

from __future__ import annotations

import struct

import regex

from ggufc.tokenizer.errors import SpecError

_KEY = "tokenizer.ggml.precompiled_charsmap"
_LABEL_MASK = 0x800000FF
_VALUE_MASK = 0x7FFFFFFF
_LONGEST_GRAPHEME = 5
_CACHE_ENTRIES = 1 << 16
_GRAPHEMES = regex.compile(r"\X")
# The same, but runs of printable ASCII in one piece, without a last one that marks may follow.
_RUNS = regex.compile(r"[ -~]+(?=[ -~]|\Z)|\X")


class CharsMap:
    """Replaces graphemes and characters. Raises SpecError for a damaged blob."""

    def __init__(self, blob: bytes) -> None:
        if len(blob) < 4 or (size := struct.unpack_from("<I", blob)[0]) + 4 > len(blob) or size % 4:
            raise SpecError(f"{_KEY} is {len(blob)} bytes long and does not hold its own table")
        self._units = struct.unpack_from(f"<{size // 4}I", blob, 4)
        self._replacements = blob[4 + size :]
        if self._units and not self._replacements.endswith(b"\0"):
            raise SpecError(f"{_KEY} ends inside a replacement")
        self._known: dict[str, str] = {}
        plain = all(self._character(chr(code)) == chr(code) for code in range(32, 127))
        self._parts = _RUNS if plain else _GRAPHEMES

    def normalize(self, text: str) -> str:
        """The text with everything replaced that the map knows."""
        return "".join(map(self._grapheme, self._parts.findall(text)))

    def _grapheme(self, grapheme: str) -> str:
        replaced = self._known.get(grapheme)
        if replaced is None:
            replaced = self._replaced(grapheme)
            if len(self._known) >= _CACHE_ENTRIES:
                self._known = {}
            if len(grapheme) <= _LONGEST_GRAPHEME:
                self._known[grapheme] = replaced
        return replaced

    def _replaced(self, grapheme: str) -> str:
        if self._parts is _RUNS and grapheme.isascii() and grapheme.isprintable():
            return grapheme
        data = grapheme.encode("utf-8", "surrogateescape")
        whole = self._shortest(data) if len(data) <= _LONGEST_GRAPHEME else None
        if whole is not None:
            return whole
        return "".join(map(self._character, grapheme))

    def _character(self, char: str) -> str:
        replacement = self._shortest(char.encode("utf-8", "surrogateescape"))
        return char if replacement is None else replacement

    def _shortest(self, data: bytes) -> str | None:
        """The replacement of the shortest key that the data begins with, None if there is none."""
        node = self._offset(self._unit(0))
        for byte in data:
            node ^= byte
            unit = self._unit(node)
            if unit & _LABEL_MASK != byte:
                return None
            node ^= self._offset(unit)
            if unit >> 8 & 1:
                return self._replacement(self._unit(node) & _VALUE_MASK)
        return None

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
