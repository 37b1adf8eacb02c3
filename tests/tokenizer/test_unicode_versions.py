"""Characters newer than the Unicode that the references follow; all values are Hugging Face's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ggufc.tokenizer.charsmap import CharsMap
from ggufc.tokenizer.dropped import normalize_nfc
from ggufc.tokenizer.pretokenizers import pretokenizer
from ggufc.tokenizer.splitting import splitter, stepwise_splitter
from ggufc.tokenizer.wordpiece import WordPieceModel
from tests.tokenizer.test_trained import document


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("llama-bpe", "a\u0558b", ["a", "\u0558b"]),
        ("llama-bpe", "x\U0001df2b y", ["x", "\U0001df2b", " y"]),
        ("llama-bpe", "1\U00011de02", ["1", "\U00011de0", "2"]),
        ("llama-bpe", "\U0003d000\U0002b73a", ["\U0003d000\U0002b73a"]),
        ("gpt-4o", "\u0295Ab", ["\u0295", "Ab"]),
        ("gpt-4o", "A\u0295b \u0295\u0295", ["A\u0295b", " \u0295\u0295"]),
        ("gpt-4o", "x\u0295Y\u0295y", ["x\u0295", "Y\u0295y"]),
    ],
)
def test_letters_newer_than_unicode_16_are_split_as_unassigned(
    pre: str, text: str, pieces: list[str]
) -> None:
    assert splitter(pretokenizer(pre))(text) == pieces
    assert stepwise_splitter(pretokenizer(pre))(text) == pieces


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("a\u1ddd\U0001133b\u0301", "a\u1ddd\U0001133b\u0301"),
        ("e\u0315\u08ca\u0301", "e\u0315\u08ca\u0301"),
        ("\U00011935\U00011930", "\U00011935\U00011930"),
        ("a\u0301\u0897\u0301", "\xe1\u0897\u0301"),
        ("e\u0301", "\xe9"),
    ],
)
def test_marks_newer_than_unicode_9_neither_move_nor_compose(text: str, normal: str) -> None:
    assert normalize_nfc(text) == normal


@pytest.mark.parametrize(
    ("text", "uncased", "cased"),
    [
        ("a\U00013437b", ["a\U00013437b"], ["a\U00013437b"]),
        ("a\u2e5db", ["a\u2e5db"], ["a\u2e5db"]),
        ("a\U000111c9b", ["a", "\U000111c9", "b"], ["a", "\U000111c9", "b"]),
        ("a\u1734b", ["ab"], ["a\u1734b"]),
        ("a\u166db", ["a", "\u166d", "b"], ["a", "\u166d", "b"]),
        ("a\u08cab", ["a\u08cab"], ["a\u08cab"]),
        ("\U00011938", ["\U00011938"], ["\U00011938"]),
    ],
)
def test_words_are_told_apart_by_unicode_8(text: str, uncased: list[str], cased: list[str]) -> None:
    assert _words(text, lowercase=True) == uncased
    assert _words(text, lowercase=False) == cased


def _words(text: str, lowercase: bool) -> list[str]:
    fields = {"_lowercase": lowercase, "_strip_accents": lowercase}
    return WordPieceModel.words(cast(Any, SimpleNamespace(**fields)), text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("e\u0301", "\xe9"),
        ("\uff21\u0301", "A"),
        ("\uff21\u0301\u0302", "A\u0301\u0302"),
        ("\u1112\u1161\u11ab", "\u1112\u1161\u11ab"),
        ("e\u0301\u0302\u0303", "e\u0301\u0302\u0303"),
        ("\ufb01x\r\n", "fix "),
        ("\u200b\u0301", " \u0301"),
    ],
)
def test_the_map_of_characters_goes_by_graphemes(text: str, normal: str) -> None:
    stored = document("trained")["unigram"]["metadata"]["tokenizer.ggml.precompiled_charsmap"]
    assert CharsMap(bytes(value & 255 for value in stored)).normalize(text) == normal
