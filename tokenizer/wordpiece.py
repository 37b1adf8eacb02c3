"""WordPiece, as BERT and its kin have it: words cut into the longest known pieces from the left.

A token that begins a word is stored with a space before it, one inside a word without.
"""

from __future__ import annotations

import regex

from ggufc.tokenizer.dropped import Dropped, normalize
from ggufc.tokenizer.spec import TokenizerSpec, TokenType
from ggufc.tokenizer.unicode_versions import ACCENTS, CONTROLS, PUNCTUATION

_LONGEST_WORD = 100
_DROPPED = regex.compile(CONTROLS, regex.V1)
_ACCENT = regex.compile(ACCENTS, regex.V1)
# The blocks of ideographs that BERT's tokenizer takes one by one.
_IDEOGRAPH = regex.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)
_PARTS = regex.compile(rf"{PUNCTUATION}|[\S--{PUNCTUATION}]+", regex.V1)


class WordPieceModel:
    """The model of kind wordpiece."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._lowercase = spec.lowercase
        self._strip_accents = spec.strip_accents
        self._unknown = spec.special["unk"]
        usable = (spec.types == TokenType.NORMAL) | (spec.types == TokenType.USER_DEFINED)
        self._ids = {
            text.decode("utf-8", "replace"): token
            for token, text in reversed(list(enumerate(spec.tokens)))
            if usable[token]
        }
        self._sizes = sorted(set(map(len, self._ids)), reverse=True)
        self._known: dict[str, list[int]] = {}

    def lost(self, text: str) -> Dropped:
        """Nothing: what is not known becomes the unknown token."""
        return []

    def refine(self, text: str) -> list[str | int]:
        """The text as it is."""
        return [text]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        return [self._ids_of(text) for text in texts]

    def _ids_of(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in self.words(text):
            ids += self._known.get(word) or self._word(word)
        return ids

    def words(self, text: str) -> list[str]:
        """The words and punctuation marks of the text, normalised."""
        text = _DROPPED.sub("", text)
        if not text.isascii():
            text = _IDEOGRAPH.sub(r" \g<0> ", text)
        if self._strip_accents:
            text = _ACCENT.sub("", normalize("NFD", text))
        if self._lowercase:
            # Only a sigma's small letter depends on where it stands, and here it may not.
            text = text.lower() if "\u03a3" not in text else "".join(map(str.lower, text))
        words: list[str] = _PARTS.findall(text)
        return words

    def _word(self, word: str) -> list[int]:
        ids = self._known.get(word)
        if ids is None:
            ids = self._cut(word)
            if len(self._known) >= _CACHE_ENTRIES:
                self._known = {}
            self._known[word] = ids
        return ids

    def _cut(self, word: str) -> list[int]:
        """The longest pieces from the left; the unknown token if some part is not known."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        rest, ids = " " + word, []
        while rest:
            for size in self._sizes:
                token = self._ids.get(rest[:size])
                if token is not None:
                    break
            else:
                return [self._unknown]
            ids.append(token)
            rest = rest[size:]
        return ids


_CACHE_ENTRIES = 1 << 16
