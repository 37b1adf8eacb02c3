"""Merge rules: which pairs of symbols become which symbol, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggufc.tokenizer.arrays import Float32Array, Int32Array


@dataclass
class MergeRules:
    """Rules in order of rank: left, right, result, rank (equal ranks: the leftmost pair first).

    `virtual`: the texts of results that are no token; their symbols follow the vocabulary's.
    """

    left: Int32Array
    right: Int32Array
    result: Int32Array
    rank: Int32Array
    virtual: list[bytes]


def rules_from_pairs(
    pairs: Sequence[tuple[bytes, bytes]], ids: dict[bytes, int], vocab_size: int
) -> MergeRules:
    """Rules of a merge list; the rank of a pair is its place, the first place of equal ones.

    A pair with a part that is neither a token nor made by another merge can never occur and is
    left out.
    """
    symbols = dict(ids)
    virtual: list[bytes] = []
    for left, right in pairs:
        if left + right not in symbols:
            symbols[left + right] = vocab_size + len(virtual)
            virtual.append(left + right)
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, (left, right) in enumerate(pairs):
        pair = symbols.get(left), symbols.get(right)
        if pair[0] is not None and pair[1] is not None:
            rows.setdefault((pair[0], pair[1]), (symbols[left + right], rank))
    return _in_order([(rank, *pair, result) for pair, (result, rank) in rows.items()], virtual)


def rules_from_scores(ids: dict[bytes, int], scores: Float32Array) -> MergeRules:
    """Rules of a scored vocabulary: any two tokens that join to a token, highest score first."""
    order = {score: rank for rank, score in enumerate(sorted(set(scores.tolist()), reverse=True))}
    rows = []
    for text, token in ids.items():
        rank = order[float(scores[token])]
        for cut in _cuts(text):
            left, right = ids.get(text[:cut]), ids.get(text[cut:])
            if left is not None and right is not None:
                rows.append((rank, left, right, token))
    return _in_order(rows, [])


def _cuts(text: bytes) -> list[int]:
    """Places inside the text where a character begins."""
    return [i for i in range(1, len(text)) if text[i] & 0xC0 != 0x80]


def _in_order(rows: list[tuple[int, int, int, int]], virtual: list[bytes]) -> MergeRules:
    table = np.array(sorted(rows), np.int64).reshape(-1, 4).astype(np.int32)
    _, dense = np.unique(table[:, 0], return_inverse=True)
    columns = [np.ascontiguousarray(table[:, i]) for i in range(1, 4)]
    return MergeRules(*columns, rank=dense.astype(np.int32), virtual=virtual)
