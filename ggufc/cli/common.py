"""Arguments that several commands share, and what they turn into."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ggufc.cli import UsageError, report
from ggufc.cli.numbers import integer, number
from ggufc.runtime.errors import ArgumentError, PurposeError

POLICIES = ("literal", "control-only", "reject", "native")

if TYPE_CHECKING:
    from ggufc.runtime.model import Model
    from ggufc.runtime.settings import Settings


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The bundle, and how to load it."""
    parser.add_argument("model", type=Path, metavar="BUNDLE|MODEL.gguf")
    parser.add_argument(
        "-t", "--threads", type=integer, help="threads (default: what this machine offers)"
    )
    parser.add_argument(
        "-c", "--ctx-size", type=integer, help="context in tokens (default: the compiled one)"
    )
    parser.add_argument("--isa", help="instruction set (default: the best that runs here)")
    parser.add_argument(
        "--mmap", action="store_true", help="share the weights between processes (slower decode)"
    )


def add_generation_arguments(parser: argparse.ArgumentParser) -> None:
    """How to draw tokens and when to end."""
    add = parser.add_argument
    add(
        "-n",
        "--n-predict",
        type=integer,
        default=512,
        help="at most so many tokens; -1: up to the context",
    )
    add(
        "--temp",
        type=number,
        default=0.0,
        help="temperature; 0: always the likeliest token (default)",
    )
    add(
        "--top-k",
        type=integer,
        default=0,
        help="draw from the K likeliest tokens; 0: off (default)",
    )
    add(
        "--top-p",
        type=number,
        default=1.0,
        help="draw from the likeliest that sum to P; 1: off (default)",
    )
    add(
        "--min-p",
        type=number,
        default=0.0,
        help="least probability relative to the likeliest's; 0: off",
    )
    add("--seed", type=integer, help="seed of the random numbers (default: a new one each time)")
    add(
        "--stop",
        action="append",
        default=[],
        help="end before this text; may be given several times",
    )
    add("--ignore-eos", action="store_true", help="go on after the model's own end tokens")


def add_policy_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """What control tokens become that a text or content spells, and bytes without a token."""
    parser.add_argument(
        "--control-tokens",
        choices=POLICIES,
        help=f"what control tokens in the given text become (default: {default})",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse bytes that the vocabulary has no token for"
    )


def tell_dropped(dropped: Sequence[tuple[int, int]], strict: bool) -> None:
    """Warn, once, of bytes (offset, value) that the vocabulary has no token for. Raises
    DroppedBytesError instead with `strict`."""
    if not dropped:
        return
    if strict:
        from ggufc.tokenizer.errors import refuse_dropped

        refuse_dropped(list(dropped))
    first = ", ".join(f"0x{value:02x} at byte {offset}" for offset, value in dropped[:8])
    more = f" and {len(dropped) - 8} more" if len(dropped) > 8 else ""
    report(f"warning: dropped {first}{more}: the vocabulary has no token for them")


def generation_settings(arguments: argparse.Namespace) -> "Settings":
    """The settings that `add_generation_arguments` declared."""
    return {
        "max_tokens": arguments.n_predict,
        "temperature": arguments.temp,
        "top_k": arguments.top_k,
        "top_p": arguments.top_p,
        "min_p": arguments.min_p,
        "seed": arguments.seed,
        "stop": arguments.stop,
        "ignore_eos": arguments.ignore_eos,
    }


def bundle_path(model: Path) -> Path:
    """The bundle of a path given on the command line: itself, or the cached one of a GGUF file."""
    from ggufc.cache import resolve

    return resolve(model, compile_with_bars)


def compile_with_bars(source: Path, destination: Path) -> None:
    """Compile a model for this machine and say so."""
    from ggufc.cli.bars import bars
    from ggufc.compiler.driver import compile_model
    from ggufc.compiler.options import CompileOptions

    report(f"compiling {source} once, into {destination}")
    with bars() as progress:
        compile_model(source, destination, CompileOptions(), force=True, progress=progress)


def open_model(
    arguments: argparse.Namespace, *, graph: str = "prefill", sequences: int | None = 1
) -> "Model":
    """The model that `add_model_arguments` describes. Raises PurposeError unless it has `graph`."""
    from ggufc.runtime.model import Model

    model = Model.load(
        bundle_path(arguments.model),
        threads=arguments.threads,
        context=arguments.ctx_size,
        sequences=sequences,
        isa=arguments.isa,
        mapped=arguments.mmap,
    )
    try:
        model.engine.check_graph(graph)
    except PurposeError:
        model.close()
        raise
    return model


def tell_notice(model: "Model") -> None:
    """Say what the user should know about the model's chat template, if anything."""
    if model.template.notice is not None:
        report(model.template.notice)


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """The prompt of `-p`, of `-f`, or of standard input when that is not a terminal."""
    if prompt is not None and file is not None:
        raise UsageError("-p and -f exclude each other")
    if prompt is not None:
        return decoded(prompt.encode("utf-8", "surrogateescape"), "-p")
    if file is not None and str(file) != "-":
        return decoded(file.read_bytes(), str(file))
    if file is None and sys.stdin.isatty():
        raise UsageError("no prompt; give one with -p, -f or on standard input")
    return decoded(sys.stdin.buffer.read(), "standard input")


def decoded(data: bytes, where: str) -> str:
    """UTF-8 as text. Raises ArgumentError that names the offset of the first bad byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{where}: byte {data[error.start]:#04x} at offset {error.start} is not UTF-8"
        ) from None
