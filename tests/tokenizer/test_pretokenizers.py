"""The table of pre-tokenizers and the splitting that it describes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.tokenizer import SpecError
from ggufc.tokenizer.pretokenizers import KNOWN_NAMES, TABLE, PreTokenizer, pretokenizer
from ggufc.tokenizer.splitting import splitter, stepwise_splitter

LETTERS = " \n\r\tab1٣²éS.,!-_漢かー・ア゛ßΩ\0\u200b😀ÀǄ\u3000()/[]|$'s"
TEXTS = st.text(st.sampled_from(LETTERS + "\u0301\u3040\u30ff"), max_size=14)


def split(name: str, text: str) -> list[str]:
    """The pieces of a text."""
    return splitter(pretokenizer(name))(text)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
@settings(deadline=None, max_examples=60)
@given(text=TEXTS)
def test_pieces_join_to_the_text_and_the_quick_way_splits_alike(
    row: PreTokenizer, text: str
) -> None:
    pieces = splitter(row)(text)
    assert "".join(pieces) == text
    assert all(pieces)
    assert pieces == stepwise_splitter(row)(text)


def test_every_name_is_in_one_row() -> None:
    assert len(KNOWN_NAMES) == len(set(KNOWN_NAMES)) == sum(len(row.names) for row in TABLE)
    assert len(KNOWN_NAMES) > 85


@pytest.mark.parametrize("name", ["no-such", "", "LLAMA-BPE"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SpecError) as error:
        pretokenizer(name)
    assert f"tokenizer.ggml.pre is {name!r}" in str(error.value)
    assert all(known in str(error.value) for known in KNOWN_NAMES)


def test_a_missing_name_is_refused() -> None:
    with pytest.raises(SpecError, match=r"tokenizer\.ggml\.pre is missing"):
        pretokenizer(None)


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("llama-bpe", "1234567", ["123", "456", "7"]),
        ("llama-bpe", "I'LL go", ["I", "'LL", " go"]),
        ("llama-bpe", "  x\n\n y", [" ", " x", "\n\n", " y"]),
        ("llama-bpe", "नमस्ते", ["नमस", "्त", "े"]),
        ("qwen2", "1234567", list("1234567")),
        ("qwen35", "नमस्ते", ["नमस्ते"]),
        ("gpt-2", "I'LL 12 ", ["I", "'", "LL", " 12", " "]),
        ("smollm", "a 12", ["a", " ", "1", "2"]),
        ("gpt-4o", "HelloWorld's", ["Hello", "World's"]),
        ("gpt-4o", "x's 'ſ", ["x's", " '", "ſ"]),
        ("tekken", "HelloWorld12", ["Hello", "World", "1", "2"]),
        ("falcon", "a12345b", ["a", "123", "45", "b"]),
        ("kimi-k2", "漢字abc12345", ["漢字", "abc", "123", "45"]),
        ("afmoe", "1234567", ["1", "234", "567"]),
        ("tiny_aya", "1234567 1234x", ["1", "234", "567", " ", "123", "4", "x"]),
        ("tiny_aya", "1²", ["1²"]),
        ("tiny_aya", "1234²5", ["123", "4²", "5"]),
        ("tiny_aya", "1234\u200d5", ["1", "234", "\u200d", "5"]),
        ("superbpe", "1²", ["1²"]),
        ("superbpe", "12345½", ["12", "345½"]),
        ("superbpe", "½123456 7", ["½", "123", "456", " ", "7"]),
        ("superbpe", "a b 12345", ["a b ", "12", "345"]),
        ("bloom", "a, b", ["a", ",", " b"]),
        ("deepseek-v3", "12345漢字x", ["123", "45", "漢字", "x"]),
        ("qwen2", "it'ſ", ["it", "'ſ"]),
    ],
)
def test_families_split_as_their_own_tokenizers_do(name: str, text: str, pieces: list[str]) -> None:
    assert split(name, text) == pieces


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
@pytest.mark.parametrize("char", [" ", "a", "1", ".", "\n", "漢"])
def test_long_runs_are_split_without_recursion(row: PreTokenizer, char: str) -> None:
    text = char * 20_000 + "x"
    assert "".join(splitter(row)(text)) == text


def test_the_page_about_families_is_what_the_tables_say() -> None:
    from ggufc.tokenizer.tables import page
    from tests.support.shared import ROOT

    assert (ROOT / "docs" / "tokenizers.md").read_text(encoding="utf-8") == page()
