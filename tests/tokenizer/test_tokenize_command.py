"""`ggufc tokenize`, on files that hold only a vocabulary and on stored vocabularies."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Capture, assert_one_line, run_here, run_program
from tests.support.vocabularies import expectations, unpack, vocabulary


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file with nothing but SmolLM2's vocabulary."""
    return unpack("smollm2", tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with SmolLM2's vocabulary, which lacks some bytes."""
    folder = tmp_path_factory.mktemp("smollm2")
    vocabulary("smollm2").spec.save(folder)
    return folder


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Qwen3's vocabulary as a bundle has it."""
    folder = tmp_path_factory.mktemp("qwen3")
    vocabulary("qwen3").spec.save(folder)
    return folder


def lines(capsys: Capture, model: Path, requests: list[Any], folder: Path) -> list[Any]:
    """The results of many requests."""
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    code, out, err = run_here(capsys, "tokenize", model, "--jsonl", path)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_json_has_ids_tokens_and_what_was_dropped(capsys: Capture, smollm2: Path) -> None:
    code, out, err = run_here(capsys, "tokenize", smollm2, "--json", "Hi\x04<|im_end|>")
    assert (code, err) == (0, "")
    ids = vocabulary("smollm2").encode("Hi<|im_end|>")
    assert json.loads(out) == {
        "ids": ids,
        "tokens": ["Hi", "<|im_end|>"],
        "dropped_bytes": [[2, 4]],
    }


def test_for_people_a_line_a_token_and_one_warning(capsys: Capture, gappy: Path) -> None:
    code, out, err = run_here(capsys, "tokenize", gappy, "Hi\x04 there")
    assert code == 0
    assert [line.split(maxsplit=1)[1] for line in out.splitlines()] == ["'Hi'", "' there'"]
    assert err == ("ggufc: warning: dropped 0x04 at byte 2: the vocabulary has no token for them\n")


def test_strict_refuses_dropped_bytes(capsys: Capture, gappy: Path) -> None:
    code, out, err = run_here(capsys, "tokenize", gappy, "--strict", "Hi\x04")
    assert (code, out) == (1, "")
    assert err.startswith("ggufc: byte 0x04 at byte offset 2 has no token in this vocabulary")


def test_literal_text_and_text_without_a_begin_token(capsys: Capture, stored: Path) -> None:
    code, out, _ = run_here(capsys, "tokenize", stored, "<|im_end|>", "--literal", "--json")
    assert code == 0
    assert 151645 not in json.loads(out)["ids"]
    code, out, _ = run_here(capsys, "tokenize", stored, "--json", "<|im_end|>")
    assert json.loads(out)["ids"] == [151645]


def test_decoding_gives_text_and_bytes(capsys: Capture, stored: Path) -> None:
    code, out, _ = run_here(capsys, "tokenize", stored, "--decode", "--json", "9707, 151645")
    assert code == 0
    assert json.loads(out) == {"text": "Hello<|im_end|>", "bytes_hex": b"Hello<|im_end|>".hex()}
    code, out, _ = run_here(capsys, "tokenize", stored, "--decode", "[9707]")
    assert (code, out) == (0, "Hello\n")
    code, _, err = run_here(capsys, "tokenize", stored, "--decode", "12 x")
    assert code == 1
    assert "'x' is not a token id" in err


def test_standard_input_is_read_and_must_be_text(gappy: Path) -> None:
    done = run_program("tokenize", gappy, "-", "--json", stdin="naïve".encode())
    assert json.loads(done.stdout)["ids"] == vocabulary("smollm2").encode("naïve")
    done = run_program("tokenize", gappy, stdin=b"ok\xe2\x80")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"standard input: byte 0xe2 at offset 2 is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_many_cases_at_once(capsys: Capture, stored: Path, tmp_path: Path) -> None:
    cases = expectations("qwen3")["cases"]
    requests = [
        {"text": c["text"], "literal": not c["parse_special"], "no_bos": not c["add_special"]}
        for c in cases
    ]
    results = lines(capsys, stored, requests, tmp_path)
    assert [result["ids"] for result in results] == [case["ids"] for case in cases]


def test_many_sequences_at_once(capsys: Capture, stored: Path, tmp_path: Path) -> None:
    rows = expectations("qwen3")["sequences"]
    requests: list[Any] = [{"ids": row["ids"]} for row in rows]
    requests += [{"text": json.dumps(row["ids"]), "decode": True} for row in rows]
    results = lines(capsys, stored, requests, tmp_path)
    assert [result["bytes_hex"] for result in results] == [row["bytes_hex"] for row in rows] * 2
    assert [result["text"] for result in results] == [row["hf_decode"] for row in rows] * 2


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("nonsense", "invalid_request", "the line is not JSON"),
        ("[" * 50_000, "invalid_request", "the line is not JSON"),
        ("[1]", "invalid_request", "expected an object, found [1]"),
        ("{}", "invalid_request", "the line has no text"),
        ('{"text": 3}', "invalid_request", "text: expected a string, found 3"),
        (
            '{"text": "x", "literal": 1}',
            "invalid_request",
            "literal: expected true or false, found 1",
        ),
        ('{"text": "x", "foo": 1}', "invalid_request", "unknown key 'foo'; the keys are text"),
        ('{"ids": [1, "x"]}', "invalid_request", "ids holds something that is not an integer"),
        ('{"text": "x \\ud83d y"}', "invalid_text", "text has U+D83D, half of a surrogate pair"),
        ('{"text": "\\u0004", "strict": true}', "dropped_bytes", "byte 0x04 at byte offset 0"),
    ],
)
def test_a_bad_line_gives_an_error_object_and_the_next_is_answered(
    line: str, kind: str, message: str, capsys: Capture, gappy: Path, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(line + '\n\n{"text": "Hi"}\n')
    code, out, err = run_here(capsys, "tokenize", gappy, "--jsonl", path)
    first, second = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert first["error"]["kind"] == kind
    assert first["error"]["message"].startswith(message)
    assert second["ids"] == vocabulary("smollm2").encode("Hi")


def test_lines_from_standard_input_with_the_options_of_the_command(
    capsys: Capture, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.TextIOWrapper(io.BytesIO(b'{"text": "<|im_end|>"}\n{"text": "\xff"}\n'))
    monkeypatch.setattr("sys.stdin", data)
    code, out, _ = run_here(capsys, "tokenize", stored, "--literal", "--jsonl", "-")
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert 151645 not in first["ids"]
    assert "byte 0xff at offset 10 is not UTF-8" in second["error"]["message"]


def test_text_and_jsonl_exclude_each_other(capsys: Capture, stored: Path) -> None:
    code, _, err = run_here(capsys, "tokenize", stored, "x", "--jsonl", "-")
    assert code == 2
    assert "either TEXT or --jsonl" in err


def test_a_file_without_vocabulary_is_refused_in_one_line(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF\3\0\0\0" + bytes(16))
    code, out, err = run_here(capsys, "tokenize", path, "x")
    assert (code, out) == (1, "")
    known = "gpt2, llama, gemma4, t5, bert"
    assert err == f"ggufc: {path}: tokenizer.ggml.model is missing; known: {known}\n"


def test_ids_outside_the_vocabulary_are_refused(capsys: Capture, smollm2: Path) -> None:
    for token in ("49152", "-1"):
        code, out, err = run_here(capsys, "tokenize", smollm2, "--decode", f"1,{token}")
        assert (code, out) == (1, "")
        assert_one_line(err, f"token id {token}", "0 to 49151")


def test_a_damaged_bundle_is_refused(capsys: Capture, alphabet: Path, tmp_path: Path) -> None:
    """Whichever file it is: what the other commands refuse, this one refuses too."""
    for name in ("manifest.yaml", "tokenizer.bin", "tokenizer.json", "ir/graph.ir"):
        copy = shutil.copytree(alphabet, tmp_path / name.replace("/", "-"))
        data = bytearray((copy / name).read_bytes())
        data[-2] ^= 1
        (copy / name).write_bytes(data)
        code, out, err = run_here(capsys, "tokenize", copy, "a")
        assert (code, out) == (1, "")
        assert_one_line(err, name, "damaged")
