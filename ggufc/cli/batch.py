"""`ggufc batch`: answer many requests, one JSON object a line, together."""

import argparse
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ggufc.cli import UsageError, report
from ggufc.cli.common import (
    add_generation_arguments,
    add_model_arguments,
    generation_settings,
    open_model,
)
from ggufc.cli.numbers import integer
from ggufc.cli.streams import named_errors, opened
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
    with opened(arguments.input, "rb") as source:
        if is_same_file(source, arguments.output):
            raise UsageError(f"{arguments.output}: requests and results cannot be the same file")
        return answer_all(arguments, source)


def answer_all(arguments: argparse.Namespace, source: BinaryIO) -> int:
    """Answer the lines of `source`."""
    from ggufc.batches import Answers

    with open_model(arguments, sequences=arguments.sequences) as model:
        answers = Answers(model, generation_settings(arguments))
        with opened(arguments.output, "wb") as target:
            done, failed = write_answers(answers, source, target)
    report(f"{done} requests, {failed} of which met an error")
    return 0


def is_same_file(source: BinaryIO, target: Path) -> bool:
    """Whether writing `target` would overwrite what `source` reads, by whatever name."""
    try:
        read, written = os.fstat(source.fileno()), os.stat(target)
    except OSError:
        return False
    return stat.S_ISREG(read.st_mode) and os.path.samestat(read, written)


def encoded(answer: dict[str, Any]) -> bytes:
    """One line of JSON in UTF-8; escaped where a request's id has halves of surrogate pairs."""
    try:
        return json.dumps(answer, ensure_ascii=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(answer).encode("ascii") + b"\n"


def write_answers(answers: "Answers", source: BinaryIO, target: BinaryIO) -> tuple[int, int]:
    """Write each result as soon as it and all before it are there, so that what is written stays
    when the work is cut short. Returns how many there were, and how many were errors."""
    done = failed = 0
    for answer in answers.to(lines_of(source)):
        target.write(encoded(answer))
        target.flush()
        done, failed = done + 1, failed + ("error" in answer)
    return done, failed


def lines_of(source: BinaryIO) -> Iterator[bytes | Exception]:
    """The lines that are not empty; in place of one that is too long, an error."""
    name = getattr(source, "name", None)
    where = name if isinstance(name, str) and not name.startswith("<") else "standard input"

    def piece() -> bytes:
        with named_errors(where):
            return source.readline(LONGEST_LINE)

    while line := piece():
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = piece()
            yield ArgumentError(f"the line is longer than {LONGEST_LINE} bytes")
        elif line.strip():
            yield line
