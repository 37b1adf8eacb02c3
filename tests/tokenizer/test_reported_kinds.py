"""More faults that users met in other tokenizers: white space beside control tokens, bytes that are
no text, long runs with a small stack."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ggufc.compiler.tokenizer_import import import_tokenizer
from ggufc.tokenizer import StreamDecoder
from ggufc.tokenizer.special_tokens import AddedTokens
from tests.support.cli import Capture, assert_one_line, run_here
from tests.support.shared import ROOT
from tests.support.small_vocabularies import byte_level, changed, sentencepiece, tokenizer_of
from tests.support.vocabularies import unpack, vocabulary

RIGHT, LEFT, NEITHER = 1, 2, 3
FLAGGED = AddedTokens(
    [("<|u|>", RIGHT), ("<|l|>", LEFT), ("<|n|>", NEITHER)], {RIGHT: "r", LEFT: "l"}
)


@pytest.mark.parametrize(
    ("text", "rest", "token"),
    [
        ("<|u|> \n hi", "hi", RIGHT),
        ("<|u|>hi", "hi", RIGHT),
        (" <|u|>hi", " hi", RIGHT),
        ("hi  <|l|>", "hi", LEFT),
        ("hi<|l|> x", "hi x", LEFT),
        ("<|n|> hi", " hi", NEITHER),
        ("hi <|n|>", "hi ", NEITHER),
    ],
)
def test_white_space_goes_where_a_token_is_flagged_and_is_no_condition(
    text: str, rest: str, token: int
) -> None:
    (match,) = FLAGGED.find(text)
    assert match.token == token
    assert text[: match.start] + text[match.end :] == rest


def test_the_first_space_is_undone_once() -> None:
    metadata = sentencepiece(["▁", "▁leading", "▁x"])
    for prefix, text in ((True, " leading x"), (False, "  leading x")):
        tokenizer = tokenizer_of(changed(metadata, add_space_prefix=prefix))
        ids = [metadata["tokenizer.ggml.tokens"].index(piece) for piece in ("▁", "▁leading", "▁x")]
        assert tokenizer.decode_text(ids) == text
        stream = StreamDecoder(tokenizer)
        joined = "".join(map(stream.add, ids)) + stream.finalize()
        assert joined == tokenizer.decode(ids).decode() == "  leading x"


@pytest.mark.parametrize(
    ("data", "byte", "offset"),
    [(b"\x41\xe2\x80", "0xe2", 1), (b"\xff", "0xff", 0), (b"\xed\xa0\xbd", "0xed", 0)],
)
def test_a_prompt_file_that_is_no_text(
    alphabet: Path, tmp_path: Path, capsys: Capture, data: bytes, byte: str, offset: int
) -> None:
    (tmp_path / "p").write_bytes(data)
    for flags in ((), ("--no-template",)):
        code, out, err = run_here(capsys, "run", alphabet, "-f", tmp_path / "p", *flags)
        assert (code, out) == (1, "")
        assert_one_line(err, f"byte {byte} at offset {offset} is not UTF-8")


HALVES: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "x \ud83d y"}]},
    {"messages": [{"role": "user", "content": "\udcf0"}]},
    {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "a\ud83d"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud83d"}]}]},
    {"messages": [{"role": "user\ud83d", "content": "x"}]},
]


def test_half_a_pair_in_json_is_an_error_of_its_line(tmp_path: Path, capsys: Capture) -> None:
    source = unpack("smollm2", tmp_path)
    good = '{"messages": [{"role": "user", "content": "\\ud83d\\ude00"}]}'
    (tmp_path / "l").write_text("\n".join([*map(json.dumps, HALVES), good]))
    code, out, _ = run_here(capsys, "render", source, "--jsonl", tmp_path / "l")
    assert code == 0
    *bad, last = map(json.loads, out.splitlines())
    for answer in bad:
        assert answer["error"]["kind"] == "invalid_request"
        assert "half of a surrogate pair" in answer["error"]["message"]
    assert "user\n😀<|im_end|>" in last["text"]


LONG = """
import json, sys, threading
from tests.support.vocabularies import vocabulary
from ggufc.runtime.prompt import ChatTemplate, Conversation
tokenizer = vocabulary(sys.argv[1])
for text in ("a", "X", ".", " ", "\\n", "日", "\\0", "7", "{'k':1},"):
    run = text * (60_000 // len(text))
    assert tokenizer.decode(tokenizer.encode(run, add_special=False)).decode().strip(" ") == (
        run.strip(" ")), text
chat = ChatTemplate({"chat_template": "{{ messages[0].content }}"})
assert len(chat.render(Conversation([{"role": "user", "content": "x" * 500_000}])).text) == 500_000
print("done")
"""


@pytest.mark.parametrize("name", ["qwen3", "mistral-v1"])
def test_long_runs_need_no_stack(name: str) -> None:
    """With a stack of one megabyte."""

    def small_stack() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))

    done = subprocess.run(
        [sys.executable, "-c", LONG, name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=small_stack,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("name", ["llama3.1", "qwen3", "smollm2"])
def test_two_hundred_thousand_digits(name: str) -> None:
    tokenizer = vocabulary(name)
    digits = "1234567890" * 20_000
    ids = tokenizer.encode(digits, add_special=False)
    assert tokenizer.decode(ids).decode() == digits
    assert len(ids) == (len(digits) + 2) // 3 if name == "llama3.1" else len(digits)


def test_token_zero_ends_nothing_unless_it_is_named() -> None:
    metadata = byte_level(["a", "b", "ab"], ["a b"])
    assert import_tokenizer(metadata).stop_ids == ()
    assert import_tokenizer(changed(metadata, eot_token_id=0)).stop_ids == (0,)
