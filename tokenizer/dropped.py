"""Bytes that a vocabulary has no token for: where they are. Normalisation, which can move them."""

from __future__ import annotations

import unicodedata

import regex

_CLUSTER = regex.compile(r"\X")


def normalize_nfc(text: str) -> str:
    """The text in Unicode's normal form C."""
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def dropped_offsets(text: str, missing: bytes, nfc: bool) -> list[tuple[int, int]]:
    """(byte offset, value) of every byte of `missing` in the text's UTF-8.

    With `nfc` the bytes are those of the normalised text; each is placed where the character that
    it comes from begins in the text as it was given.
    """
    normalized = normalize_nfc(text) if nfc else text
    data = normalized.encode("utf-8", "surrogateescape")
    if len(data.translate(None, missing)) == len(data):
        return []
    if normalized == text:
        wanted = frozenset(missing)
        return [(offset, value) for offset, value in enumerate(data) if value in wanted]
    found: list[tuple[int, int]] = []
    offset = 0
    for cluster in _CLUSTER.findall(text):
        found += [(offset, v) for _, v in dropped_offsets(normalize_nfc(cluster), missing, False)]
        offset += len(cluster.encode("utf-8", "surrogateescape"))
    return found
