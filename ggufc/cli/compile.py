"""`ggufc compile`: a GGUF model into a bundle."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ggufc.cli import Terminated, UsageError, report
from ggufc.cli.numbers import integer
from ggufc.compiler.errors import CompileError
from ggufc.compiler.options import KV_TYPES, STAGES, CompileOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    defaults = CompileOptions()
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.gguf")
    add("-o", "--output", type=Path, metavar="DIR", help="the bundle (default: NAME.ggufc here)")
    add(
        "--target",
        default=defaults.target,
        help="native (default), portable, or instruction sets: A,B",
    )
    add("-c", "--ctx-size", type=integer, help="the longest context (default: the model's own)")
    add("--max-batch", type=integer, default=defaults.max_batch, help="the most sequences at once")
    add("--kv-type", default=defaults.kv_type, help=f"type of the KV cache: {', '.join(KV_TYPES)}")
    add(
        "--chat-template",
        type=Path,
        metavar="FILE",
        help="use this Jinja template, not the model's",
    )
    add("--keep-ir", action="store_true", help="put the text of every stage into the bundle")
    add("--dump-ir", type=Path, metavar="DIR", help="write the program after every pass to DIR")
    add(
        "--stop-after", choices=STAGES, metavar="STAGE", help=f"make no bundle: {', '.join(STAGES)}"
    )
    add("--force", action="store_true", help="replace the bundle if it exists")


def main(arguments: argparse.Namespace) -> int:
    """Compile and say where the bundle is."""
    from ggufc.cli.bars import bars
    from ggufc.compiler.driver import compile_model, default_destination

    if arguments.stop_after and arguments.output:
        raise UsageError("--stop-after makes no bundle, so it excludes -o")
    destination = arguments.output or default_destination(arguments.model)
    with bars() as progress, told_of_signals(arguments.model):
        summary = compile_model(
            arguments.model,
            destination,
            options_of(arguments),
            force=arguments.force,
            dump_ir=arguments.dump_ir,
            stop_after=arguments.stop_after,
            progress=progress,
        )
    for notice in summary.notices:
        report(notice)
    if not arguments.stop_after:
        report(f"{destination}: {summary.bytes / 1e6:.1f} MB for {', '.join(summary.isas)}")
    return 0


@contextmanager
def told_of_signals(model: Path) -> Iterator[None]:
    """A compile that a signal ends says so, since whoever waits for the bundle will miss it.
    Raises CompileError."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as signal:
        name = "SIGTERM" if isinstance(signal, Terminated) else "SIGINT"
        raise CompileError(f"{model}: stopped by {name}; no bundle was written") from None


def options_of(arguments: argparse.Namespace) -> CompileOptions:
    """The options that the bundle depends on. Raises CompileError."""
    return CompileOptions(
        target=arguments.target,
        context=arguments.ctx_size,
        max_batch=arguments.max_batch,
        kv_type=arguments.kv_type,
        chat_template=arguments.chat_template,
        keep_ir=arguments.keep_ir,
    )
