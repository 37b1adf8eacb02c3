"""Faults that users met in other tokenizers, each as small as it gets, with the right answer."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import DroppedBytesError, StreamDecoder, TextError, Tokenizer
from tests.support.small_vocabularies import (
    byte_level,
    changed,
    sentencepiece,
    texts_of,
    tokenizer_of,
)
from tests.support.vocabularies import vocabulary

WORDS = sentencepiece(["▁", "t", "e", "x", "▁▁", "te", "xt", "text", "▁text", "l", "a", "d", "▁x"])


def literal(tokenizer: Tokenizer, text: str) -> list[str]:
    """What the ids of a literal text stand for."""
    ids = tokenizer.encode(text, control_tokens="literal", add_special=False)
    return texts_of(tokenizer, ids)


def test_whole_words_are_looked_up_only_where_the_family_does() -> None:
    metadata = byte_level(["a", "b", "c", "bc", "abc"], ["b c"])
    for pre, pieces in (("llama-bpe", ["abc"]), ("qwen2", ["a", "bc"])):
        tokenizer = tokenizer_of(changed(metadata, pre=pre, add_bos_token=False))
        assert literal(tokenizer, "abc") == pieces


def test_digits_group_as_the_family_says() -> None:
    threes = vocabulary("llama3.1").encode("1234567", add_special=False)
    assert texts_of(vocabulary("llama3.1"), threes) == ["123", "456", "7"]
    assert len(vocabulary("qwen3").encode("1234567")) == 7


def test_control_tokens_take_white_space_only_where_the_family_says() -> None:
    texts = ["<|u|>", "<|l|>", "<|n|>"]
    metadata = sentencepiece(["▁", "h", "i", "hi", "▁hi", "▁▁"], add_space_prefix=False)
    tokens = [*metadata["tokenizer.ggml.tokens"], *texts]
    types = [*metadata["tokenizer.ggml.token_type"], 3, 3, 3]
    scores = [*metadata["tokenizer.ggml.scores"], 0.0, 0.0, 0.0]
    keys = {"tokens": tokens, "token_type": types, "scores": scores}
    plain = tokenizer_of(changed(metadata, **keys))
    eager = tokenizer_of({**changed(metadata, **keys), "general.architecture": "phi3"})

    def read(tokenizer: Tokenizer, text: str) -> list[str]:
        return texts_of(tokenizer, tokenizer.encode(text, add_special=False))

    assert read(plain, "<|u|> \n hi") == ["<|u|>", " ", "\n", " hi"]
    assert read(eager, "<|u|> \n hi") == ["<|u|>", "hi"]
    assert read(eager, "<|u|>hi") == ["<|u|>", "hi"]
    assert read(eager, "hi  <|l|>") == ["hi", "  ", "<|l|>"]


def test_white_space_on_both_sides_for_phi_4() -> None:
    metadata = byte_level(["h", "i", "Ġ"], ["h i"], ["<|n|>"], pre="dbrx", add_bos_token=False)
    spaced = tokenizer_of(metadata)
    assert len(spaced.encode("h  <|n|> i")) == 6
    eager = tokenizer_of({**metadata, "general.architecture": "phi3"})
    assert texts_of(eager, eager.encode("h  <|n|> i")) == ["h", "<|n|>", "i"]


@pytest.mark.parametrize(
    ("keys", "pieces"),
    [
        ({"add_space_prefix": True}, [" text"]),
        ({"add_space_prefix": False}, ["text"]),
        ({}, [" text"]),
    ],
)
def test_the_space_before_a_text(keys: dict[str, bool], pieces: list[str]) -> None:
    tokenizer = tokenizer_of(changed(WORDS, **keys))
    assert literal(tokenizer, "text") == pieces
    assert tokenizer.encode("", add_special=False) == []
    assert tokenizer.encode("") == [1]
    inside = texts_of(tokenizer, tokenizer.encode("<s>text</s>", add_special=False))
    assert inside == ["<s>", *pieces, "</s>"]


@settings(deadline=None, max_examples=120)
@given(st.text(st.sampled_from("tex lad"), max_size=12), st.sampled_from([True, False]))
def test_spaces_survive_a_round_trip(text: str, prefix: bool) -> None:
    tokenizer = PREFIXED if prefix else UNPREFIXED
    ids = tokenizer.encode(text, add_special=False)
    for _ in range(3):
        decoded = tokenizer.decode_text(ids)
        assert decoded == text
        ids = tokenizer.encode(decoded, add_special=False)
    stream = StreamDecoder(tokenizer)
    joined = "".join(map(stream.add, ids)) + stream.finalize()
    assert joined == tokenizer.decode(ids).decode()


PREFIXED = tokenizer_of(changed(WORDS, add_space_prefix=True))
UNPREFIXED = tokenizer_of(changed(WORDS, add_space_prefix=False))


def test_half_a_surrogate_pair_is_refused_with_its_place() -> None:
    tokenizer = vocabulary("qwen3")
    for text, mode in product(("x \ud83d y", "\udcf0", "a\udfff"), ("native", "literal")):
        with pytest.raises(TextError, match="half of a surrogate pair") as error:
            tokenizer.encode(text, control_tokens=mode)
        assert 0xD800 <= ord(text[error.value.offset]) <= 0xDFFF
    assert tokenizer.decode_text(tokenizer.encode("\U0001f600")) == "😀"


@pytest.mark.parametrize("data", [b"\x41\xe2\x80", b"\xff", b"\xed\xa0\xbd", b"ok \xf0\x9f"])
def test_bytes_that_are_no_text_can_be_encoded_as_bytes(data: bytes) -> None:
    for name in ("qwen3", "gemma3", "gemma-4"):
        tokenizer = vocabulary(name)
        ids = tokenizer.encode(data, control_tokens="literal", add_special=False)
        assert tokenizer.decode(ids) == data


def test_one_unbroken_run_of_json() -> None:
    text = '{"a":[' + ",".join(f'{{"k{i}":{i}}}' for i in range(900)) + "]}"
    tokenizer = vocabulary("qwen3")
    assert tokenizer.decode_text(tokenizer.encode(text)) == text


HANGUL = tokenizer_of(sentencepiece([*"a<0xEA>", "▁"], add_space_prefix=False))


def test_characters_outside_the_vocabulary_become_their_bytes() -> None:
    ids = HANGUL.encode("깰a", add_special=False)
    assert HANGUL.decode(ids) == "깰a".encode()
    assert [HANGUL.token_type(token).name for token in ids] == ["BYTE", "BYTE", "BYTE", "NORMAL"]
    assert HANGUL.decode_text(ids[1:]) == "\ufffd\ufffda"
    assert literal(HANGUL, "<0xEA>") == list("<0xEA>")


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=6))
def test_any_text_comes_back_through_bytes(text: str) -> None:
    ids = HANGUL.encode(text.replace("\u2581", ""), control_tokens="literal")
    stream = StreamDecoder(HANGUL)
    joined = "".join(map(stream.add, ids[1:])) + stream.finalize()
    assert joined == HANGUL.decode_text(ids[1:]) == text.replace("\u2581", "")


def test_without_byte_tokens_there_is_the_unknown_token() -> None:
    metadata = sentencepiece(["a", "b"], add_space_prefix=False)
    kept = [0, 1, 2, 259, 260]
    rows = {name: metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type")}
    fewer = changed(metadata, **{name: [row[i] for i in kept] for name, row in rows.items()})
    tokenizer = tokenizer_of(fewer)
    assert tokenizer.encode("a깰깰b", add_special=False) == [3, 0, 4]
    silent = changed(fewer, tokens=["x1", "x2", "x3", "a", "b"], unknown_token_id=None)
    encoding = tokenizer_of(silent).encode_with_details("a깰b", add_special=False)
    assert encoding.ids == [3, 4]
    assert encoding.dropped_bytes == [(1, 0xEA), (2, 0xB9), (3, 0xB0)]


@pytest.mark.parametrize(("add", "count"), [(True, 1), (False, 0), (None, 1)])
def test_one_begin_token_and_none_that_was_typed_is_eaten(add: bool | None, count: int) -> None:
    tokenizer = tokenizer_of(changed(WORDS, add_bos_token=add))
    assert tokenizer.encode("text").count(1) == count
    assert tokenizer.encode("<s>text").count(1) == count + 1
    assert tokenizer.encode("<s>text", add_special=False).count(1) == 1
    assert "<" not in texts_of(tokenizer, tokenizer.encode("<s>text"))


def test_end_tokens_are_those_named_and_those_well_known() -> None:
    tokens = ["a", "</s>", "<|im_end|>", "<|eot_id|>", "<|end|>"]
    metadata = byte_level(tokens, ["a a"], eos_token_id=1)
    for types in ([1] * 5, [1, 3, 3, 3, 3]):
        stops = import_tokenizer(changed(metadata, token_type=types)).stop_ids
        assert stops == (1, 2, 3, 4)
    with_eot = import_tokenizer(changed(metadata, eot_token_id=2)).stop_ids
    assert with_eot == (1, 2, 3, 4)


def test_words_that_only_look_like_an_end_token_do_not_stop() -> None:
    spec = import_tokenizer(byte_level(list("<|end>"), ["< |"], ["</s>"], eos_token_id=6))
    assert spec.stop_ids == (6,)


def test_dropped_bytes_are_told_and_can_be_refused() -> None:
    tokenizer = vocabulary("smollm2")
    assert len(tokenizer.spec.missing_bytes) == 21
    encoding = tokenizer.encode_with_details("é\x04b<|im_end|>\x06")
    assert encoding.ids == tokenizer.encode("éb<|im_end|>")
    assert encoding.dropped_bytes == [(2, 4), (14, 6)]
    with pytest.raises(DroppedBytesError, match="byte 0x04 at byte offset 2 has no token"):
        tokenizer.encode_with_details("é\x04b", strict=True)
    assert tokenizer.encode_with_details("plain", strict=True).dropped_bytes == []


def test_normalisation_in_native_text_only() -> None:
    tokenizer = vocabulary("qwen3")
    text = "cafe\u0301"
    assert tokenizer.encode(text) == tokenizer.encode("café")
    raw = tokenizer.encode(text, control_tokens="literal")
    assert raw != tokenizer.encode(text)
    assert tokenizer.decode_text(raw) == text
