"""`ggufc embed`: texts into embeddings, as JSON or as a NumPy file."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ggufc.cli import UsageError, describe
from ggufc.cli.batch import lines_of as requests_in
from ggufc.cli.common import add_model_arguments, decoded, open_model
from ggufc.cli.numbers import integer
from ggufc.cli.requests import object_in
from ggufc.cli.streams import check_output, opened, output_file
from ggufc.runtime.embedding import POOLINGS, EmbeddingSettings
from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.tokenizer.errors import TokenizerError
from ggufc.tokenizer.provenance import POLICIES

if TYPE_CHECKING:
    from ggufc.runtime.engine import Floats, Ints
    from ggufc.runtime.model import Model

Texts = Iterator[tuple[str, str]]

KINDS = {
    "text": str,
    "pooling": str,
    "normalize": bool,
    "truncate": bool,
    "dimensions": int,
    "control_tokens": str,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("texts", nargs="*", metavar="TEXT", help="the texts (default: lines of standard input)")
    add("-f", "--file", type=Path, help="a file with a text on each line; - for standard input")
    add("--pooling", choices=POOLINGS, help="tokens to a text (default: as the model's file says)")
    add("--no-normalize", action="store_true", help="leave the vectors as long as they are")
    add("--truncate", action="store_true", help="cut texts that are too long; else an error")
    add("--dimensions", type=integer, metavar="N", help="keep the first N numbers only")
    add(
        "--control-tokens",
        choices=POLICIES,
        default="control-only",
        help="what control tokens in the texts become (default: control-only, plain text)",
    )
    add("--json", action="store_true", help="print one JSON object, not a list for each text")
    add("-o", "--output", metavar="OUT.npy", help="float32 [texts, numbers]; - for standard output")
    add("--jsonl", metavar="FILE", help="one request a line, one result a line out; - as with -f")


def main(arguments: argparse.Namespace) -> int:
    """Embed the texts, or answer many requests."""
    check(arguments)
    if arguments.jsonl is not None:
        with open_model(arguments, graph="embed") as model:
            with opened(Path(arguments.jsonl), "rb") as source:
                for line in requests_in(source):
                    print(json.dumps(answer(model, line, settings_of(arguments))), flush=True)
        return 0
    check_output(arguments.output)
    with texts_of(arguments) as texts, open_model(arguments, graph="embed") as model:
        embed_all(model, texts, arguments)
    return 0


def embed_all(model: "Model", texts: Texts, arguments: argparse.Namespace) -> None:
    """Embed texts as they are read: no more of them are held than are computed together."""
    started, count = time.perf_counter(), 0
    embedder = model.embedder(**settings_of(arguments))
    if arguments.output is not None and embedder.pooling == "none":
        raise UsageError("-o holds a vector for each text, so it excludes pooling none")

    def tokens() -> "Iterator[Ints]":
        nonlocal count
        for where, text in texts:
            ids = embedder.tokens_of(text, where)
            count += len(ids)
            yield ids

    made = embedder.embed(tokens())
    if arguments.output is not None:
        save(list(made), embedder.dimensions, arguments.output)
    elif arguments.json:
        rows = [numbers(vectors) for vectors in made]
        usage = {"prompt_tokens": count}
        spent = {"load_s": model.load_seconds, "embed_s": time.perf_counter() - started}
        print(json.dumps(summary(embedder.pooling, arguments, rows, usage, spent)))
    else:
        for vectors in made:
            print(json.dumps(numbers(vectors)), flush=True)


def check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that exclude each other. Raises UsageError."""
    sources = {
        "TEXT": arguments.texts or None,
        "-f": arguments.file,
        "--jsonl": arguments.jsonl,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other")
    forms = {"--json": arguments.json or None, "-o": arguments.output, "--jsonl": arguments.jsonl}
    given = [name for name, value in forms.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other")


def settings_of(arguments: argparse.Namespace) -> EmbeddingSettings:
    """The settings that the arguments give."""
    return {
        "pooling": arguments.pooling,
        "normalize": not arguments.no_normalize,
        "truncate": arguments.truncate,
        "dimensions": arguments.dimensions,
        "control_tokens": arguments.control_tokens,
    }


@contextmanager
def texts_of(arguments: argparse.Namespace) -> Iterator[Texts]:
    """The texts of the command line, of a file or of standard input, each with where it stands."""
    if arguments.texts:
        yield given(arguments.texts)
        return
    if arguments.file is None and sys.stdin.isatty():
        raise UsageError("no texts; give some, with -f, or on standard input")
    path = arguments.file or Path("-")
    with opened(path, "rb") as source:
        yield lines_of(source, "standard input" if str(path) == "-" else str(path))


def given(texts: Sequence[str]) -> Texts:
    """The texts of the command line."""
    for number, text in enumerate(texts, 1):
        where = f"text {number} of {len(texts)}"
        yield where, decoded(text.encode("utf-8", "surrogateescape"), where)


def lines_of(source: BinaryIO, name: str) -> Texts:
    """The lines of a file, without their ends."""
    for number, line in enumerate(source, 1):
        where = f"{name}, line {number}"
        yield where, decoded(line.removesuffix(b"\n").removesuffix(b"\r"), where)


def save(vectors: "list[Floats]", width: int, output: str) -> None:
    """Write a NumPy file."""
    import numpy as np

    rows = np.array(vectors, np.float32).reshape(len(vectors), width)
    if output == "-":
        np.save(sys.stdout.buffer, rows)
        return
    with output_file(output) as file:
        np.save(file, rows)


def numbers(vectors: "Floats") -> Any:
    """A vector, or several, as lists of the shortest numbers that round to them."""
    if vectors.ndim > 1:
        return [numbers(row) for row in vectors]
    return [float(str(value)) for value in vectors]


def summary(
    pooling: str,
    arguments: argparse.Namespace,
    rows: list[Any],
    usage: dict[str, int],
    timings: dict[str, float],
) -> dict[str, Any]:
    """The one object that `--json` prints."""
    return {
        "embeddings": rows,
        "pooling": pooling,
        "normalized": not arguments.no_normalize,
        "usage": usage,
        "timings": timings,
    }


def answer(model: "Model", line: bytes | Exception, defaults: EmbeddingSettings) -> dict[str, Any]:
    """The result object of one request line, whose keys come before the options of the command."""
    try:
        request = request_of(line)
        text = request.pop("text")
        embedder = model.embedder(**{**defaults, **request})
        tokens = embedder.tokens([text])
        (vectors,) = embedder.embed(tokens)
        return {"embedding": numbers(vectors), "tokens": len(tokens[0])}
    except (RunError, TokenizerError, UsageError) as error:
        return {"error": {"kind": type(error).__name__, "message": describe(error)}}


def request_of(line: bytes | Exception) -> dict[str, Any]:
    """The request in one line of JSON. Raises ArgumentError."""
    if isinstance(line, Exception):
        raise line
    wanted = 'an object with "text"'
    data = object_in(line, KINDS, wanted)
    if "text" not in data:
        raise ArgumentError(f"expected {wanted}")
    return data
