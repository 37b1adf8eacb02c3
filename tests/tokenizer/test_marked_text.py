"""Prompts of which the template wrote some characters: no content becomes a control token."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.tokenizer import Tokenizer, TokenizerError
from tests.support.shared import shared_fixtures
from tests.support.vocabularies import DATA, read_json, vocabulary


def injection_files() -> list[str]:
    """The names of all files of conversations, here and beside the repository."""
    names = {path.name.removesuffix(".xz") for path in (DATA / "injection").iterdir()}
    shared = shared_fixtures()
    if shared is not None:
        names |= {path.name for path in (shared / "prompt" / "injection").iterdir()}
    return sorted(names)


def marks_of(spans: list[dict[str, Any]]) -> bytes:
    """One byte a character: 1 where the template wrote it."""
    return b"".join((b"\0" if span["content"] else b"\1") * len(span["text"]) for span in spans)


@pytest.mark.parametrize("name", injection_files())
def test_conversations_with_control_tokens_in_content(name: str) -> None:
    document = read_json(f"injection/{name}.xz", f"prompt/injection/{name}")
    tokenizer = vocabulary(document["vocab"])
    cases = [case for case in document["cases"] if "rendered" in case]
    assert cases
    for case in cases:
        text, marks = case["rendered"], marks_of(case["spans"])
        loose = tokenizer.encode_marked(text, marks, policy="control-only")
        assert loose.ids == case["ids_joint"], case["name"]
        assert bool(loose.control_in_content) == case["refuse_rendered"], case["name"]
        literal = tokenizer.encode_marked(text, marks)
        assert controls(tokenizer, literal.ids) == case["control_ids"], case["name"]
        native = tokenizer.encode_marked(text, marks, policy="native")
        assert native.ids == case["ids_unsafe"], case["name"]


def controls(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The control tokens among ids."""
    return [token for token in ids if tokenizer.is_control(token)]


def seeds() -> Any:
    """Texts, conversations and spans over Qwen3's vocabulary."""
    return read_json("seeds.json.xz", "prompt/seeds.json")


def test_seed_texts() -> None:
    tokenizer = vocabulary("qwen3")
    for row in seeds()["corpus52"]:
        assert tokenizer.encode(row["text"]) == row["ids"], row["text"]
    for row in seeds()["octlm_texts"]:
        assert tokenizer.encode(row["text"]) == row["native"]
        assert tokenizer.encode(row["text"], control_tokens="literal") == row["literal"]
    for row in seeds()["chats"]:
        assert tokenizer.encode(row["text"]) == row["ids"]


def around(content: str) -> tuple[str, bytes]:
    """A user turn with this content, and its marks."""
    head, tail = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    return head + content + tail, b"\1" * len(head) + b"\0" * len(content) + b"\1" * len(tail)


def test_seed_provenance() -> None:
    tokenizer = vocabulary("qwen3")
    for row in seeds()["provenance"]:
        text, marks = around(row["content"])
        assert tokenizer.encode_marked(text, marks).ids == row["masked_safe"]
        native = tokenizer.encode_marked(text, marks, policy="native")
        assert native.ids == row["chatml_native_unsafe"]


def test_markers_are_matched_in_what_the_assistant_wrote() -> None:
    tokenizer = vocabulary("qwen3")
    text, marks = around("<think>x</think>")
    think, end = 151667, 151668
    own = bytes(mark ^ 1 for mark in marks)
    literal = tokenizer.encode_marked(text, marks).ids
    assert think not in literal
    assert end not in literal
    replayed = tokenizer.encode_marked(text, marks, assistant=own).ids
    assert replayed.count(think) == replayed.count(end) == 1
    anywhere = tokenizer.encode_marked(text, marks, policy="control-only").ids
    assert anywhere == replayed


def test_the_assistants_own_text_still_forges_no_control_token() -> None:
    tokenizer = vocabulary("qwen3")
    text, marks = around("<|im_end|>")
    own = bytes(mark ^ 1 for mark in marks)
    ids = tokenizer.encode_marked(text, marks, assistant=own).ids
    assert controls(tokenizer, ids) == [151644, 151645, 151644]


def test_a_token_half_written_by_content_is_told_and_not_matched() -> None:
    tokenizer = vocabulary("qwen3")
    text, marks = "<|im_" + "end|>x", b"\1" * 5 + b"\0" * 6
    encoding = tokenizer.encode_marked(text, marks)
    assert controls(tokenizer, encoding.ids) == []
    assert encoding.control_in_content == [(0, 151645)]


def test_white_space_and_plain_text_tokens_match_in_any_text() -> None:
    tokenizer = vocabulary("gemma3")
    text = "<table>\n\n\n    x\t\t</table>"
    content = tokenizer.encode_marked(text, bytes(len(text)))
    assert content.ids == tokenizer.encode(text, add_special=False)


def test_marks_must_fit_the_text() -> None:
    with pytest.raises(TokenizerError, match="authored_by_template has 2 entries"):
        vocabulary("qwen3").encode_marked("abc", b"\1\1")
    with pytest.raises(TokenizerError, match="policy is 'odd', allowed: literal"):
        vocabulary("qwen3").encode_marked("a", b"\1", policy="odd")  # type: ignore[arg-type]


FRAGMENTS = st.sampled_from(
    "<|im_start|> <|im_end|> <|im_ end|> start|> < | > <think> </think> <tool_call> user x é 日 "
    "<|endoftext|> <|<|im_end|>".split()
) | st.sampled_from(["\n", " ", "e\u0301"])
SPANS = st.lists(st.tuples(st.lists(FRAGMENTS, max_size=4).map("".join), st.booleans()), max_size=8)


@settings(deadline=None, max_examples=300)
@given(SPANS)
def test_no_control_token_comes_from_content(spans: list[tuple[str, bool]]) -> None:
    """The control tokens of a prompt are those of the template's own stretches, at most."""
    tokenizer = vocabulary("qwen3")
    text = "".join(part for part, _ in spans)
    marks = b"".join((b"\1" if template else b"\0") * len(part) for part, template in spans)
    found = controls(tokenizer, tokenizer.encode_marked(text, marks).ids)
    assert found == [token for part in stretches(spans) for token in spelled(tokenizer, part)]


def stretches(spans: list[tuple[str, bool]]) -> list[str]:
    """What the template wrote without interruption."""
    joined = "".join(part if template else "\0" * len(part) for part, template in spans)
    return joined.split("\0")


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """The control tokens in a text that the template wrote."""
    return controls(tokenizer, tokenizer.encode(text))


HARMLESS = st.text(st.sampled_from("ab \n\t'é日<>|.1?"), max_size=30)


@settings(deadline=None, max_examples=200)
@given(HARMLESS, HARMLESS)
def test_harmless_content_has_the_ids_of_the_plain_text(first: str, second: str) -> None:
    tokenizer = vocabulary("qwen3")
    text, marks = around(first)
    more, others = around(second)
    whole = tokenizer.encode_marked(text + more, marks + others)
    assert whole.ids == tokenizer.encode(text + more)
    assert whole.control_in_content == []


def test_encoding_says_what_it_found_as_plain_values() -> None:
    text, marks = around("<|im_end|>")
    encoding = vocabulary("qwen3").encode_marked(text, marks)
    assert json.loads(json.dumps(encoding.control_in_content)) == [[17, 151645]]
