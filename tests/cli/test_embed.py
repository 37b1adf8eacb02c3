"""`ggufc embed`: its forms of input and output, and what other commands say of an encoder."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from ggufc.cli import embed
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from tests.support.cli import Capture, assert_one_line, run_here
from tests.support.embeddings import cosine, embedding_fixture

TEXT = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embed") / "bert.ggufc"
    compile_model(embedding_fixture("bert").path, path, CompileOptions())
    return path


def test_a_list_for_each_text(bert: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "embed", bert, TEXT, "hello")
    assert (code, err) == (0, "")
    rows = np.array([json.loads(line) for line in out.splitlines()], np.float32)
    assert rows.shape == (2, 32)
    for row, text in zip(rows, embedding_fixture("bert").texts, strict=False):
        assert cosine(row, text.mean) > 0.999999
        assert abs(np.linalg.norm(row) - 1) < 1e-6


def test_one_json_object(bert: Path, capsys: Capture) -> None:
    _, out, _ = run_here(capsys, "embed", bert, "hello", "a", "--json", "--pooling", "cls")
    report = json.loads(out)
    assert set(report.pop("timings")) == {"load_s", "embed_s"}
    assert np.shape(report.pop("embeddings")) == (2, 32)
    tokens = sum(len(embedding_fixture("bert").texts[i].ids) for i in (1, 4))
    assert report == {"pooling": "cls", "normalized": True, "usage": {"prompt_tokens": tokens}}


def test_vectors_of_tokens(bert: Path, capsys: Capture) -> None:
    _, out, _ = run_here(capsys, "embed", bert, TEXT, "--pooling", "none", "--no-normalize")
    found = np.array(json.loads(out))
    assert np.abs(found - embedding_fixture("bert").texts[0].hidden).max() < 1e-4


def test_a_numpy_file(bert: Path, capsys: Capture, tmp_path: Path) -> None:
    output = tmp_path / "out.npy"
    code, out, err = run_here(capsys, "embed", bert, "a", "b", "--dimensions", "7", "-o", output)
    assert (code, out, err) == (0, "", "")
    found = np.load(output)
    assert found.dtype == np.float32
    assert found.shape == (2, 7)


def test_texts_are_lines_of_a_file_or_of_standard_input(
    bert: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"hello\n\nwhat is it?\r\n"
    (tmp_path / "texts").write_bytes(content)
    _, expected, _ = run_here(capsys, "embed", bert, "hello", "", "what is it?")
    assert run_here(capsys, "embed", bert, "-f", tmp_path / "texts")[1] == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert run_here(capsys, "embed", bert)[1] == expected


def test_bad_bytes_are_answered_in_their_place(bert: Path, capsys: Capture, tmp_path: Path) -> None:
    long = [
        {"text": ["x" * 9000]},
        {"text": "a", "pooling": "x" * 9000},
        {"x" * 9000: 1, "text": ""},
    ]
    lines = [b'{"text": "hello"}', b"\xff", *(json.dumps(x).encode() for x in long)]
    (tmp_path / "in").write_bytes(b"\n".join([*lines, lines[0]]))
    code, out, err = run_here(capsys, "embed", bert, "--jsonl", tmp_path / "in")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert ["error" in answer for answer in found] == [False, True, True, True, True, False]
    assert all(len(answer["error"]["message"]) < 400 for answer in found[1:-1])


def test_requests_line_by_line(bert: Path, capsys: Capture, tmp_path: Path) -> None:
    requests = [
        {"text": "hello"},
        {"text": "hello", "pooling": "none", "dimensions": 3},
        {"text": "sea " * 200},
        {"text": "sea " * 200, "truncate": True},
        {"text": 1},
        {"texts": "a"},
        {"text": "a", "size": 1},
        {"text": "a", "pooling": "max"},
    ]
    lines = [*map(json.dumps, requests), "", "not JSON"]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    code, out, err = run_here(capsys, "embed", bert, "--jsonl", tmp_path / "in")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [sorted(result) for result in found[:2]] == [["embedding", "tokens"]] * 2
    assert np.shape(found[1]["embedding"]) == (found[1]["tokens"], 3)
    assert found[3]["tokens"] == 96
    messages = [found[i]["error"]["message"] for i in (2, 4, 5, 6, 7, 8)]
    for message, expected in zip(
        messages,
        (
            "text 1 of 1: 202 tokens do not fit a context of 96",
            "text: expected a string, found 1",
            "unknown key 'texts'; the keys are text, pooling",
            "unknown key 'size'; the keys are text, pooling",
            "pooling 'max': allowed are none, mean, cls, last",
            "the line is not JSON",
        ),
        strict=True,
    ):
        assert message.startswith(expected), message


def test_texts_of_a_file_are_read_as_they_are_embedded(
    bert: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more texts are read ahead than fit one call of 96 tokens, of 3 at least each, and one."""
    read = 0
    lines: list[str] = []

    class Source(io.BytesIO):
        def __next__(self) -> bytes:
            nonlocal read
            read += 1
            return super().__next__()

    def wrote(line: str, flush: bool) -> None:
        assert read - len(lines) <= 96 // 3 + 1
        lines.append(line)

    _, expected, _ = run_here(capsys, "embed", bert, "hello", "a")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Source(b"hello\na\n" * 100)))
    monkeypatch.setattr(embed, "print", wrote, raising=False)
    assert run_here(capsys, "embed", bert)[0] == 0
    assert lines == expected.splitlines() * 100


