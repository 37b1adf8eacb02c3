"""From metadata to a spec: what is checked, what is assumed where a key is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import SpecError, TokenType
from tests.support.small_vocabularies import (
    PREFIX,
    byte_level,
    changed,
    sentencepiece,
    texts_of,
    tokenizer_of,
)

BPE = byte_level(["a", "b", "c", "bc", "abc"], ["b c"], ["<|x|>"])
SPM = sentencepiece(["▁", "a", "b", "▁a"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing; known: gpt2, llama"),
        ({"model": "rwkv"}, "tokenizer.ggml.model is 'rwkv'; known: gpt2, llama"),
        ({"model": 3}, "tokenizer.ggml.model is 3, a string is wanted"),
        ({"pre": None}, "tokenizer.ggml.pre is missing"),
        ({"pre": "no-such"}, "tokenizer.ggml.pre is 'no-such'"),
        ({"pre": "whitespace"}, "tokenizer.ggml.pre is 'whitespace', which says"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokens": []}, "tokenizer.ggml.tokens is empty"),
        ({"tokens": "abc"}, "tokenizer.ggml.tokens is 'abc', an array is wanted"),
        ({"tokens": [1, 2]}, "tokenizer.ggml.tokens is not an array of strings"),
        ({"token_type": [1, 1, 1]}, "tokenizer.ggml.token_type has 3 values, wanted 6"),
        ({"token_type": np.ones(6, np.uint8)}, "tokenizer.ggml.token_type has elements of 1 bytes"),
        ({"token_type": [1.5] * 6}, "tokenizer.ggml.token_type is not an array of integers"),
        ({"scores": [0.0] * 5}, "tokenizer.ggml.scores has 5 values, wanted 6"),
        ({"scores": [float("nan")] * 6}, "tokenizer.ggml.scores has a value that is no finite"),
        ({"merges": None}, "tokenizer.ggml.merges is missing"),
        ({"merges": []}, "tokenizer.ggml.merges is empty"),
        ({"merges": ["bc"]}, "tokenizer.ggml.merges entry 0 is b'bc', two parts are wanted"),
        ({"merges": ["b c", " c"]}, "tokenizer.ggml.merges entry 1 is b' c'"),
        ({"eos_token_id": 4294967295}, "tokenizer.ggml.eos_token_id is 4294967295, allowed are 0"),
        ({"bos_token_id": 6}, "tokenizer.ggml.bos_token_id is 6, allowed are 0 to 5"),
        ({"eot_token_id": -1}, "tokenizer.ggml.eot_token_id is -1, allowed are 0 to 5"),
        ({"bos_token_id": "1"}, "tokenizer.ggml.bos_token_id is '1', an integer is wanted"),
        ({"bos_token_id": True}, "tokenizer.ggml.bos_token_id is True, an integer is wanted"),
        ({"add_bos_token": 1}, "tokenizer.ggml.add_bos_token is 1, a bool is wanted"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        import_tokenizer(changed(BPE, **keys))
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_byte_token_must_be_spelled_as_one() -> None:
    texts = list(SPM[PREFIX + "tokens"])
    texts[10] = "seven"
    with pytest.raises(SpecError, match=r"token_type calls token 10 a byte"):
        import_tokenizer(changed(SPM, tokens=texts))


def test_a_unigram_vocabulary_needs_scores_and_an_unknown_token() -> None:
    metadata = {PREFIX + "model": "t5", PREFIX + "tokens": ["a", "b"]}
    with pytest.raises(SpecError, match=r"scores is missing"):
        import_tokenizer(metadata)
    with pytest.raises(SpecError, match=r"unknown_token_id is missing"):
        import_tokenizer({**metadata, PREFIX + "scores": [0.0, 0.0]})


@pytest.mark.parametrize("blob", [b"\1", b"\xff\xff\xff\xff", b"\4\0\0\0\0\0\0\0abc"])
def test_a_damaged_character_map_is_refused(blob: bytes) -> None:
    metadata = {
        PREFIX + "model": "t5",
        PREFIX + "tokens": ["<unk>", "a"],
        PREFIX + "scores": [0.0, 0.0],
        PREFIX + "precompiled_charsmap": list(blob),
    }
    with pytest.raises(SpecError, match="precompiled_charsmap"):
        tokenizer_of(metadata)


@pytest.mark.parametrize("kind", [int, np.uint32, np.int32, np.uint64, np.int64])
def test_ids_may_be_any_integer(kind: Any) -> None:
    assert import_tokenizer(changed(BPE, bos_token_id=kind(5))).special["bos"] == 5


def test_strings_may_be_bytes_or_text_with_surrogates() -> None:
    tokens = [b"a", "b", "c", b"bc", "a\udcffz", "<|x|>"]
    tokenizer = tokenizer_of(changed(BPE, tokens=tokens))
    assert tokenizer.token_bytes(4) == b"a\xffz"
    assert tokenizer.encode("bcb") == [3, 1]


def test_missing_types_are_told_from_the_texts() -> None:
    spec = import_tokenizer(changed(SPM, token_type=None))
    assert spec.types[0] == spec.types[1] == TokenType.CONTROL
    assert (spec.types[3:259] == TokenType.BYTE).all()
    assert (spec.types[259:] == TokenType.NORMAL).all()
    assert import_tokenizer(changed(BPE, token_type=None)).types[5] == TokenType.CONTROL


def test_unknown_types_are_unused() -> None:
    types = [1, 1, 1, 1, 77, 3]
    assert import_tokenizer(changed(BPE, token_type=types)).types[4] == TokenType.UNUSED


def test_forgotten_markers_are_control_tokens_but_real_types_stand() -> None:
    tokens = ["a", "<|im_start|>", "<|im_end|>", "</s>", "<|think|>"]
    metadata = changed(BPE, tokens=tokens, merges=["a a"], eos_token_id=3)
    forgotten = import_tokenizer(changed(metadata, token_type=[1] * 5))
    assert forgotten.types.tolist() == [1, 3, 3, 3, 1]
    stated = import_tokenizer(changed(metadata, token_type=[1, 4, 4, 4, 4]))
    assert stated.types.tolist() == [1, 4, 4, 4, 4]


def test_an_ordinary_end_token_is_no_control_token() -> None:
    spec = import_tokenizer(changed(BPE, token_type=[1] * 6, eos_token_id=0))
    assert spec.types[0] == TokenType.NORMAL
    assert spec.stop_ids == (0,)


def test_empty_tokens_never_match() -> None:
    tokenizer = tokenizer_of(changed(BPE, tokens=["a", "b", "", "bc", "abc", "<|x|>"]))
    assert texts_of(tokenizer, tokenizer.encode("ab<|x|>")) == ["a", "b", "<|x|>"]


def test_a_merge_of_unknown_pieces_is_left_out() -> None:
    tokenizer = tokenizer_of(changed(BPE, merges=["q z", "qz b", "b c"]))
    assert texts_of(tokenizer, tokenizer.encode("abc")) == ["a", "bc"]


def test_a_merge_may_make_what_is_no_token() -> None:
    """What ends outside the vocabulary becomes one token a byte; it keeps others from merging."""
    tokenizer = tokenizer_of(byte_level(["a", "b", "c", "bc"], ["a b", "b c"]))
    assert texts_of(tokenizer, tokenizer.encode("abc")) == ["a", "b", "c"]
    assert texts_of(tokenizer, tokenizer.encode("bc")) == ["bc"]


def test_no_merge_makes_a_control_token() -> None:
    tokenizer = tokenizer_of(byte_level(["<", "s", ">", "<s"], ["< s", "<s >"], ["<s>"]))
    assert tokenizer.encode("<s>") == [4]
    assert tokenizer.encode("<s>", control_tokens="literal") == [0, 1, 2]
    scored = tokenizer_of(sentencepiece(["<", "s", ">", "<s"], add_space_prefix=False))
    ids = scored.encode("<s>", control_tokens="literal", add_special=False)
    assert texts_of(scored, ids) == ["<s", ">"]


def test_a_merge_splits_at_its_first_space_and_ranks_by_its_place() -> None:
    tokenizer = tokenizer_of(byte_level(["a", "b", "ab", "ba"], ["b a", "a b"]))
    assert texts_of(tokenizer, tokenizer.encode("aba")) == ["a", "ba"]
    again = tokenizer_of(byte_level(["a", "b", "ab", "ba"], ["a b", "b a", "a b"]))
    assert texts_of(again, again.encode("aba")) == ["ab", "a"]


def test_a_vocabulary_without_merges_merges_by_token_number() -> None:
    metadata = byte_level(["a", "b", "c", "bc", "ab"], ["a b"], pre="kimi-k2")
    tokenizer = tokenizer_of(changed(metadata, merges=None))
    assert texts_of(tokenizer, tokenizer.encode("abc")) == ["a", "bc"]
