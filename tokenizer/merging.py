"""Merging: the hot loop of byte-pair encoding, behind one small interface.

A `Merger` takes many pieces at once, as symbols end to end, and merges each by itself: the pair of
lowest rank first, the leftmost of equal ones, until none is left. `NumpyMerger` does one merge of
every piece per round, in array operations over all pieces; long pieces go to `long_merging`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ggufc.tokenizer.arrays import Int32Array, Int64Array
from ggufc.tokenizer.long_merging import merge_long
from ggufc.tokenizer.pairs import NO_RANK, PairTable

LONG_PIECE = 96


class Merger(Protocol):
    """What merges pieces; anything that gives the same answers may take its place."""

    def merge(self, symbols: Int32Array, lengths: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Symbols of the merged pieces end to end, and how many each piece has.

        `symbols`: int32, the pieces end to end; `lengths`: int64, symbols of each piece, >= 0.
        """


class NumpyMerger:
    """The merger in NumPy: work near-linear in the number of symbols."""

    def __init__(self, table: PairTable) -> None:
        self._table = table

    def merge(self, symbols: Int32Array, lengths: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `Merger`."""
        if not len(lengths):
            return symbols, lengths
        results = _Results(len(lengths))
        starts = np.cumsum(lengths) - lengths
        for piece in np.flatnonzero(lengths > LONG_PIECE).tolist():
            start, stop = int(starts[piece]), int(starts[piece] + lengths[piece])
            merged = merge_long(symbols[start:stop], self._table)
            results.add(np.array([piece]), np.array([len(merged)]), merged)
        short = (lengths <= LONG_PIECE) & (lengths > 0)
        kept = symbols[np.repeat(short, lengths)]
        if len(kept):
            _merge_short(kept, np.flatnonzero(short), lengths[short], self._table, results)
        return results.joined()


class _Results:
    """Finished pieces, in any order, to be put together in the order of the pieces."""

    def __init__(self, pieces: int) -> None:
        self._lengths = np.zeros(pieces, np.int64)
        self._chunks: list[tuple[Int64Array, Int32Array]] = []

    def add(self, pieces: Int64Array, lengths: Int64Array, symbols: Int32Array) -> None:
        self._lengths[pieces] = lengths
        self._chunks.append((pieces, symbols))

    def joined(self) -> tuple[Int32Array, Int64Array]:
        starts = np.cumsum(self._lengths) - self._lengths
        out = np.empty(int(self._lengths.sum()), np.int32)
        for pieces, symbols in self._chunks:
            out[spread(starts[pieces], self._lengths[pieces])] = symbols
        return out, self._lengths


def spread(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """start, start+1, ... (length numbers) of each run, end to end."""
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))


def _merge_short(
    symbols: Int32Array,
    pieces: Int64Array,
    lengths: Int64Array,
    table: PairTable,
    results: _Results,
) -> None:
    """One merge of every unfinished piece a round; `rank[i]` belongs to symbols i and i+1."""
    rank, result = _pair_ranks(symbols, lengths, table)
    while len(pieces):
        best = np.minimum.reduceat(rank, np.cumsum(lengths) - lengths)
        done = best == NO_RANK
        if done.any():
            finished = np.repeat(done, lengths)
            results.add(pieces[done], lengths[done], symbols[finished])
            going, active = ~done, ~finished
            symbols, rank, result = symbols[active], rank[active], result[active]
            pieces, lengths, best = pieces[going], lengths[going], best[going]
            if not len(pieces):
                return
        target = _first_of_each(rank, best, lengths)
        symbols[target] = result[target]
        keep = np.ones(len(symbols), bool)
        keep[target + 1] = False
        symbols, rank, result = symbols[keep], rank[keep], result[keep]
        lengths -= 1
        _refresh(symbols, rank, result, target - np.arange(len(target)), lengths, table)


def _pair_ranks(
    symbols: Int32Array, lengths: Int64Array, table: PairTable
) -> tuple[Int32Array, Int32Array]:
    rank = np.full(len(symbols), NO_RANK)
    result = np.zeros(len(symbols), np.int32)
    inside = np.ones(len(symbols), bool)
    inside[np.cumsum(lengths) - 1] = False
    left = np.flatnonzero(inside)
    rank[left], result[left] = table.find(symbols[left], symbols[left + 1])
    return rank, result


def _first_of_each(rank: Int32Array, best: Int32Array, lengths: Int64Array) -> Int64Array:
    """Where each piece's best rank stands first."""
    hits = np.flatnonzero(rank == np.repeat(best, lengths))
    ends = np.cumsum(lengths)
    owner = np.searchsorted(ends, hits, side="right")
    first = np.ones(len(hits), bool)
    first[1:] = owner[1:] != owner[:-1]
    return hits[first]


def _refresh(
    symbols: Int32Array,
    rank: Int32Array,
    result: Int32Array,
    changed: Int64Array,
    lengths: Int64Array,
    table: PairTable,
) -> None:
    """Looks up the pairs on both sides of the one changed symbol of each piece."""
    ends = np.cumsum(lengths)
    last = changed == ends - 1
    rank[changed[last]] = NO_RANK
    right = changed[~last]
    left = changed[changed > ends - lengths] - 1
    pairs = np.concatenate((left, right))
    rank[pairs], result[pairs] = table.find(symbols[pairs], symbols[pairs + 1])


class Symbols:
    """The initial symbols of pieces: one a byte (bpe) or one a character (spm, gemma4)."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._byte_ids: Int32Array = arrays["byte_ids"]
        self._char_ids: Int32Array | None = None
        if "char_codes" in arrays:
            self._char_ids = np.full(0x110000, -1, np.int32)
            self._char_ids[arrays["char_codes"]] = arrays["char_ids"]

    def initial(self, pieces: list[bytes]) -> tuple[Int32Array, Int64Array]:
        """Symbols end to end and how many each piece has.

        A character that is no token becomes its bytes; a byte that is no token is left out.
        """
        data = np.frombuffer(b"".join(pieces), np.uint8)
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        symbols = self._byte_ids[data]
        if self._char_ids is not None:
            symbols = self._by_character(data, symbols)
        present = symbols >= 0
        if not present.all():
            ends = np.cumsum(lengths)
            before = np.concatenate(([0], np.cumsum(present)))
            lengths = before[ends] - before[ends - lengths]
            symbols = symbols[present]
        return symbols, lengths

    def _by_character(self, data: NDArray[np.uint8], symbols: Int32Array) -> Int32Array:
        """Puts each known character's token on its first byte and -1 on the others."""
        assert self._char_ids is not None
        starts = np.flatnonzero(data & 0xC0 != 0x80)
        text = data.tobytes().decode("utf-8", "surrogateescape")
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        if len(codes) != len(starts):
            return self._by_lenient_character(text)
        tokens = self._char_ids[codes]
        known = tokens >= 0
        sizes = np.diff(np.append(starts, len(data)))
        symbols = np.where(np.repeat(known, sizes), -1, symbols)
        symbols[starts[known]] = tokens[known]
        return symbols

    def _by_lenient_character(self, text: str) -> Int32Array:
        """As `_by_character`, for text with bytes that are not UTF-8."""
        assert self._char_ids is not None
        symbols: list[int] = []
        for char in text:
            data = char.encode("utf-8", "surrogateescape")
            token = int(self._char_ids[ord(char)])
            rest = [-1] * (len(data) - 1)
            symbols += [token, *rest] if token >= 0 else self._byte_ids[list(data)].tolist()
        return np.array(symbols, np.int32)
