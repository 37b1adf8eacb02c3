"""Small vocabularies against the libraries that trained them.

`trained.json`: Unigram by SentencePiece (with its own normalisation, with and without byte tokens)
and WordPiece, with the ids of SentencePiece and Hugging Face tokenizers for texts of many kinds;
where the two differ (how the map of characters is applied), Hugging Face's are right but for
byte tokens that a text spells, which are no bytes. `tiny.json`: the
512-token vocabularies of the tiny models.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from typing import Any

import pytest

from ggufc.tokenizer import Tokenizer
from tests.support.small_vocabularies import tokenizer_of
from tests.support.vocabularies import DATA


@cache
def document(name: str) -> Any:
    """One of the data files."""
    return json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))


@cache
def trained(name: str) -> Tokenizer:
    """The tokenizer of one trained vocabulary."""
    return tokenizer_of(document("trained")[name]["metadata"])


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text alone."""
    return tokenizer.encode(text, add_special=False)


@pytest.mark.parametrize("name", ["unigram", "unigram-bytes"])
def test_unigram_as_hugging_face(name: str) -> None:
    rows = document("trained")[name]["rows"]
    assert len(rows) > 150
    wanted = [(row["text"], row["sp" if "<0x" in row["text"] else "hf"]) for row in rows]
    assert [text for text, right in wanted if ids(trained(name), text) != right] == []


def test_the_unigram_families_separate_words_at_any_white_space() -> None:
    metadata = document("trained")["unigram-bytes"]["metadata"]
    bert = tokenizer_of({**metadata, "general.architecture": "nomic-bert-moe"})
    assert ids(bert, "a\x85b") == ids(bert, "a b")
    assert ids(trained("unigram-bytes"), "a\x85b") != ids(bert, "a b")
    assert ids(bert, "a \u2581b  c \x85") == ids(bert, "a b c")


@pytest.mark.parametrize("name", ["wordpiece-uncased", "wordpiece-cased"])
def test_wordpiece_as_hugging_face(name: str) -> None:
    rows = document("trained")[name]["rows"]
    assert len(rows) > 150
    assert [row["text"] for row in rows if ids(trained(name), row["text"]) != row["hf"]] == []


def test_begin_and_end_of_the_other_kinds() -> None:
    unigram = trained("unigram")
    assert unigram.encode("x") == [*ids(unigram, "x"), 1]
    words = trained("wordpiece-cased")
    assert words.encode("x") == [2, *ids(words, "x"), 3]


def test_added_tokens_of_the_other_kinds() -> None:
    assert trained("wordpiece-uncased").encode("a [MASK] b").count(4) == 1
    literal = trained("wordpiece-uncased").encode("a [MASK] b", control_tokens="literal")
    assert literal.count(4) == 0
    unigram = trained("unigram")
    think = [token for token in range(10) if unigram.token_text(token) == "<think>"]
    assert set(think) <= set(ids(unigram, "a<think>b"))


def test_decoding_undoes_the_space_before_a_text() -> None:
    for name in ("unigram-bytes", "wordpiece-cased"):
        tokenizer = trained(name)
        assert tokenizer.decode_text(ids(tokenizer, "the class is")).strip() == "the class is"
    assert trained("unigram-bytes").decode_text(ids(trained("unigram-bytes"), "a b")) == "a b"


@pytest.mark.parametrize("char", ["a", "日", " ", "\0", "."])
def test_long_runs(char: str) -> None:
    for name in ("unigram", "unigram-bytes", "wordpiece-cased"):
        trained(name).encode(char * 20_000)


@pytest.mark.parametrize("name", ["bpe-gpt2", "bpe-llama", "bpe-qwen2", "spm", "bpe-gemma"])
def test_the_vocabularies_of_the_tiny_models(name: str) -> None:
    entry = document("tiny")[name]
    tokenizer = tokenizer_of(entry["metadata"])
    assert len(entry["rows"]) == 20
    for row in entry["rows"]:
        assert ids(tokenizer, row["text"]) == row["ids"], row["text"]