def test_bad_lines_of_a_file_are_named(bert: Path, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_bytes(b"a\n\xff\n")
    _, _, err = run_here(capsys, "embed", bert, "-f", path)
    assert_one_line(err, f"{path}, line 2: byte 0xff at offset 0 is not UTF-8")
    path.write_text("a\n" + "sea " * 200)
    _, _, err = run_here(capsys, "embed", bert, "-f", path)
    assert_one_line(err, f"{path}, line 2: 202 tokens do not fit a context of 96")
    _, out, _ = run_here(capsys, "embed", bert, "-f", path, "--truncate", "--json")
    assert json.loads(out)["usage"] == {"prompt_tokens": 3 + 96}


def test_long_texts_are_errors_or_cut(bert: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "embed", bert, "a", "sea " * 200)
    assert (code, out) == (1, "")
    assert_one_line(err, "text 2 of 2: 202 tokens", "context of 96", "truncate")
    assert run_here(capsys, "embed", bert, "sea " * 200, "--truncate")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("a", "-f", "x"), "TEXT and -f exclude each other"),
        (("a", "--json", "-o", "x"), "--json and -o exclude each other"),
        (("a", "-o", "x", "--pooling", "none"), "excludes pooling none"),
        (("a", "--pooling", "max"), "invalid choice: 'max'"),
        (("a", "--dimensions", "1_0"), "'1_0' is not an integer"),
    ],
)
def test_usage(arguments: tuple[str, ...], expected: str, bert: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "embed", bert, *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, expected)


@pytest.mark.parametrize(
    "command",
    [
        ("run", "-p", "a"),
        ("chat",),
        ("logits", "--ids", "1,2", "-o", "-"),
        ("bench",),
    ],
)
def test_an_encoder_is_for_embed(command: tuple[str, ...], bert: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, command[0], bert, *command[1:])
    assert (code, out) == (1, "")
    assert_one_line(err, "tiny-bert (bert) is an encoder", "embeddings", "use embed")


def test_inspect_tells_what_a_bundle_can_do(bert: Path, capsys: Capture) -> None:
    _, out, _ = run_here(capsys, "inspect", bert)
    assert "graphs     embed\n" in out
    assert "embedding  32 numbers, pooling mean\n" in out
    assert "ChatML" not in out
    _, out, _ = run_here(capsys, "inspect", embedding_fixture("bert").path)
    assert "bert: supported" in out
    assert "ChatML" not in out


def test_compiling_an_encoder_says_nothing_of_templates(capsys: Capture, tmp_path: Path) -> None:
    code, _, err = run_here(
        capsys, "compile", embedding_fixture("bert").path, "-o", tmp_path / "x.ggufc"
    )
    assert code == 0
    assert_one_line(err, "MB for")
