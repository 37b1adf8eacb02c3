"""Merging of one long piece in near-linear time, whatever it holds.

Symbols form a linked list. Pairs wait in buckets, one a rank; the lowest rank is taken first. Where
nothing that a rank makes can merge at that rank or an earlier one (the rank is *simple*, as most
are) the order inside the bucket does not matter but for overlaps, so many occurrences are merged by
array operations. Otherwise the leftmost goes first, and as many after it as make no pair that would
come before the next.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from ggufc.tokenizer.arrays import Int32Array, Int64Array
from ggufc.tokenizer.pairs import NO_RANK, PairTable

_NONE = -1
_NEVER = int(NO_RANK)
_BULK = 48
_WINDOW = 1 << 14
_PATIENCE = 256
_NOWHERE = np.zeros(0, np.int64)


def merge_long(symbols: Int32Array, table: PairTable) -> Int32Array:
    """The symbols of one piece after all merges: lowest rank first, leftmost of equal ones."""
    chain = _Chain(symbols, table)
    chain.run()
    return chain.remaining()


class _Waiting:
    """Places of one rank that must be merged from the left: those known first, ascending, and a
    heap of those that came later."""

    __slots__ = ("later", "patience", "places", "setbacks")

    def __init__(self, places: Int64Array, later: list[int]) -> None:
        self.places = places
        self.later = later
        self.patience = 0
        self.setbacks = 0

    def __bool__(self) -> bool:
        return len(self.places) > 0 or len(self.later) > 0

    def ready_for_bulk(self) -> bool:
        """Whether it is time to try many places at once."""
        if self.patience:
            self.patience -= 1
            return False
        return len(self.places) >= _BULK

    def lose_patience(self) -> None:
        """Puts the next try off, longer each time in a row."""
        self.setbacks = min(self.setbacks + 1, 8)
        self.patience = _PATIENCE << self.setbacks

    def window(self) -> Int64Array:
        """The next places of those known first that come before the later ones."""
        window = self.places[:_WINDOW]
        return window[: int(np.searchsorted(window, self.later[0]))] if self.later else window

    def pop(self) -> int:
        """The leftmost place."""
        if not len(self.places) or (self.later and self.later[0] < self.places[0]):
            return heappop(self.later)
        place = int(self.places[0])
        self.places = self.places[1:]
        return place

    def skip_through(self, place: int) -> None:
        """Drops the places up to this one."""
        self.places = self.places[int(np.searchsorted(self.places, place, "right")) :]


class _Chain:
    """A piece while it is merged. Arrays and their memoryviews share memory: the arrays serve
    bulk steps, the views single ones."""

    def __init__(self, symbols: Int32Array, table: PairTable) -> None:
        size = len(symbols)
        self._table = table
        self._simple = table.simple.data
        self._symbol = symbols.copy()
        self._next = np.arange(1, size + 1, dtype=np.int32)
        self._next[-1] = _NONE
        self._previous = np.arange(-1, size - 1, dtype=np.int32)
        self._rank = np.full(size, NO_RANK)
        self._result = np.zeros(size, np.int32)
        self._symbols, self._following = self._symbol.data, self._next.data
        self._preceding = self._previous.data
        self._ranks, self._results = self._rank.data, self._result.data
        self._buckets: dict[int, list[Int64Array | list[int]]] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._queue: list[int] = []
        self._renew(np.arange(size - 1))
        heapify(self._queue)

    def remaining(self) -> Int32Array:
        """The symbols still in the list."""
        return self._symbol[self._symbol >= 0]

    def run(self) -> None:
        """Merges until no pair has a rank."""
        while self._queue:
            rank = heappop(self._queue)
            if self._table.simple[rank]:
                self._merge_bucket(rank, self._buckets.pop(rank))
            else:
                self._merge_leftmost(rank)

    def _merge_bucket(self, rank: int, chunks: list[Int64Array | list[int]]) -> None:
        if sum(map(len, chunks)) >= _BULK:
            places = _ascending(np.concatenate([np.asarray(c, np.int64) for c in chunks]))
            self._merge_all(places[self._rank[places] == rank])
            return
        ranks = self._ranks
        for place in sorted({int(place) for chunk in chunks for place in chunk}):
            if ranks[place] == rank:
                self._merge_one(place, rank)

    def _merge_leftmost(self, rank: int) -> None:
        """Merges from the left as long as nothing that is made comes before the rest."""
        waiting, ranks, queue = self._waiting[rank], self._ranks, self._queue
        while waiting and not (queue and queue[0] <= rank):
            if waiting.ready_for_bulk() and self._merge_window(rank, waiting):
                continue
            place = waiting.pop()
            if ranks[place] == rank:
                self._merge_one(place, rank)
        if waiting:
            heappush(queue, rank)
        else:
            del self._waiting[rank]

    def _merge_window(self, rank: int, waiting: _Waiting) -> bool:
        """Merges the next places in bulk, up to the first whose result can merge at this rank or
        before; false if that is not worth it."""
        window = waiting.window()
        alive = window[self._rank[window] == rank]
        chosen = self._without_overlaps(alive)
        count = self._unhindered(chosen, rank) if len(chosen) >= _BULK // 2 else 0
        if count < _BULK // 2:
            waiting.lose_patience()
            return False
        waiting.setbacks = 0
        done = chosen[:count]
        waiting.skip_through(int(done[-1]) if count < len(chosen) else int(window[-1]))
        self._merge_places(done)
        return True

    def _unhindered(self, places: Int64Array, rank: int) -> int:
        """How many of these places, merged from the left, make only pairs that come later.

        The last of them may make one that does not: it then comes next in any case.
        """
        made = self._result[places]
        gone = self._next[places]
        after, before = self._next[gone], self._previous[places]
        left = self._symbol[before]
        touching = before[1:] == gone[:-1]
        left[1:][touching] = made[:-1][touching]
        early = np.zeros(len(places), bool)
        for near, pairs in ((after, (made, self._symbol[after])), (before, (left, made))):
            inside = near != _NONE
            found, _ = self._table.find(pairs[0][inside], pairs[1][inside])
            early[inside] |= found <= rank
        return int(np.argmax(early)) + 1 if early.any() else len(places)

    def _put(self, rank: int, places: Int64Array) -> None:
        if not self._table.simple[rank]:
            for place in places.tolist() if rank in self._waiting else ():
                heappush(self._waiting[rank].later, place)
            if rank not in self._waiting:
                self._waiting[rank] = _Waiting(places, [])
                heappush(self._queue, rank)
        elif rank in self._buckets:
            self._buckets[rank].append(places)
        else:
            self._buckets[rank] = [places]
            heappush(self._queue, rank)

    def _put_one(self, rank: int, place: int) -> None:
        if not self._simple[rank]:
            waiting = self._waiting.get(rank)
            if waiting is not None:
                heappush(waiting.later, place)
                return
            self._waiting[rank] = _Waiting(_NOWHERE, [place])
        else:
            bucket = self._buckets.get(rank)
            if bucket is not None:
                if isinstance(bucket[-1], list):
                    bucket[-1].append(place)
                else:
                    bucket.append([place])
                return
            self._buckets[rank] = [[place]]
        heappush(self._queue, rank)

    def _merge_one(self, place: int, rank: int) -> None:
        """Merges at one place of this rank, then what comes of it for as long as that is next:
        before all that waits, which is of this rank and to the right, or in the queue."""
        following, previous, queue = self._following, self._preceding, self._queue
        while True:
            self._join(place)
            before, after = previous[place], following[place]
            right = self._renew_one(place, after) if after != _NONE else _NEVER
            left = self._renew_one(before, place) if before != _NONE else _NEVER
            leftwards = left <= right
            best = left if leftwards else right
            if best > rank or (queue and queue[0] <= best):
                break
            other = right if leftwards else left
            if other != _NEVER:
                self._put_one(other, place if leftwards else before)
            place = before if leftwards else place
        if right != _NEVER:
            self._put_one(right, place)
        if left != _NEVER:
            self._put_one(left, before)

    def _join(self, place: int) -> None:
        symbol, following = self._symbols, self._following
        gone = following[place]
        after = following[gone]
        symbol[place] = self._results[place]
        symbol[gone] = _NONE
        self._ranks[place] = self._ranks[gone] = _NEVER
        following[place] = after
        if after != _NONE:
            self._preceding[after] = place

    def _renew_one(self, place: int, after: int) -> int:
        found = self._table.one(self._symbols[place], self._symbols[after])
        if found is None:
            self._ranks[place] = _NEVER
            return _NEVER
        self._ranks[place], self._results[place] = found
        return found[0]

    def _merge_all(self, places: Int64Array) -> None:
        self._merge_places(self._without_overlaps(places))

    def _merge_places(self, places: Int64Array) -> None:
        gone = self._next[places]
        after = self._next[gone]
        self._symbol[places] = self._result[places]
        self._symbol[gone] = _NONE
        self._rank[gone] = NO_RANK
        self._next[places] = after
        inside = after != _NONE
        self._previous[after[inside]] = places[inside]
        before = self._previous[places]
        self._renew(_ascending(np.concatenate((places, before[before != _NONE]))))

    def _without_overlaps(self, places: Int64Array) -> Int64Array:
        """Every other place of each run of overlapping pairs."""
        linked = np.zeros(len(places), bool)
        linked[1:] = self._next[places[:-1]] == places[1:]
        index = np.arange(len(places))
        run_start = np.maximum.accumulate(np.where(linked, 0, index))
        chosen: Int64Array = places[(index - run_start) % 2 == 0]
        return chosen

    def _renew(self, places: Int64Array) -> None:
        """Looks up the pairs that begin at these places and puts them into their buckets."""
        last = self._next[places] == _NONE
        self._rank[places[last]] = NO_RANK
        places = places[~last]
        rank, result = self._table.find(self._symbol[places], self._symbol[self._next[places]])
        self._rank[places], self._result[places] = rank, result
        merging = rank != NO_RANK
        places, rank = places[merging], rank[merging]
        order = np.argsort(rank, kind="stable")
        places, rank = places[order], rank[order]
        borders = np.flatnonzero(np.diff(rank)) + 1
        for chunk in np.split(places, borders) if len(places) else ():
            self._put(int(self._rank[chunk[0]]), chunk)


def _ascending(places: Int64Array) -> Int64Array:
    """The places in order, each once. (Faster than np.unique, which hashes.)"""
    ordered = np.sort(places)
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    once: Int64Array = ordered[fresh]
    return once
