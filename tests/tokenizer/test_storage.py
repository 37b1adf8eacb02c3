"""The stored form of a vocabulary: the same again, the same bytes, and nothing trusted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import SpecError, TokenizerSpec, create_tokenizer, load_tokenizer
from ggufc.tokenizer.arrays import build_slots, find_rows, pair_hash, pair_hashes
from tests.support.small_vocabularies import byte_level, sentencepiece
from tests.support.vocabularies import expectations, vocabulary

SMALL = import_tokenizer(sentencepiece(["▁", "a", "b", "ab", "▁a"], ["<think>", "  "]))
TEXTS = ["a abba <think>  b", "日本 x", "", "<s>ab</s>"]


def stored(spec: TokenizerSpec, folder: Path) -> Path:
    """A folder with the spec in it."""
    folder.mkdir()
    spec.save(folder)
    return folder


@pytest.mark.parametrize("name", ["smollm2", "qwen3", "gemma3", "gemma-4", "phi-3"])
def test_a_loaded_tokenizer_encodes_alike(name: str, tmp_path: Path) -> None:
    original = vocabulary(name)
    loaded = load_tokenizer(stored(original.spec, tmp_path / name))
    assert loaded.spec.config() == original.spec.config()
    assert set(loaded.spec.arrays) == set(original.spec.arrays)
    for case in expectations(name)["cases"][::7]:
        assert loaded.encode(case["text"]) == original.encode(case["text"])
    for token in range(0, loaded.vocab_size, 999):
        assert loaded.token_bytes(token) == original.token_bytes(token)


def test_a_vocabulary_is_stored_in_the_same_bytes_again(tmp_path: Path) -> None:
    first = stored(SMALL, tmp_path / "first")
    again = stored(TokenizerSpec.load(first), tmp_path / "again")
    for name in ("tokenizer.json", "tokenizer.bin"):
        assert (first / name).read_bytes() == (again / name).read_bytes()


def test_a_spec_gives_back_what_it_was_made_of() -> None:
    spec = import_tokenizer(byte_level(["a", "b", "Ġ", "ab", "Ġab"], ["a b", "Ġ ab"], ["<|x|>"]))
    assert spec.tokens == [b"a", b"b", b" ", b"ab", b" ab", b"<|x|>"]
    assert spec.types.tolist() == [1, 1, 1, 1, 1, 3]
    assert spec.merges == [(0, 1), (2, 3)]
    assert spec.scores is None
    assert spec.vocab_size == 6


def test_files_that_are_missing_or_of_another_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"tokenizer\.json: cannot be read"):
        load_tokenizer(tmp_path)
    folder = stored(SMALL, tmp_path / "t")
    document = json.loads((folder / "tokenizer.json").read_text())
    for broken, message in (
        ({**document, "format": 2}, "format 2, this version reads format 1"),
        ({**document, "arrays": 3}, "the arrays or config section is missing"),
        ([], "format 'list'"),
        ({**document, "config": {}}, "is missing or not known"),
    ):
        (folder / "tokenizer.json").write_text(json.dumps(broken))
        with pytest.raises(SpecError, match=message):
            load_tokenizer(folder)
    (folder / "tokenizer.json").write_text("[" * 100_000)
    with pytest.raises(SpecError, match="cannot be read"):
        load_tokenizer(folder)


@pytest.mark.parametrize("field", sorted(SMALL.config()))
def test_each_field_is_checked(field: str, tmp_path: Path) -> None:
    folder = stored(SMALL, tmp_path / "t")
    document = json.loads((folder / "tokenizer.json").read_text())
    document["config"][field] = {"odd": 10**9}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"field '{field}'"):
        load_tokenizer(folder)


@pytest.mark.parametrize("cut", [0, 1, 64, 1000, -1])
def test_a_cut_file_is_refused(cut: int, tmp_path: Path) -> None:
    folder = stored(SMALL, tmp_path / "t")
    data = (folder / "tokenizer.bin").read_bytes()
    (folder / "tokenizer.bin").write_bytes(data[:cut])
    with pytest.raises(SpecError, match=r"tokenizer\.bin"):
        load_tokenizer(folder)


def test_no_damage_does_more_than_change_ids(tmp_path: Path) -> None:
    """Flipped bytes are refused, or give other ids; never an exception of another kind."""
    folder = stored(SMALL, tmp_path / "t")
    data = (folder / "tokenizer.bin").read_bytes()
    rng = random.Random(1)
    refused = 0
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 4])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (folder / "tokenizer.bin").write_bytes(damaged)
        try:
            tokenizer = load_tokenizer(folder)
        except SpecError:
            refused += 1
            continue
        for text in TEXTS:
            tokenizer.decode(tokenizer.encode(text))
    assert refused > 20


def test_loading_builds_no_tables(tmp_path: Path) -> None:
    """The arrays of a loaded spec are views of the mapped file."""
    spec = TokenizerSpec.load(stored(vocabulary("smollm2").spec, tmp_path / "t"))
    for name, array in spec.arrays.items():
        assert array.size == 0 or not array.flags.owndata, name
    create_tokenizer(spec).encode("Hello")


def test_a_table_finds_every_row_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 1 << 32, 3000, np.uint32))
    hashes = keys % np.uint32(997)
    slots = build_slots(hashes)

    def rows(wanted: np.ndarray) -> list[int]:
        found = find_rows(slots, wanted % np.uint32(997), lambda q, r: keys[r] == wanted[q])
        return list(found.tolist())

    assert rows(keys) == list(range(len(keys)))
    assert rows(np.setdiff1d(rng.integers(0, 1 << 32, 500, np.uint32), keys)) == [-1] * 500
    assert len(find_rows(slots, hashes[:0], lambda q, r: q == r)) == 0


def test_one_pair_hashes_as_many_do() -> None:
    left = np.array([0, 1, 262143, 2**31 - 1], np.int32)
    right = np.array([5, 0, 262142, 2**31 - 1], np.int32)
    one = [pair_hash(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    assert pair_hashes(left, right).tolist() == one
