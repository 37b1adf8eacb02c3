"""`ggufc logits`: what the model says after given token ids, as a NumPy file or JSON lines."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ggufc.cli import UsageError, describe
from ggufc.cli.common import add_model_arguments, open_model, parse_ids
from ggufc.cli.streams import output_file
from ggufc.runtime.errors import ArgumentError, RunError

if TYPE_CHECKING:
    from ggufc.runtime.engine import Floats
    from ggufc.runtime.model import Model


KINDS = {"ids": list, "all": bool, "step": bool, "chunk": int, "output": str}


@dataclass(frozen=True)
class Request:
    """What to compute: `all` gives a row for every token, `step` runs them one by one through the
    decode graph, `chunk` is the number of tokens of one prefill call, `output` a .npy file."""

    ids: list[int]
    all: bool = False
    step: bool = False
    chunk: int | None = None
    output: str | None = None

    @classmethod
    def from_json(cls, line: str) -> "Request":
        """The request in one line of JSON. Raises ArgumentError."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            raise ArgumentError("not JSON") from None
        if not isinstance(data, dict) or "ids" not in data:
            raise ArgumentError('expected an object with "ids"')
        for key, value in data.items():
            if key not in KINDS:
                raise ArgumentError(f"unknown key {key!r}; the keys are {', '.join(KINDS)}")
            if type(value) is not KINDS[key] and not (value is None and key != "ids"):
                raise ArgumentError(f"{key}: expected {KINDS[key].__name__}, found {value!r}")
        return cls(**{key: value for key, value in data.items() if value is not None})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("--ids", help="token ids: 1,2,3")
    add("--all", action="store_true", help="a row for every token, not for the last one only")
    add("--step", action="store_true", help="one token at a time, by the decode graph")
    add("--chunk", type=int, help="tokens of one prefill call (default: the compiled maximum)")
    add(
        "-o",
        "--output",
        metavar="OUT.npy",
        help="float32 [rows, vocabulary]; - for standard output",
    )
    add(
        "--jsonl",
        metavar="FILE",
        help="one request a line, one result a line out; - for standard input",
    )


def main(arguments: argparse.Namespace) -> int:
    """Compute one request or many."""
    if (arguments.ids is None) == (arguments.jsonl is None):
        raise UsageError("give either --ids or --jsonl")
    if arguments.jsonl is not None:
        return answer_lines(arguments)
    if arguments.output is None:
        raise UsageError("give -o OUT.npy (or -o - for standard output)")
    ids = list(parse_ids(arguments.ids))
    with open_model(arguments) as model:
        save(
            compute(model, Request(ids, arguments.all, arguments.step, arguments.chunk)),
            arguments.output,
        )
    return 0


def compute(model: "Model", request: Request) -> "Floats":
    """Logits [rows, vocabulary] of one request."""
    logits = model.logits(request.ids, all=request.all, step=request.step, chunk=request.chunk)
    return logits if request.all else logits[None]


def save(logits: "Floats", output: str) -> None:
    """Write a NumPy file."""
    import numpy as np

    if output == "-":
        np.save(sys.stdout.buffer, logits)
        return
    with output_file(output) as file:
        np.save(file, logits)


def answer_lines(arguments: argparse.Namespace) -> int:
    """Answer every line; a bad one gives an error object and does not end the work."""
    with open_model(arguments) as model:
        for line in lines_of(arguments.jsonl):
            print(json.dumps(answer(model, line)), flush=True)
    return 0


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file or of standard input that are not empty."""
    if name == "-":
        yield from full_lines(sys.stdin)
        return
    with open(name, encoding="utf-8", errors="surrogateescape") as file:
        yield from full_lines(file)


def full_lines(file: TextIO) -> Iterator[str]:
    """Lines with something in them."""
    return (line for line in file if line.strip())


def answer(model: "Model", line: str) -> dict[str, Any]:
    """The result object of one request line."""
    try:
        request = Request.from_json(line)
        logits = compute(model, request)
        if request.output is None:
            return {"shape": list(logits.shape), "logits": logits.tolist()}
        save(logits, request.output)
        return {"shape": list(logits.shape), "output": str(Path(request.output))}
    except (RunError, OSError) as error:
        return {"error": {"kind": type(error).__name__, "message": describe(error)}}
