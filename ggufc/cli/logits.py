"""`ggufc logits`: what the model says after a text or token ids, as a NumPy file or JSON lines."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ggufc.cli import UsageError, describe
from ggufc.cli.common import (
    add_model_arguments,
    add_policy_arguments,
    open_model,
    read_prompt,
    tell_dropped,
)
from ggufc.cli.numbers import integer, token_ids
from ggufc.cli.requests import object_in
from ggufc.cli.streams import check_output, output_file
from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.tokenizer.errors import TokenizerError

if TYPE_CHECKING:
    from ggufc.runtime.engine import Floats
    from ggufc.runtime.model import Model


KINDS = {
    "ids": list,
    "text": str,
    "control_tokens": str,
    "strict": bool,
    "all": bool,
    "step": bool,
    "chunk": int,
    "output": str,
}


@dataclass(frozen=True)
class Request:
    """What to compute, after `ids`, or after the tokens of `text`, by a policy for control tokens.
    `all` gives a row for every token, `step` runs them one by one through the decode graph,
    `chunk` is the number of tokens of one prefill call, `output` a .npy file."""

    ids: list[int] | None = None
    text: str | None = None
    control_tokens: str = "native"
    strict: bool = False
    all: bool = False
    step: bool = False
    chunk: int | None = None
    output: str | None = None

    @classmethod
    def from_json(cls, line: str) -> "Request":
        """The request in one line of JSON. Raises ArgumentError."""
        wanted = 'an object with either "ids" or "text"'
        data = object_in(line, KINDS, wanted)
        if ("ids" in data) == ("text" in data):
            raise ArgumentError(f"expected {wanted}")
        return cls(**data)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("--ids", help="token ids: 1,2,3")
    add("-p", "--prompt", metavar="TEXT", help="a text, instead of ids")
    add_policy_arguments(parser, "native")
    add("--all", action="store_true", help="a row for every token, not for the last one only")
    add("--step", action="store_true", help="one token at a time, by the decode graph")
    add("--chunk", type=integer, help="tokens of one prefill call (default: the compiled maximum)")
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
    given = (arguments.ids, arguments.prompt, arguments.jsonl)
    if sum(value is not None for value in given) != 1:
        raise UsageError("give either --ids, --prompt or --jsonl")
    if arguments.jsonl is not None:
        return answer_lines(arguments)
    if arguments.output is None:
        raise UsageError("give -o OUT.npy (or -o - for standard output)")
    request = request_of(arguments)
    check_output(arguments.output)
    with open_model(arguments) as model:
        ids, dropped = tokens_of(model, request)
        tell_dropped(dropped, False)
        save(compute(model, ids, request), arguments.output)
    return 0


def request_of(arguments: argparse.Namespace) -> Request:
    """The request of the command line. Raises UsageError."""
    try:
        ids = None if arguments.ids is None else token_ids(arguments.ids)
    except ArgumentError as error:
        raise UsageError(f"--ids: {error}") from None
    return Request(
        ids=ids,
        text=None if ids is not None else read_prompt(arguments.prompt, None),
        control_tokens=arguments.control_tokens or "native",
        strict=arguments.strict,
        all=arguments.all,
        step=arguments.step,
        chunk=arguments.chunk,
    )


def tokens_of(model: "Model", request: Request) -> tuple[list[int], Sequence[tuple[int, int]]]:
    """The ids of a request, and the bytes that were dropped. Raises TokenizerError."""
    if request.ids is not None:
        return request.ids, []
    encoding = model.tokenizer.encode_with_details(
        request.text or "", control_tokens=request.control_tokens, strict=request.strict
    )
    return encoding.ids, encoding.dropped_bytes


def compute(model: "Model", ids: list[int], request: Request) -> "Floats":
    """Logits [rows, vocabulary] of one request."""
    logits = model.logits(ids, all=request.all, step=request.step, chunk=request.chunk)
    return logits if request.all else logits[None]


def save(logits: "Floats", output: str) -> None:
    """Write a NumPy file."""
    import numpy as np

    if output == "-":
        np.save(Written(sys.stdout.buffer.write), logits)
        return
    with output_file(output) as file:
        np.save(Written(file.write), logits)


@dataclass(frozen=True)
class Written:
    """A file that NumPy writes to as to any: what it does with real ones has errors without a
    reason."""

    write: Callable[[bytes], int]


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
        ids, dropped = tokens_of(model, request)
        logits = compute(model, ids, request)
        found: dict[str, Any] = {"shape": list(logits.shape)}
        if request.text is not None:
            found |= {"ids": ids, "dropped_bytes": [list(pair) for pair in dropped]}
        if request.output is None:
            return {**found, "logits": logits.tolist()}
        save(logits, request.output)
        return {**found, "output": str(Path(request.output))}
    except (RunError, TokenizerError, OSError) as error:
        return {"error": {"kind": type(error).__name__, "message": describe(error)}}
