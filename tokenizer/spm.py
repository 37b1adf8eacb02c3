"""Byte-pair encoding over whole text with U+2581 for spaces: SentencePiece's and Gemma 4's.

Both merge characters; what is no token becomes byte tokens. Text is cut where nothing can merge,
between characters that no token has side by side: that changes no id, but lets pieces be
remembered and many be merged at once.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from ggufc.tokenizer.arrays import UInt8Array, pair_hashes
from ggufc.tokenizer.bpe import PairEncoder
from ggufc.tokenizer.dropped import Dropped, missing_in
from ggufc.tokenizer.spec import TokenizerSpec, TokenType
from ggufc.tokenizer.special_tokens import AddedTokens
from ggufc.tokenizer.text import fused

_SPACE_MARK = "\u2581"


class SpaceMarkModel:
    """The models of kinds spm and gemma4."""

    def __init__(self, spec: TokenizerSpec, encoder: PairEncoder) -> None:
        self._encoder = encoder
        self._prefix = " " if spec.add_space_prefix else ""
        self._joins: UInt8Array = spec.arrays["joins"]
        self._missing = bytes(spec.missing_bytes)
        self._unknown = -1 if spec.byte_fallback else spec.special.get("unk", -1)
        self._codes = spec.arrays["char_codes"]
        self._space_runs = AddedTokens(_space_runs(spec), {})

    def lost(self, text: str) -> Dropped:
        """The bytes of characters that are no token, as far as there is none for the byte."""
        found: Dropped = []
        offset = 0
        for char in text:
            if ord(char) not in self._chars:
                found += [(offset + i, value) for i, value in missing_in(char, self._missing)]
            offset += len(char.encode("utf-8", "surrogateescape"))
        return found

    def refine(self, text: str) -> list[str | int]:
        """Spaces for marks; runs of spaces that are one token are taken out, the longest first.

        Runs that the text spells with marks are found as added tokens, before this: the models'
        own tokenizers look for those in the text as it is, and make marks of spaces only then.
        """
        text = text.replace(_SPACE_MARK, " ")
        items: list[str | int] = []
        position = 0
        for match in self._space_runs.find(text):
            if match.start > position:
                items.append(text[position : match.start])
            items.append(match.token)
            position = match.end
        return [*items, text[position:]] if position < len(text) else items

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, a space put before it where the vocabulary asks for that."""
        encoded = self._encoder.encode(self._pieces([self._prefix + text for text in texts]))
        return encoded if self._unknown < 0 else [fused(ids, self._unknown) for ids in encoded]

    @cached_property
    def _chars(self) -> frozenset[int]:
        return frozenset(self._codes.tolist())

    def _pieces(self, texts: list[str]) -> list[list[str]]:
        """Each text, cut where nothing can merge; all texts in one go."""
        whole = "".join(texts)
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        codes = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), np.int32)
        bits = pair_hashes(codes[:-1], codes[1:]) & np.uint32(8 * len(self._joins) - 1)
        cut = np.ones(len(whole) + 1, bool)
        cut[1:-1] = self._joins[bits >> 3] >> (bits & 7).astype(np.uint8) & 1 == 0
        cut[ends] = True
        places = np.flatnonzero(cut)
        pieces = [whole[start:end] for start, end in pairwise(places.tolist())]
        counts = np.searchsorted(places, ends).tolist()
        return [pieces[start:end] for start, end in pairwise([0, *counts])]


def _space_runs(spec: TokenizerSpec) -> list[tuple[str, int]]:
    if spec.kind != "spm":
        return []
    user = (spec.types == TokenType.USER_DEFINED).nonzero()[0].tolist()
    texts = [(spec.token(token), token) for token in user]
    return [(t.decode(), i) for t, i in texts if len(t) > 1 and t.strip(b" ") == b""]
