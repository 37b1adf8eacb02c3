"""Standard streams that are closed, and files that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ggufc.cli.streams import check_output, output_file
from tests.support.cli import Capture, assert_one_line, run_here


def with_shell(redirection: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command run by a shell that closes or redirects a stream."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-m", "ggufc", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [["run"], ["run", "--no-template"], ["chat"], ["tokenize"], ["logits", "--jsonl", "-"]],
)
def test_closed_standard_input(alphabet: Path, command: list[str]) -> None:
    done = with_shell("<&-", *command, alphabet)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ggufc: standard input: is closed\n" in done.stderr, done.stderr
    assert "internal" not in done.stderr


def test_closed_standard_input_that_nobody_reads(alphabet: Path) -> None:
    done = with_shell("<&-", "run", alphabet, "--no-template", "-p", "w")
    assert (done.returncode, done.stdout, done.stderr) == (0, "xyz\n", "")


@pytest.mark.parametrize("command", [["--help"], ["tokenize", "a"], ["inspect"], ["ir"]])
def test_closed_standard_output(alphabet: Path, command: list[str]) -> None:
    model = [] if command == ["--help"] else [alphabet]
    done = with_shell(">&-", *command[:1], *model, *command[1:])
    assert done.returncode == 1
    assert_one_line(done.stderr, "standard output: is closed")


def test_errors_do_not_go_to_standard_output_when_standard_error_is_closed() -> None:
    done = with_shell("2>&-", "run", "/nonexistent", "-p", "a")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_full_device_is_named(alphabet: Path, capsys: Capture) -> None:
    for command in (["ir"], ["logits", "--ids", "1"]):
        code, _, err = run_here(capsys, *command, str(alphabet), "-o", "/dev/full")
        assert code == 1
        assert_one_line(err, "/dev/full: No space left on device")
    assert Path("/dev/full").exists()


def half_written(path: Path) -> None:
    with output_file(path) as file:
        file.write(b"half")
        raise OSError(28, "No space left on device")


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        half_written(tmp_path / "x")
    assert caught.value.filename == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_output_file(tmp_path: Path, capsys: Capture, alphabet: Path) -> None:
    code, _, err = run_here(capsys, "ir", alphabet, "-o", tmp_path)
    assert code == 1
    assert_one_line(err, str(tmp_path), "Is a directory")


def test_help_keeps_names_as_they_are_written(capsys: Capture) -> None:
    assert "Compile a GGUF model into a bundle." in run_here(capsys, "compile", "--help")[1]


def test_a_pipe_is_no_model(tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, out, err = run_here(capsys, "run", tmp_path / "pipe", "-p", "a")
    assert (code, out) == (1, "")
    assert_one_line(err, "pipe: neither a folder nor a regular file")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command", [["ir"], ["tokenize", "a"], ["logits", "--ids", "5", "-o", "-"]]
)
def test_a_full_disk_behind_standard_output_is_named(
    alphabet: Path, command: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = with_shell(">/dev/full", command[0], alphabet, *command[1:])
    assert done.returncode == 1
    assert_one_line(done.stderr, "standard output: No space left on device")


def test_logits_go_to_standard_output(alphabet: Path, tmp_path: Path) -> None:
    done = with_shell(f">{tmp_path}/out", "logits", alphabet, "--ids", "5", "-o", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "out").shape == (1, 64)


@pytest.mark.parametrize("command", [("embed", "a"), ("logits", "--ids", "1")])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no/x.npy", "no/x.npy: No such file or directory"),
        ("folder", "folder: Is a directory"),
        ("loop", "loop: Too many levels of symbolic links"),
    ],
)
def test_results_that_cannot_be_written_are_told_before_the_model_is_loaded(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[str, ...],
    name: str,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    code, out, err = run_here(capsys, command[0], "no such bundle", *command[1:], "-o", name)
    assert (code, out) == (1, "")
    assert_one_line(err, problem)


def test_finding_out_whether_a_result_can_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("new")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    for name in ("old", "link", "new", "pipe"):
        check_output(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "old").read_text() == "old"
