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
    rows: dict[tuple[int | None, int | None], tuple[int, int]] = {}
    joined = [left + right for left, right in pairs]
    for text in joined:
        if text not in symbols:
            symbols[text] = vocab_size + len(virtual)
            virtual.append(text)
    look = symbols.get
    for rank, ((left, right), text) in enumerate(zip(pairs, joined, strict=True)):
        rows.setdefault((look(left), look(right)), (symbols[text], rank))
    kept = [
        (rank, left, right, result)
        for (left, right), (result, rank) in rows.items()
        if left is not None and right is not None
    ]
    return _in_order(kept, virtual)


def rules_from_scores(ids: dict[bytes, int], scores: Float32Array) -> MergeRules:
    """Rules of a scored vocabulary: any two tokens that join to a token, highest score first."""
    order = {score: rank for rank, score in enumerate(sorted(set(scores.tolist()), reverse=True))}
    known = {text.decode("utf-8", "surrogateescape"): token for text, token in ids.items()}
    look = known.get
    rows = []
    for text, token in known.items():
        rank = order[float(scores[token])]
        for cut in range(1, len(text)):
            left = look(text[:cut])
            if left is not None and (right := look(text[cut:])) is not None:
                rows.append((rank, left, right, token))
    return _in_order(rows, [])


def _in_order(rows: list[tuple[int, int, int, int]], virtual: list[bytes]) -> MergeRules:
    table = np.array(sorted(rows), np.int64).reshape(-1, 4).astype(np.int32)
    _, dense = np.unique(table[:, 0], return_inverse=True)
    left, right, result = (np.ascontiguousarray(table[:, i]) for i in range(1, 4))
    return MergeRules(left, right, result, dense.astype(np.int32), virtual)
