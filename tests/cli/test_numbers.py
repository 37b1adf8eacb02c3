"""Numbers on the command line are decimal ones in ASCII, wherever they stand."""

from __future__ import annotations

import argparse

import pytest

from ggufc.cli.numbers import integer, number, token_ids
from ggufc.runtime.errors import ArgumentError
from tests.support.cli import Capture, assert_one_line, run_here

# What Python's own int and float read, and what no person means by a number.
ODD = ["1_0", "+1", " 1", "1 ", "\u0661", "\uff11", "", "-", "--1", "0x10", "1" * 20]


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-1", -1), ("007", 7), ("9" * 19, 10**19 - 1)]
)
def test_integers(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize("text", [*ODD, "1.0", "1e3"])
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not an integer such as 8"):
        integer(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0.8", 0.8), ("1", 1.0), (".5", 0.5), ("2.", 2.0), ("-1e-3", -0.001)]
)
def test_numbers(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", [*ODD[:10], "nan", "inf", "-inf", "1e", "1e99999", "1,5"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a number such as 0\.8"):
        number(text)


@pytest.mark.parametrize(
    ("text", "ids"), [("1,2,3", [1, 2, 3]), ("[1, 2]", [1, 2]), (" 5\n6\t7 ", [5, 6, 7]), ("", [])]
)
def test_token_ids(text: str, ids: list[int]) -> None:
    assert token_ids(text) == ids


@pytest.mark.parametrize("word", ["1_0", "+1", "\u0661", "x", "1.0", "--1", "1" * 20])
def test_what_is_no_token_id(word: str) -> None:
    with pytest.raises(ArgumentError, match="is not a token id; numbers such as 1,2,3 are wanted"):
        token_ids(f"1,{word}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "x", "-n", "1_0"),
        ("run", "x", "-t", "\u0661"),
        ("run", "x", "-c", "+64"),
        ("run", "x", "--top-k", "1_0"),
        ("run", "x", "--seed", "0x5"),
        ("run", "x", "--temp", "1_0.5"),
        ("run", "x", "--top-p", "nan"),
        ("run", "x", "--min-p", "\uff11"),
        ("chat", "x", "-n", "1_0"),
        ("compile", "x", "-c", "1_000"),
        ("compile", "x", "--max-batch", "+1"),
        ("logits", "x", "--ids", "1", "--chunk", "1_0"),
        ("logits", "x", "--ids", "1_0", "-o", "y"),
        ("verify", "x", "-t", "1_0"),
        ("bench", "x", "-p", "1_0"),
    ],
)
def test_everywhere(capsys: Capture, arguments: tuple[str, ...]) -> None:
    code, out, err = run_here(capsys, *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, "is not a")
