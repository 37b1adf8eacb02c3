"""Merging against its definition: over and over the lowest rank, the leftmost of equal ones."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from ggufc.tokenizer import long_merging, merging
from ggufc.tokenizer.build import rule_arrays
from ggufc.tokenizer.merging import NumpyMerger
from ggufc.tokenizer.pairs import PairTable
from ggufc.tokenizer.rules import MergeRules, rules_from_pairs, rules_from_scores
from tests.support.vocabularies import vocabulary


def merged_by_definition(symbols: list[int], rules: MergeRules) -> list[int]:
    """What is left of one piece when nothing merges any more."""
    columns = (rules.left, rules.right, rules.rank, rules.result)
    known = {(a, b): (k, r) for a, b, k, r in zip(*(c.tolist() for c in columns), strict=True)}
    symbols = list(symbols)
    while True:
        pairs = enumerate(pairwise(symbols))
        found = [(known[pair][0], i, known[pair][1]) for i, pair in pairs if pair in known]
        if not found:
            return symbols
        _, i, result = min(found)
        symbols[i : i + 2] = [result]


def random_texts(rng: random.Random, letters: bytes) -> list[bytes]:
    """Random tokens, each the sum of two others or one letter, in random order."""
    texts = {bytes([letter]) for letter in letters}
    for _ in range(rng.randint(1, 25)):
        both = rng.choice(sorted(texts)) + rng.choice(sorted(texts))
        if len(both) <= 8:
            texts.add(both)
    order = sorted(texts)
    rng.shuffle(order)
    return order


def random_rules(rng: random.Random, texts: list[bytes]) -> MergeRules:
    """Rules by scores, with and without ties, or by a list, in any order."""
    ids = {text: token for token, text in enumerate(texts)}
    if rng.random() < 0.5:
        levels = rng.choice([2, 30])
        scores = np.array([rng.randint(0, levels) for _ in texts], np.float32)
        return rules_from_scores(ids, scores)
    pairs = [(text[:i], text[i:]) for text in texts for i in range(1, len(text))]
    rng.shuffle(pairs)
    if rng.random() < 0.5:
        pairs.sort(key=lambda pair: len(pair[0] + pair[1]))
    known = {t: i for t, i in ids.items() if len(t) == 1 or rng.random() < 0.8}
    return rules_from_pairs(pairs[: rng.randint(1, 60)], known, len(texts))


def random_piece(rng: random.Random, letters: bytes) -> bytes:
    """Random letters, or a short pattern over and over."""
    size = rng.choice([0, 1, 2, 5, 20, 60])
    if rng.random() < 0.6:
        return bytes(rng.choice(letters) for _ in range(size))
    pattern = bytes(rng.choice(letters) for _ in range(rng.randint(1, 3)))
    return (pattern * size)[:size]


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Sizes so small that every way through the long merger is taken."""
    rng = random.Random(0)
    monkeypatch.setattr(long_merging, "_BULK", 4)
    monkeypatch.setattr(long_merging, "_WINDOW", 8)
    monkeypatch.setattr(long_merging, "_PATIENCE", 1)
    monkeypatch.setattr(merging, "LONG_PIECE", 3)
    return rng


@pytest.mark.parametrize("seed", range(8))
def test_short_and_long_pieces_merge_as_defined(seed: int, small_steps: random.Random) -> None:
    rng = small_steps
    rng.seed(seed)
    for _ in range(60):
        letters = b"abc"[: rng.randint(1, 3)]
        texts = random_texts(rng, letters)
        rules = random_rules(rng, texts)
        merger = NumpyMerger(PairTable(rule_arrays(rules, len(texts))))
        pieces = [random_piece(rng, letters) for _ in range(rng.randint(1, 6))]
        initial = [[texts.index(bytes([byte])) for byte in piece] for piece in pieces]
        flat = np.array([symbol for piece in initial for symbol in piece], np.int32)
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        out, sizes = merger.merge(flat, lengths)
        got = np.split(out, np.cumsum(sizes)[:-1])
        want = [merged_by_definition(piece, rules) for piece in initial]
        assert [piece.tolist() for piece in got] == want


def test_short_pieces_merge_as_defined_with_the_real_sizes() -> None:
    rng = random.Random(7)
    texts = random_texts(rng, b"abc")
    rules = random_rules(rng, texts)
    merger = NumpyMerger(PairTable(rule_arrays(rules, len(texts))))
    pieces = [random_piece(rng, b"abc") for _ in range(200)]
    initial = [[texts.index(bytes([byte])) for byte in piece] for piece in pieces]
    flat = np.array([symbol for piece in initial for symbol in piece], np.int32)
    out, sizes = merger.merge(flat, np.array([len(p) for p in pieces], np.int64))
    want = [symbol for piece in initial for symbol in merged_by_definition(piece, rules)]
    assert out.tolist() == want
    assert int(sizes.sum()) == len(want)


@pytest.mark.parametrize("name", ["qwen3", "smollm2", "gemma-4", "mistral-v1", "llama3.1"])
@pytest.mark.parametrize("char", ["a", "X", ".", " ", "\n", "日", "\0", "<", "é", "1"])
def test_work_on_a_run_grows_as_its_length(name: str, char: str) -> None:
    """Pairs looked up, per character, for runs of 5,000 and 20,000 characters."""
    tokenizer = vocabulary(name)
    pairs = tokenizer._model._encoder.pairs  # type: ignore[attr-defined]
    work = []
    for size in (5_000, 20_000):
        before = pairs.lookups
        tokenizer.encode(char * size, add_special=False)
        work.append((pairs.lookups - before) / size)
    assert work[1] <= 1.5 * work[0] + 0.1
    assert work[1] < 60


def test_a_run_of_letters_is_cut_like_shorter_ones() -> None:
    tokenizer = vocabulary("qwen3")
    token = tokenizer.encode("aaaaaaaa")
    assert tokenizer.encode("a" * 80_000) == token * (80_000 // 8 // len(token))
