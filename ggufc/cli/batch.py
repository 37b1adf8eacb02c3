"""`ggufc batch`: answer many requests, one JSON object a line, together."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ggufc.cli import UsageError, report
from ggufc.cli.common import (
    add_generation_arguments,
    add_model_arguments,
    generation_settings,
    open_model,
)
from ggufc.cli.numbers import integer
from ggufc.runtime.errors import ArgumentError

if TYPE_CHECKING:
    from ggufc.batches import Answers

LONGEST_LINE = 16 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("input", type=Path, metavar="IN.jsonl", help="requests; - for standard input")
    add("output", type=Path, metavar="OUT.jsonl", help="results; - for standard output")
    add(
        "--sequences",
        type=integer,
        metavar="B",
        help="requests under way at once (default: as many as compiled)",
    )
    add_generation_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Answer all lines and say how many there were."""
    from ggufc.batches import Answers

    if str(arguments.input) != "-" and arguments.input.absolute() == arguments.output.absolute():
        raise UsageError(f"{arguments.input}: requests and results cannot be the same file")
    with (
        opened(arguments.input, "rb") as source,
        open_model(arguments, sequences=arguments.sequences) as model,
    ):
        answers = Answers(model, generation_settings(arguments))
        with opened(arguments.output, "wb") as target:
            done, failed = write_answers(answers, source, target)
    report(f"{done} requests, {failed} of which met an error")
    return 0


@contextmanager
def opened(path: Path, mode: str) -> Iterator[BinaryIO]:
    """A file, or a standard stream for `-`."""
    if str(path) == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    with open(path, mode) as file:
        yield file  # type: ignore[misc]


def write_answers(answers: "Answers", source: BinaryIO, target: BinaryIO) -> tuple[int, int]:
    """Write each result as soon as it and all before it are there, so that what is written stays
    when the work is cut short. Returns how many there were, and how many were errors."""
    done = failed = 0
    for answer in answers.to(lines_of(source)):
        target.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        target.flush()
        done, failed = done + 1, failed + ("error" in answer)
    return done, failed


def lines_of(source: BinaryIO) -> Iterator[bytes | Exception]:
    """The lines that are not empty; in place of one that is too long, an error."""
    while line := source.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = source.readline(LONGEST_LINE)
            yield ArgumentError(f"the line is longer than {LONGEST_LINE} bytes")
        elif line.strip():
            yield line
