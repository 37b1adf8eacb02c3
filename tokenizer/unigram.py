"""Unigram: of all ways to cut a text into tokens, the one whose scores add up highest.

As SentencePiece does it: text is normalised by the vocabulary's own map, spaces stand before words,
and words are cut one by one. The published tokenizers of T5, XLM-RoBERTa and their kin separate
words at any white space, such as U+0085, that the map leaves.
"""

from __future__ import annotations

from collections.abc import Iterable

import regex

from ggufc.tokenizer.charsmap import CharsMap
from ggufc.tokenizer.dropped import Dropped
from ggufc.tokenizer.families import WHITESPACE
from ggufc.tokenizer.spec import TokenizerSpec, TokenType
from ggufc.tokenizer.text import fused

_UNKNOWN_PENALTY = 10.0
_MARK = "\u2581"
_WORDS = regex.compile(r" ?[^ ]+| ")
_RUNS = regex.compile(r" {2,}")
_WHITE_SPACE = regex.compile(r"\s+")
_CACHE_ENTRIES = 1 << 16


class UnigramModel:
    """The model of kind unigram."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._prefix = spec.add_space_prefix
        self._merge_spaces = spec.remove_extra_whitespaces
        self._split_white_space = spec.pre == WHITESPACE
        self._unknown = spec.special["unk"]
        self._byte_ids: list[int] = spec.arrays["byte_ids"].tolist() if spec.byte_fallback else []
        blob = spec.arrays["charsmap"].tobytes()
        self._charsmap = CharsMap(blob) if blob else None
        scores = spec.arrays["scores"].astype(float).tolist()
        self._pieces = _pieces(spec, scores)
        self._longer = _sizes_by_head(self._pieces)
        normal = [scores[i] for i in (spec.types == TokenType.NORMAL).nonzero()[0]]
        self._unknown_score = min(normal, default=0.0) - _UNKNOWN_PENALTY
        self._known: dict[str, list[int]] = {}

    def lost(self, text: str) -> Dropped:
        """Nothing: what is not known becomes the unknown token."""
        return []

    def refine(self, text: str) -> list[str | int]:
        """The text as it is."""
        return [text]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text; neighbouring unknown characters are one unknown token."""
        return [fused(self._ids(self._normalized(text)), self._unknown) for text in texts]

    def _normalized(self, text: str) -> str:
        if self._charsmap is not None:
            text = self._charsmap.normalize(text)
        if self._split_white_space:
            words = filter(None, _WHITE_SPACE.split(text))
            return "".join(map(self._begun, words)).replace(_MARK, " ")
        text = text.replace(_MARK, " ")
        if self._merge_spaces:
            text = _RUNS.sub(" ", text).strip(" ")
        prefixed = self._prefix and text and not text.startswith(" ")
        return " " + text if prefixed else text

    @staticmethod
    def _begun(word: str) -> str:
        """A word with the mark of a space before it."""
        return word if word.startswith(_MARK) else _MARK + word

    def _ids(self, text: str) -> list[int]:
        return [token for word in _WORDS.findall(text) for token in self._word(word)]

    def _word(self, word: str) -> list[int]:
        ids = self._known.get(word)
        if ids is None:
            ids = self._best_path(word)
            if len(self._known) >= _CACHE_ENTRIES:
                self._known = {}
            self._known[word] = ids
        return ids

    def _best_path(self, word: str) -> list[int]:
        """Viterbi's search over the places between characters."""
        size = len(word)
        best = [float("-inf")] * (size + 1)
        came = [(0, self._unknown)] * (size + 1)
        best[0] = 0.0
        known, missing = self._pieces.get, (self._unknown, self._unknown_score)
        for start in range(size):
            here = best[start]
            token, score = known(word[start], missing)
            if here + score > best[start + 1]:
                best[start + 1], came[start + 1] = here + score, (start, token)
            for length in self._longer.get(word[start : start + 2], ()):
                end = start + length
                if end > size:
                    break
                piece = known(word[start:end])
                if piece is not None and here + piece[1] > best[end]:
                    best[end], came[end] = here + piece[1], (start, piece[0])
        return self._walked_back(word, came)

    def _walked_back(self, word: str, came: list[tuple[int, int]]) -> list[int]:
        ids: list[int] = []
        end = len(word)
        while end > 0:
            start, token = came[end]
            if token == self._unknown and self._byte_ids:
                data = word[start:end].encode("utf-8", "surrogateescape")
                ids += [self._byte_ids[byte] for byte in reversed(data)]
            else:
                ids.append(token)
            end = start
        return ids[::-1]


def _sizes_by_head(pieces: Iterable[str]) -> dict[str, list[int]]:
    """By the first two characters of pieces how long such pieces are, the shortest first."""
    found: dict[str, set[int]] = {}
    for text in pieces:
        if len(text) > 1:
            found.setdefault(text[:2], set()).add(len(text))
    return {head: sorted(sizes) for head, sizes in found.items()}


def _pieces(spec: TokenizerSpec, scores: list[float]) -> dict[str, tuple[int, float]]:
    """Token and score by text; user-defined tokens cost nothing, so they are taken where they
    stand."""
    pieces: dict[str, tuple[int, float]] = {}
    types = spec.types.tolist()
    for token, text in enumerate(spec.tokens):
        if types[token] in (TokenType.NORMAL, TokenType.USER_DEFINED):
            score = 0.0 if types[token] == TokenType.USER_DEFINED else scores[token]
            pieces.setdefault(text.decode("utf-8", "replace"), (token, score))
    return pieces
