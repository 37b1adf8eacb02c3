"""Array types and the open-addressing tables that a vocabulary is looked up in.

A table is an int32 array of slots, a power of two long, that hold row numbers or -1. A row lies at
`hash & mask` or at the next free slot after it, so a search ends at the row or at -1. Tables are
written once, at compile time, and mapped at start: nothing is built when a tokenizer is loaded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
UInt32Array = NDArray[np.uint32]
UInt8Array = NDArray[np.uint8]
Float32Array = NDArray[np.float32]
Int64Array = NDArray[np.int64]

NO_ROW = -1

_LEFT_FACTOR = 0x9E3779B1
_RIGHT_FACTOR = 0x85EBCA77
_WORD = 0xFFFFFFFF


def slot_count(rows: int) -> int:
    """Slots of a table of `rows` rows: a power of two, at most half full."""
    return max(16, 1 << (2 * rows - 1).bit_length()) if rows else 16


def build_slots(hashes: UInt32Array) -> Int32Array:
    """Slots for rows 0..n-1 with these hashes; the same rows give the same slots everywhere."""
    slots = np.full(slot_count(len(hashes)), NO_ROW, np.int32)
    mask = len(slots) - 1
    rows = np.arange(len(hashes), dtype=np.int32)
    places = hashes.astype(np.int64) & mask
    while len(rows):
        free = slots[places] == NO_ROW
        wanted, first = np.unique(places[free], return_index=True)
        winners = np.flatnonzero(free)[first]
        slots[wanted] = rows[winners]
        left = np.ones(len(rows), bool)
        left[winners] = False
        rows, places = rows[left], (places[left] + 1) & mask
    return slots


def find_rows(
    slots: Int32Array,
    hashes: UInt32Array,
    equal: Callable[[Int64Array, Int64Array], NDArray[np.bool_]],
) -> Int32Array:
    """The row of each key, -1 where there is none.

    `equal(queries, rows)` says for pairs of numbers whether that query's key is that row's.
    """
    mask = len(slots) - 1
    found = np.full(len(hashes), NO_ROW, np.int32)
    queries = np.arange(len(hashes), dtype=np.int64)
    places = hashes.astype(np.int64) & mask
    for _ in range(len(slots)):
        rows = slots[places].astype(np.int64)
        occupied = rows != NO_ROW
        queries, places, rows = queries[occupied], places[occupied], rows[occupied]
        if not len(queries):
            break
        same = equal(queries, rows)
        found[queries[same]] = rows[same]
        other = ~same
        queries, places = queries[other], (places[other] + 1) & mask
    return found


def pair_hashes(left: Int32Array, right: Int32Array) -> UInt32Array:
    """Hash of each (left, right) pair of symbols, as uint32; equal to `pair_hash` of each."""
    mixed = left.astype(np.uint32) * np.uint32(_LEFT_FACTOR)
    mixed ^= right.astype(np.uint32) * np.uint32(_RIGHT_FACTOR)
    return mixed ^ (mixed >> np.uint32(15))


def pair_hash(left: int, right: int) -> int:
    """Hash of one pair, see `pair_hashes`."""
    mixed = ((left * _LEFT_FACTOR) ^ (right * _RIGHT_FACTOR)) & _WORD
    return mixed ^ (mixed >> 15)
