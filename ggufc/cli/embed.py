"""`ggufc embed`: texts into embeddings, as JSON or as a NumPy file."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError, describe
from ggufc.cli.batch import lines_of as requests_in
from ggufc.cli.batch import opened
from ggufc.cli.common import add_model_arguments, decoded, open_model
from ggufc.cli.numbers import integer
from ggufc.cli.streams import output_file
from ggufc.runtime.embedding import POOLINGS, EmbeddingSettings
from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.tokenizer.errors import TokenizerError
from ggufc.tokenizer.provenance import POLICIES

if TYPE_CHECKING:
    from ggufc.runtime.engine import Floats
    from ggufc.runtime.model import Model

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
    texts = texts_of(arguments)
    with open_model(arguments, graph="embed") as model:
        started = time.perf_counter()
        embedder = model.embedder(**settings_of(arguments))
        tokens = embedder.tokens(texts)
        if arguments.output is not None and embedder.pooling == "none":
            raise UsageError("-o holds a vector for each text, so it excludes pooling none")
        made = embedder.embed(tokens)
        if arguments.output is not None:
            save(list(made), embedder.dimensions, arguments.output)
        elif arguments.json:
            rows = [numbers(vectors) for vectors in made]
            usage = {"prompt_tokens": sum(map(len, tokens))}
            spent = {"load_s": model.load_seconds, "embed_s": time.perf_counter() - started}
            print(json.dumps(summary(embedder.pooling, arguments, rows, usage, spent)))
        else:
            for vectors in made:
                print(json.dumps(numbers(vectors)), flush=True)
    return 0


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


def texts_of(arguments: argparse.Namespace) -> list[str]:
    """The texts of the command line, of a file or of standard input."""
    if arguments.texts:
        return [
            decoded(text.encode("utf-8", "surrogateescape"), f"text {i}")
            for i, text in enumerate(arguments.texts, 1)
        ]
    if arguments.file is None and sys.stdin.isatty():
        raise UsageError("no texts; give some, with -f, or on standard input")
    return list(lines_of("-" if arguments.file is None else str(arguments.file)))


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file or of standard input, without their ends."""
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    where = "standard input" if name == "-" else name
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), 1):
        yield decoded(line.removesuffix(b"\r"), f"{where}, line {number}")


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
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise ArgumentError("not JSON") from None
    if not isinstance(data, dict) or "text" not in data:
        raise ArgumentError('expected an object with "text"')
    for key, value in data.items():
        if key not in KINDS:
            raise ArgumentError(f"unknown key {key!r:.60}; the keys are {', '.join(KINDS)}")
        if type(value) is not KINDS[key]:
            raise ArgumentError(f"{key}: expected {KINDS[key].__name__}, found {value!r:.40}")
    return data
