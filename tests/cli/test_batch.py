"""`batch`, on a model that says the alphabet and one that always answers xyz."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggufc import batches
from ggufc.cli import batch
from ggufc.runtime.model import Model
from tests.support.bundles import letters
from tests.support.cli import Capture, assert_one_line, run_here


def answered(
    bundle: Path, capsys: Capture, folder: Path, lines: list[Any], *flags: str
) -> list[dict[str, Any]]:
    """What `batch` writes for these requests; texts are lines as they stand."""
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    code, out, err = run_here(capsys, "batch", bundle, source, target, *flags)
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert (code, out) == (0, "")
    failed = sum("error" in answer for answer in found)
    assert_one_line(err, f"{len(found)} requests, {failed} of which met an error")
    return found


def test_texts_ids_and_settings(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    found = answered(
        alphabet,
        capsys,
        tmp_path,
        [
            {"id": "first", "prompt": "w"},
            {"prompt": "a", "max_tokens": 3},
            {"ids": letters("c"), "stop": "gh"},
            {"prompt": "k", "stop": ["m"], "id": 7},
        ],
        "-n",
        "5",
    )
    assert [answer["text"] for answer in found] == ["xyz", "bcd", "def", "l"]
    assert [answer["index"] for answer in found] == [0, 1, 2, 3]
    assert [answer.get("id") for answer in found] == ["first", None, None, 7]
    assert found[0]["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "cached_tokens": 0}
    reasons = [answer["finish_reason"] for answer in found]
    assert reasons == ["stop", "length", "stop_string", "stop_string"]


BAD = [
    ("{", "the line is not JSON"),
    ("[1]", "expected an object, found [1]"),
    ("[" * 5000, "the line is not JSON"),
    ("{}", "expected one of prompt, ids, messages; found none"),
    (
        '{"prompt": "a", "ids": [1]}',
        "expected one of prompt, ids, messages; found ['prompt', 'ids']",
    ),
    ('{"prompt": "a", "tools": []}', "tools belongs to messages"),
    ('{"prompt": 5}', "prompt: expected a string, found 5"),
    ('{"prompt": ""}', "the prompt has no tokens"),
    ('{"ids": [true]}', "list of integers"),
    ('{"ids": [100000]}', "token id 100000 at index 0"),
    ('{"prompt": "a", "color": 1}', "unknown key 'color'; the keys are id, prompt,"),
    ('{"prompt": "a", "max_tokens": -2}', "max_tokens -2"),
    ('{"prompt": "a", "temperature": "hot"}', "temperature 'hot'"),
    ('{"prompt": "a", "stop": 3}', "stop: expected a string or a list"),
    ('{"prompt": "a", "stop": [""]}', "stop string 0 is ''"),
    ('{"prompt": "a", "ignore_eos": 1}', "ignore_eos: expected true or false"),
    ('{"messages": "hi"}', "messages: expected a list"),
    (json.dumps({"ids": letters("a") * 500}), "the prompt has 500 tokens"),
    ('{"prompt": "a", "id": NaN}', "id: expected finite numbers, found nan"),
    ('{"prompt": "a", "id": [1e999]}', "id: expected finite numbers, found [inf]"),
    ('{"prompt": "a", "temperature": NaN}', "temperature nan"),
    (json.dumps({"prompt": "a", "temperature": "x" * 9000}), "temperature 'xxx"),
    ('{"prompt": "a", "temperature": 1' + "0" * 400 + "}", "temperature 1000"),
    (json.dumps({"prompt": "a", "seed": "x" * 9000}), "seed 'xxx"),
    (json.dumps({"prompt": "a", "stop": ["b", ["x" * 9000]]}), "stop string 1 is ['xxx"),
    (json.dumps({"prompt": "a", "control_tokens": "x" * 9000}), "control_tokens 'xxx"),
    (json.dumps({"messages": [{"role": "user", "content": "a"}], "template": "x" * 9000}), ""),
]


def test_bad_lines_are_answered_in_their_place(
    alphabet: Path, capsys: Capture, tmp_path: Path
) -> None:
    lines: list[Any] = []
    for text, _ in BAD:
        lines += [text + "\n", {"prompt": "x"}]
    found = answered(alphabet, capsys, tmp_path, lines)
    assert [answer["index"] for answer in found] == list(range(len(lines)))
    assert all(answer["text"] == "yz" for answer in found[1::2])
    for answer, (_, message) in zip(found[::2], BAD, strict=True):
        assert message in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]
        assert len(answer["error"]["message"]) < 400


def test_ids_come_back_as_they_were(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    labels = [None, "\ud800", "é", {"a": [1.5, True]}, 10**30]
    found = answered(alphabet, capsys, tmp_path, [{"prompt": "x", "id": label} for label in labels])
    assert [answer["id"] for answer in found] == labels


@pytest.mark.parametrize(
    "wrong",
    [{"prompt": "x", "stoop": 1}, {}, {"prompt": "x", "tools": []}, {"prompt": 5}, {"ids": "x"}],
)
def test_ids_come_back_with_errors(
    wrong: dict[str, Any], alphabet: Path, capsys: Capture, tmp_path: Path
) -> None:
    (found,) = answered(alphabet, capsys, tmp_path, [{"id": "mine", **wrong}])
    assert list(found) == ["id", "index", "error"]
    assert found["id"] == "mine"


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_requests_are_not_overwritten_by_another_name(
    make: Callable[[Path, Path], None], alphabet: Path, capsys: Capture, tmp_path: Path
) -> None:
    source, other = tmp_path / "in", tmp_path / "other"
    source.write_text('{"prompt": "x"}\n')
    make(source, other)
    (tmp_path / "folder").mkdir()
    for target in (other, tmp_path / "folder" / ".." / "in"):
        code, _, err = run_here(capsys, "batch", alphabet, source, target)
        assert code == 2
        assert_one_line(err, str(target), "cannot be the same file")
    with source.open() as stream:
        finished = subprocess.run(
            [sys.executable, "-m", "ggufc", "batch", alphabet, "-", other],
            stdin=stream,
            capture_output=True,
            check=False,
        )
    assert finished.returncode == 2
    assert source.read_text() == '{"prompt": "x"}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_named(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "in").write_text('{"prompt": "x"}\n')
    code, _, err = run_here(capsys, "batch", alphabet, tmp_path / "in", "/dev/full")
    assert code == 1
    assert_one_line(err, "/dev/full: No space left on device")


def test_empty_lines_are_passed_over(alphabet: Path, capsys: Capture, tmp_path: Path) -> None:
    found = answered(alphabet, capsys, tmp_path, ["\n", {"prompt": "y"}, "  \n", '{"prompt": "x"}'])
    assert [answer["text"] for answer in found] == ["z", "yz"]
    assert answered(alphabet, capsys, tmp_path, []) == []


def test_long_lines(
    alphabet: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "LONGEST_LINE", 64)
    lines = ['{"prompt": "' + "a" * n + '"}\n' for n in (40, 49, 50, 51, 300)]
    found = answered(alphabet, capsys, tmp_path, [*lines, {"prompt": "x"}], "-n", "1")
    assert ["error" in answer for answer in found] == [False, False, True, True, True, False]
    assert found[-1]["text"] == "y"
    assert found[2]["error"]["message"] == "the line is longer than 64 bytes"


def test_results_are_in_order_and_few_wait(alphabet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request is the longest by far."""
    monkeypatch.setattr(batches, "WINDOW", 5)
    asked = 0

    def lines() -> Iterator[bytes]:
        nonlocal asked
        for i in range(60):
            asked += 1
            request = {"prompt": "a" if i == 0 else "y", "max_tokens": 20 if i == 0 else 1}
            yield json.dumps(request).encode()

    with Model.load(alphabet, threads=1, sequences=3) as model:
        for given, answer in enumerate(batches.Answers(model, {}).to(lines())):
            assert answer["index"] == given
            assert asked <= given + 1 + 5
    assert given == 59


def test_standard_streams(alphabet: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"prompt": "x"}\n')))
    code, out, _ = run_here(capsys, "batch", alphabet, "-", "-", "--sequences", "2")
    assert (code, json.loads(out)["text"]) == (0, "yz")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["in", "in"], 2, "cannot be the same file"),
        (["missing", "out"], 1, "missing: No such file"),
        (["in", "no/such/out"], 1, "no/such/out: No such file"),
        (["in", "out", "--sequences", "9"], 1, "sequences 9: the bundle was compiled for 1 to 8"),
        (["in", "out", "-n", "-2"], 1, "max_tokens -2"),
    ],
)
def test_errors(
    alphabet: Path,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").write_text('{"prompt": "x"}\n')
    found, out, err = run_here(capsys, "batch", alphabet, *arguments)
    assert (found, out) == (code, "")
    assert_one_line(err, message)
