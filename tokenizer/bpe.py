"""Byte-pair encoding of stretches of text: the models of kinds bpe, spm and gemma4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from zlib import crc32

import numpy as np

from ggufc.tokenizer.arrays import Int32Array, Int64Array, find_rows
from ggufc.tokenizer.dropped import Dropped, missing_in
from ggufc.tokenizer.merging import Merger, NumpyMerger, Symbols, spread
from ggufc.tokenizer.pairs import PairTable
from ggufc.tokenizer.spec import TokenizerSpec

_CACHE_ENTRIES = 1 << 16
_CACHED_LENGTH = 64

Ids = Sequence[int]


class PairEncoder:
    """Pieces to ids: cached, looked up whole where that is exact, merged otherwise."""

    def __init__(self, spec: TokenizerSpec, merger: Merger | None = None) -> None:
        arrays = spec.arrays
        self.pairs = PairTable(arrays)
        self._merger = merger or NumpyMerger(self.pairs)
        self._symbols = Symbols(arrays)
        self._vocab_size = spec.vocab_size
        self._hashes = arrays["whole_hashes"]
        self._slots = arrays["whole_slots"]
        self._blob = arrays["token_bytes"].data
        self._ends = arrays["token_ends"].data
        self._virtual_ids: Int32Array = arrays["virtual_ids"]
        self._virtual_ends: Int64Array = arrays["virtual_ends"].astype(np.int64)
        self._cache: dict[str, Ids] = {}

    def encode(self, texts: list[list[str]]) -> list[list[int]]:
        """The ids of each text, given as its pieces."""
        known = self._cache
        unseen = list(set(chain.from_iterable(texts)).difference(known))
        if unseen:
            known = self._learn(unseen, known)
        look = known.__getitem__
        return [list(chain.from_iterable(map(look, pieces))) for pieces in texts]

    def _learn(self, unseen: list[str], known: dict[str, Ids]) -> dict[str, Ids]:
        """A dictionary with the unseen pieces added; the cache itself where they fit."""
        unseen.sort()
        found = dict(zip(unseen, self._encode_pieces(unseen), strict=True))
        short = {piece: ids for piece, ids in found.items() if len(piece) <= _CACHED_LENGTH}
        if len(known) + len(short) > _CACHE_ENTRIES:
            self._cache = short if len(short) <= _CACHE_ENTRIES else {}
            return {**known, **found}
        known.update(short)
        return known if len(short) == len(found) else {**known, **found}

    def _encode_pieces(self, pieces: list[str]) -> list[Ids]:
        data = [piece.encode("utf-8", "surrogateescape") for piece in pieces]
        results: list[Ids] = [()] * len(data)
        whole = self._whole(data)
        rest = np.flatnonzero(whole < 0).tolist()
        for index, token in enumerate(whole.tolist()):
            results[index] = (token,)
        merged, lengths = self._merge([data[index] for index in rest])
        ids, end = merged.tolist(), 0
        for index, length in zip(rest, lengths.tolist(), strict=True):
            results[index] = tuple(ids[end : end + length])
            end += length
        return results

    def _whole(self, data: list[bytes]) -> Int32Array:
        """The token that each piece is, -1 where it has to be merged."""
        hashes = np.fromiter(map(crc32, data), np.uint32, len(data))
        rows = find_rows(self._slots, hashes, lambda q, r: self._hashes[r] == hashes[q])
        for index in np.flatnonzero(rows >= 0).tolist():
            token = int(rows[index])
            start = self._ends[token - 1] if token else 0
            if self._blob[start : self._ends[token]] != data[index]:
                rows[index] = -1
        return rows

    def _merge(self, data: list[bytes]) -> tuple[Int32Array, Int64Array]:
        symbols, lengths = self._merger.merge(*self._symbols.initial(data))
        if len(symbols) and int(symbols.max()) >= self._vocab_size:
            return self._without_virtual(symbols, lengths)
        return symbols, lengths

    def _without_virtual(
        self, symbols: Int32Array, lengths: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Replaces symbols that are no tokens by the tokens of their bytes."""
        virtual = symbols >= self._vocab_size
        numbers = symbols[virtual] - self._vocab_size
        sizes = np.diff(self._virtual_ends, prepend=0)[numbers]
        counts = np.ones(len(symbols), np.int64)
        counts[virtual] = sizes
        out = np.repeat(symbols, counts)
        bytes_of = self._virtual_ids[spread(self._virtual_ends[numbers] - sizes, sizes)]
        out[np.repeat(virtual, counts)] = bytes_of
        totals = np.concatenate(([0], np.cumsum(counts)))
        ends = np.cumsum(lengths)
        return out, totals[ends] - totals[ends - lengths]


class BpeModel:
    """Byte-level byte-pair encoding: split by the family's pattern, then merge bytes."""

    def __init__(
        self, encoder: PairEncoder, split: Callable[[str], list[str]], missing: bytes
    ) -> None:
        self._encoder = encoder
        self._split = split
        self._missing = missing

    def lost(self, text: str) -> Dropped:
        """The bytes without a token."""
        return missing_in(text, self._missing)

    def refine(self, text: str) -> list[str | int]:
        """The text as it is."""
        return [text]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        return self._encoder.encode([self._split(text) for text in texts])
