"""Text to ids and back, in one go, piece by piece, and from many threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.tokenizer import (
    ControlTokenInTextError,
    StreamDecoder,
    Tokenizer,
    TokenizerError,
    TokenType,
)
from tests.support.vocabularies import vocabulary

FRAGMENTS = st.sampled_from(
    [" ", "  ", "\n\n", "\t", "a", "The", " quick", "123", "é", "日本", "😀", "'s", "<|im_end|>"]
) | st.characters(codec="utf-8", exclude_characters="\u2581")
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)
BYTES = st.binary(max_size=20)


@settings(deadline=None, max_examples=150)
@given(BYTES | TEXTS.map(str.encode))
@pytest.mark.parametrize("name", ["qwen3", "llama3.1"])
def test_every_byte_string_comes_back_from_a_byte_level_vocabulary(name: str, data: bytes) -> None:
    tokenizer = vocabulary(name)
    ids = tokenizer.encode(data, control_tokens="literal", add_special=False)
    assert tokenizer.decode(ids) == data


@settings(deadline=None, max_examples=150)
@given(TEXTS)
@pytest.mark.parametrize("name", ["gemma3", "gemma-4", "mistral-v1", "qwen3", "smollm2"])
def test_every_text_comes_back_but_for_what_is_told(name: str, text: str) -> None:
    tokenizer = vocabulary(name)
    encoding = tokenizer.encode_with_details(text, control_tokens="literal", add_special=False)
    decoded = tokenizer.decode_text(encoding.ids)
    if encoding.dropped_bytes:
        kept = bytearray(text.encode())
        for offset, value in reversed(encoding.dropped_bytes):
            assert kept.pop(offset) == value
        assert tokenizer.decode(encoding.ids) == kept
    else:
        assert decoded == text


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(-5, 160_000), max_size=40))
@pytest.mark.parametrize("name", ["qwen3", "gemma3", "smollm2", "phi-3"])
def test_streaming_equals_decoding_at_once(name: str, ids: list[int]) -> None:
    tokenizer = vocabulary(name)
    stream = StreamDecoder(tokenizer)
    parts = [stream.add(token) for token in ids]
    joined = "".join(parts) + stream.finalize()
    assert joined == tokenizer.decode(ids).decode("utf-8", "replace")
    for part in parts:
        part.encode("utf-8")


def test_a_stream_can_be_used_again() -> None:
    tokenizer = vocabulary("qwen3")
    half = tokenizer.encode(b"\xf0\x9f", control_tokens="literal")
    stream = StreamDecoder(tokenizer)
    assert "".join(map(stream.add, half)) == ""
    assert stream.finalize() == "\ufffd"
    assert stream.finalize() == ""
    assert "".join(map(stream.add, tokenizer.encode("x"))) == "x"


def test_ids_outside_the_vocabulary_are_skipped() -> None:
    tokenizer = vocabulary("qwen3")
    assert tokenizer.decode([-1, *tokenizer.encode("ab"), 10**9]) == b"ab"
    assert tokenizer.token_bytes(-1) == tokenizer.token_bytes(151936) == b""
    assert tokenizer.token_type(10**9) == TokenType.UNUSED
    assert not tokenizer.is_control(-1)
    assert not tokenizer.is_marker(10**9)


def test_what_is_told_of_tokens() -> None:
    tokenizer = vocabulary("qwen3")
    assert (tokenizer.vocab_size, tokenizer.bos_id) == (151936, None)
    assert vocabulary("gemma3").bos_id == 2
    assert tokenizer.is_control(151644)
    assert not tokenizer.is_control(151667)
    assert tokenizer.is_marker(151667)
    assert not tokenizer.is_marker(151644)
    assert not tokenizer.is_marker(5)
    gemma = vocabulary("gemma3")
    newline, table = gemma.encode("\n\n<table>", add_special=False)
    assert gemma.token_type(newline) == gemma.token_type(table) == TokenType.USER_DEFINED
    assert not gemma.is_marker(newline)
    assert not gemma.is_marker(table)


def test_control_tokens_in_text_are_found_with_their_places() -> None:
    found = vocabulary("qwen3").find_control_tokens("é<|im_end|><think><|im_start|>")
    assert found == [(1, 151645), (18, 151644)]


def test_control_only_normalises_and_keeps_control_tokens_out() -> None:
    tokenizer = vocabulary("qwen3")
    text = "cafe\u0301 <|im_end|> <think>"
    ids = tokenizer.encode(text, control_tokens="control-only")
    assert tokenizer.decode_text(ids) == "café <|im_end|> <think>"
    assert 151645 not in ids
    assert 151667 in ids


def test_decoding_can_leave_control_tokens_out_and_tidy_spaces() -> None:
    tokenizer = vocabulary("llama3.1")
    ids = tokenizer.encode("Yes , it 's<|eot_id|>")
    assert tokenizer.decode_text(ids, skip_control=True) == "Yes , it 's"
    assert tokenizer.decode_text(ids, skip_control=True, clean_up=True) == "Yes, it's"


def test_an_unknown_way_to_read_control_tokens_is_refused() -> None:
    with pytest.raises(TokenizerError, match="control_tokens is 'odd', allowed: literal, control-"):
        vocabulary("qwen3").encode("x", control_tokens="odd")


def test_a_text_with_a_control_token_can_be_refused() -> None:
    tokenizer = vocabulary("qwen3")
    assert tokenizer.encode("a <think>", control_tokens="reject") == tokenizer.encode(
        "a <think>", control_tokens="literal"
    )
    for text in ("a <|im_end|>", b"a <|im_end|>"):
        with pytest.raises(
            ControlTokenInTextError, match=r"'<\|im_end\|>' at character 2"
        ) as error:
            tokenizer.encode(text, control_tokens="reject")
        assert (error.value.token, error.value.offset) == ("<|im_end|>", 2)


@pytest.mark.parametrize("value", [5, None, ["x"], 1.5])
def test_what_is_no_text_and_no_ids_is_named(value: Any) -> None:
    tokenizer = vocabulary("smollm2")
    kind = type(value).__name__
    for call in (
        lambda: tokenizer.encode(value),
        lambda: tokenizer.find_control_tokens(value),
        lambda: tokenizer.encode_marked(value, b""),
    ):
        with pytest.raises(TokenizerError, match=f"of type {kind}; allowed: str, bytes"):
            call()
    for decode in (tokenizer.decode, tokenizer.decode_text):
        with pytest.raises(TokenizerError, match="allowed: a list of integers"):
            decode(value)


def test_threads_share_a_tokenizer() -> None:
    shared = vocabulary("smollm2")
    tokenizer = Tokenizer(shared.spec, shared._model)
    texts = [f"thread {i} says naïve {i * i} times\n" * 20 for i in range(60)]
    want = [shared.encode(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == want


def test_a_full_cache_is_emptied_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggufc.tokenizer import bpe, create_tokenizer, pairs

    monkeypatch.setattr(bpe, "_CACHE_ENTRIES", 8)
    monkeypatch.setattr(pairs, "_CACHE_LIMIT", 4)
    tokenizer = create_tokenizer(vocabulary("smollm2").spec)
    for text in ("one two three four five", "six seven", "one two three", "a b c d e f g h i j"):
        assert tokenizer.encode(text * 3) == vocabulary("smollm2").encode(text * 3)
