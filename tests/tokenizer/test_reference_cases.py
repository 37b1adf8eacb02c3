"""Ids, bytes and streams of real vocabularies against Hugging Face tokenizers and llama.cpp."""

from __future__ import annotations

from typing import Any

import pytest

from ggufc.tokenizer import StreamDecoder, Tokenizer
from tests.support.vocabularies import VOCABULARIES, expectations, read_json, vocabulary


def encoded(tokenizer: Tokenizer, case: dict[str, Any]) -> list[int]:
    """The ids of a case's text, read the way the case says."""
    return tokenizer.encode(
        case["text"],
        control_tokens="native" if case["parse_special"] else "literal",
        add_special=case["add_special"],
    )


def expected(case: dict[str, Any], ids: list[int]) -> list[int]:
    """`ids`, or for literal text what the reference gives without normalisation."""
    return ids if case["parse_special"] else case.get("hf_without_nfc", ids)


def preferred(case: dict[str, Any]) -> list[int]:
    """Which of two references is right: the model's own tokenizer, but for what a control token
    is, which the file's own types say."""
    by_type = case["why"].startswith("special-flag")
    return expected(case, case["llama"] if by_type else case["hf"])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_text_has_the_ids_of_the_references(name: str) -> None:
    tokenizer = vocabulary(name)
    cases = expectations(name)["cases"]
    wrong = [c["name"] for c in cases if encoded(tokenizer, c) != expected(c, c["ids"])]
    assert len(cases) > 200
    assert not wrong


@pytest.mark.parametrize("name", VOCABULARIES)
def test_where_the_references_disagree_the_models_own_is_followed(name: str) -> None:
    rows = read_json("disagreements.json.xz", "prompt/tokenizer/disagreements.json")
    cases = [case for case in rows if case["vocab"] == name]
    if not cases:
        return
    tokenizer = vocabulary(name)
    wrong = [(c["name"], c["why"]) for c in cases if encoded(tokenizer, c) != preferred(c)]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("  \u2581", [139]),
        ("\u2581 ", [138]),
        ("\u2581\u2581 \u2581", [138, 138]),
        (" \u2581\u2581", [236743, 138]),
        ("a \u2581 b", [236746, 139, 236763]),
        (" \u2581  ", [140]),
        ("\u2581  \u2581", [140]),
        ("  \u2581\u00e9", [139, 236859]),
        ("   ", [139]),
        ("\u2581" * 3, [139]),
        (" " * 32, [167, 236743]),
    ],
)
def test_runs_of_spaces_and_marks(text: str, ids: list[int]) -> None:
    """As the file of Gemma 3's own tokenizer gives them: its runs are spelled with marks and
    looked for in the text as it is; spaces become marks after that."""
    assert vocabulary("gemma3").encode(text, add_special=False) == ids


@pytest.mark.parametrize("name", VOCABULARIES)
def test_tokens_stand_for_their_bytes(name: str) -> None:
    tokenizer = vocabulary(name)
    for row in expectations(name)["tokens"]:
        assert tokenizer.token_bytes(row["id"]).hex() == row["bytes_hex"], row
        assert tokenizer.token_type(row["id"]) == row["type"], row


@pytest.mark.parametrize("name", VOCABULARIES)
def test_sequences_decode_to_their_bytes(name: str) -> None:
    tokenizer = vocabulary(name)
    for row in expectations(name)["sequences"]:
        assert tokenizer.decode(row["ids"]).hex() == row["bytes_hex"], row["name"]
        # DeepSeek's added tokens such as 'ø' are spelled in the byte-level alphabet by accident,
        # and its own decoder takes them for bytes; the bytes above are what they stand for.
        if name != "deepseek-llm":
            assert tokenizer.decode_text(row["ids"]) == row["hf_decode"], row["name"]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_streams_emit_complete_characters_as_soon_as_they_are(name: str) -> None:
    tokenizer = vocabulary(name)
    for row in expectations(name)["streaming"]:
        stream = StreamDecoder(tokenizer)
        assert [stream.add(token) for token in row["ids"]] == row["emit"], row["name"]
        assert stream.finalize() == row["final_flush"], row["name"]


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("qwen3", {151645, 151643}),
        ("smollm2", {0, 2}),
        ("gemma3", {1, 106}),
        ("gemma-4", {1, 50, 106}),
        ("llama3.1", {128001, 128008, 128009}),
        ("phi-3", {32000, 32007}),
        ("gpt-oss", {199999, 200002, 200012}),
        ("mistral-v1", {2}),
    ],
)
def test_the_stop_set_is_what_ends_a_turn(name: str, stops: set[int]) -> None:
    assert vocabulary(name).stop_ids == stops
