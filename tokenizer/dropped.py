"""Bytes that a vocabulary has no token for: where they are. Normalisation, which can move them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal

import regex

from ggufc.tokenizer.unicode_versions import composed_in_unicode_9

Dropped = list[tuple[int, int]]

_CLUSTER = regex.compile(r"\X")


def normalize_nfc(text: str) -> str:
    """The text in Unicode's normal form C, as tokenizers know it: that of Unicode 9."""
    return text if unicodedata.is_normalized("NFC", text) else normalize("NFC", text)


def normalize(form: Literal["NFC", "NFD"], text: str) -> str:
    """The text in a normal form of Unicode 9."""
    parts = composed_in_unicode_9(text)
    parts[::2] = [unicodedata.normalize(form, part) for part in parts[::2]]
    return "".join(parts)


def missing_in(text: str, missing: bytes) -> Dropped:
    """(byte offset, value) of every byte of `missing` in the text's UTF-8."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data.translate(None, missing)) == len(data):
        return []
    wanted = frozenset(missing)
    return [(offset, value) for offset, value in enumerate(data) if value in wanted]


def dropped_when_normalized(text: str, lost: Callable[[str], Dropped]) -> Dropped:
    """What `lost` finds in the normalised text, each byte placed where the character that it comes
    from begins in the text as it was given."""
    normalized = normalize_nfc(text)
    if normalized == text or not lost(normalized):
        return lost(normalized)
    found: Dropped = []
    offset = 0
    for cluster in _CLUSTER.findall(text):
        found += [(offset, value) for _, value in lost(normalize_nfc(cluster))]
        offset += len(cluster.encode("utf-8", "surrogateescape"))
    return found
