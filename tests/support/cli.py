"""Running the command line: in this process, or as a program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ggufc.cli import main

Capture = pytest.CaptureFixture[str]


def run_here(capsys: Capture, *arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command run in this process."""
    capsys.readouterr()
    try:
        code = main([os.fspath(argument) for argument in arguments])
    except SystemExit as exit:
        code = int(exit.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_program(
    *arguments: str | os.PathLike[str],
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """The command as a new process."""
    return subprocess.run(
        [sys.executable, "-m", "ggufc", *(os.fspath(argument) for argument in arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=timeout,
        check=False,
    )


def obey_signals() -> None:
    """In a new process: end on SIGINT, which programs in the background are told to ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def assert_one_line(error: str, *parts: str) -> None:
    """An error is one line that begins with the program's name and holds all `parts`."""
    assert error.startswith("ggufc: "), error
    assert error.count("\n") == 1, error
    assert error.endswith("\n"), error
    for part in parts:
        assert part in error, error


def leftovers(folder: Path) -> list[str]:
    """Hidden names in a folder, which unfinished bundles have."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("."))
