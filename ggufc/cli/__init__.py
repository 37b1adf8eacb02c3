"""The command line: one module a command, imported only when it is asked for.

A command module defines `add_arguments(parser)` and `main(arguments) -> int`, and parses and
prints only: the work is done by library functions. Errors are raised, never printed, by commands:
`main` here turns each into one line on standard error and exit code 1.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn, Protocol, cast

from ggufc.cli.streams import (
    STDOUT,
    drop_output,
    name_standard_output,
    replace_closed_streams,
)

COMMANDS = {
    "compile": "compile a GGUF model into a bundle",
    "run": "answer one prompt",
    "chat": "hold a conversation",
    "batch": "answer many requests together, one JSON object a line",
    "inspect": "show what is in a GGUF file or a bundle, and what is supported",
    "ir": "print the program of a model at any stage",
    "tokenize": "turn text into token ids, or back",
    "render": "turn messages into the model's prompt",
    "embed": "turn texts into embeddings",
    "logits": "write the logits that follow token ids",
    "verify": "check a bundle's files and its code against the reference interpreter",
    "bench": "measure prefill, decode, loading and the first token",
}

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM


class Command(Protocol):
    """What every module of this package offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def main(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


class UsageError(Exception):
    """Arguments that argparse accepts but that make no sense together: exit code 2, as for every
    error that says `is_usage`."""

    is_usage = True


class Terminated(BaseException):
    """SIGTERM as an exception, so that everything half-written is cleaned up on the way out."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print `message` on one line and exit with code 2."""
        report(f"{message} (see {self.prog} --help)")
        raise SystemExit(EXIT_USAGE)


def report(message: str) -> None:
    """Print one line on standard error, whatever `message` holds: nothing in it is obeyed by a
    terminal."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"ggufc: {line}", file=sys.stderr)


def overview() -> str:
    """The text of `ggufc --help`."""
    lines = [f"  {name:<9} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: ggufc COMMAND [ARGUMENTS]",
            "",
            "Compile GGUF language models ahead of time, and run them on CPUs.",
            "",
            *lines,
            "",
            "ggufc COMMAND --help shows the arguments of a command; ggufc --version the version.",
        ]
    )


def parser_for(name: str, command: Command) -> Parser:
    """The argument parser of one command."""
    parser = Parser(
        prog=f"ggufc {name}", description=f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."
    )
    command.add_arguments(parser)
    return parser


def run_command(argv: Sequence[str]) -> int:
    """Run the command line `argv` (without the program's name); exceptions pass through."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if argv else EXIT_USAGE
    if argv[0] in ("--version", "-V"):
        from ggufc import __version__

        print(f"ggufc {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise UsageError(f"unknown command {argv[0]!r}; the commands are {', '.join(COMMANDS)}")
    command = cast(Command, importlib.import_module(f"ggufc.cli.{argv[0]}"))
    return command.main(parser_for(argv[0], command).parse_intermixed_args(argv[1:]))


def describe(error: BaseException) -> str:
    """One line about an error: ours as it stands, the system's with its path, a fault of ours as
    such."""
    if type(error).__module__.partition(".")[0] == "ggufc":
        return str(error)
    if isinstance(error, OSError):
        names = [os.fsdecode(n) for n in (error.filename, error.filename2) if n is not None]
        return ": ".join([*names, error.strerror or str(error)])
    if isinstance(error, MemoryError):
        return "not enough memory"
    return f"internal error, please report it: {type(error).__name__}: {error}"


def terminate(_signal: int, _frame: FrameType | None) -> None:
    """The handler of SIGTERM."""
    raise Terminated


def exit_code_of(error: BaseException) -> int:
    """Report `error` and return the exit code it means."""
    if os.environ.get("GGUFC_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if isinstance(error, Terminated):
        return EXIT_TERMINATED
    if isinstance(error, OSError) and error.filename == STDOUT:
        drop_output()
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone: nothing more can be said.
        drop_output()
        return EXIT_ERROR
    report(describe(error))
    return EXIT_USAGE if getattr(error, "is_usage", False) else EXIT_ERROR


def main(argv: Sequence[str] | None = None) -> int:
    """The program `ggufc`: run one command and return its exit code (0, 1, 2, or 128 + signal)."""
    signal.signal(signal.SIGTERM, terminate)
    replace_closed_streams()
    name_standard_output()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run_command(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt, Terminated) as error:
        return exit_code_of(error)
