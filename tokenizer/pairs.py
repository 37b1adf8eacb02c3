"""The merge rules of a vocabulary, and the lookups that merging needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggufc.tokenizer.arrays import Int32Array, Int64Array, find_rows, pair_hash, pair_hashes

NO_RANK = np.int32(np.iinfo(np.int32).max)
_CACHE_LIMIT = 1 << 18


class PairTable:
    """Which pairs of symbols merge, at what rank, into what.

    Looks pairs up in bulk (`find`) or one at a time (`one`, which remembers); counts in
    `lookups` how many pairs it was asked for.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._left: Int32Array = arrays["merge_left"]
        self._right: Int32Array = arrays["merge_right"]
        self._result: Int32Array = arrays["merge_result"]
        self._rank: Int32Array = arrays["merge_rank"]
        self._slots: Int32Array = arrays["pair_slots"]
        self.simple: NDArray[np.uint8] = arrays["rank_simple"]
        self._views = [
            np.ascontiguousarray(array).data
            for array in (self._slots, self._left, self._right, self._rank, self._result)
        ]
        self._known: dict[tuple[int, int], tuple[int, int] | None] = {}
        self.lookups = 0

    def find(self, left: Int32Array, right: Int32Array) -> tuple[Int32Array, Int32Array]:
        """Rank and result of each pair; `NO_RANK` and an arbitrary result where none merges."""
        self.lookups += len(left)

        def equal(queries: Int64Array, rows: Int64Array) -> NDArray[np.bool_]:
            same: NDArray[np.bool_] = self._left[rows] == left[queries]
            same &= self._right[rows] == right[queries]
            return same

        rows = find_rows(self._slots, pair_hashes(left, right), equal)
        if not len(self._rank):
            return np.full(len(rows), NO_RANK), rows
        rank = np.where(rows < 0, NO_RANK, self._rank[rows])
        return rank, self._result[rows]

    def one(self, left: int, right: int) -> tuple[int, int] | None:
        """Rank and result of one pair, None where it does not merge."""
        self.lookups += 1
        pair = left, right
        try:
            return self._known[pair]
        except KeyError:
            if len(self._known) >= _CACHE_LIMIT:
                self._known = {}
            found = self._known[pair] = self._probe(left, right)
            return found

    def _probe(self, left: int, right: int) -> tuple[int, int] | None:
        slots, lefts, rights, ranks, results = self._views
        mask = len(slots) - 1
        place = pair_hash(left, right) & mask
        while (row := slots[place]) >= 0:
            if lefts[row] == left and rights[row] == right:
                return ranks[row], results[row]
            place = (place + 1) & mask
        return None
