"""`ggufc chat`: a conversation in the terminal; what both said stays in the KV cache."""

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ggufc.cli import UsageError, describe, report
from ggufc.cli.common import (
    add_generation_arguments,
    add_model_arguments,
    add_policy_arguments,
    decoded,
    generation_settings,
    open_model,
    tell_dropped,
    tell_notice,
)
from ggufc.cli.sessions import (
    Kept,
    Messages,
    add_session_argument,
    check_session,
    kept_session,
)
from ggufc.runtime.errors import RunError
from ggufc.tokenizer.errors import TokenizerError

if TYPE_CHECKING:
    from ggufc.runtime.model import Model

HELP = "/clear forgets the conversation, /exit or Ctrl-D ends it, Ctrl-C ends an answer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    parser.add_argument("--system", help="the system message")
    parser.add_argument("--template", metavar="NAME", help="one of the model's named templates")
    add_policy_arguments(parser, "literal, plain text")
    add_generation_arguments(parser)
    add_session_argument(parser, "go on with the conversation in FILE, and keep it there")


def main(arguments: argparse.Namespace) -> int:
    """Talk until the input ends."""
    check_session(arguments.session)
    with open_model(arguments) as model, kept_session(model, arguments.session) as kept:
        tell_notice(model)
        if sys.stdin.isatty():
            import readline  # noqa: F401  (gives input() its line editing and history)

            print(HELP, file=sys.stderr)
        converse(model, kept, arguments)
    return 0


def converse(model: "Model", kept: Kept, arguments: argparse.Namespace) -> None:
    """One turn after another; an error ends a turn only."""
    start = opening(arguments)
    if kept.messages and start and kept.messages[0] != start[0]:
        raise UsageError(f"{arguments.session}: the conversation has another system message")
    kept.messages = kept.messages or start
    while (said := read_turn()) is not None:
        if said == "/clear":
            kept.messages = opening(arguments)
        elif said == "/help":
            print(HELP, file=sys.stderr)
        elif said:
            take_turn(model, kept, said, arguments)


def opening(arguments: argparse.Namespace) -> Messages:
    """A conversation before its first turn."""
    system = arguments.system
    return [] if system is None else [{"role": "system", "content": system}]


def read_turn() -> str | None:
    """What the user says, or None at the end."""
    if sys.stdin.isatty():
        try:
            said = input("> ")
        except EOFError:
            print()
            return None
    else:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        said = decoded(line, "standard input").rstrip("\n")
    return None if said == "/exit" else said.strip()


def take_turn(model: "Model", kept: Kept, said: str, arguments: argparse.Namespace) -> None:
    """Answer and remember; a turn that fails is taken back, one that is interrupted keeps what
    was shown."""
    messages = kept.messages
    messages.append({"role": "user", "content": said})
    shown: list[str] = []
    settings = generation_settings(arguments)
    try:
        with suppress(KeyboardInterrupt):
            how = (arguments.template, arguments.control_tokens or "literal")
            prompt = model.chat_prompt(messages, *how)
            tell_dropped(prompt.dropped_bytes, arguments.strict)
            for event in model.generate(prompt.ids, stream=True, session=kept.session, **settings):
                shown.append(event.text)
                print(event.text, end="", flush=True)
    except (RunError, TokenizerError) as error:
        messages.pop()
        report(describe(error))
        return
    print(flush=True)
    messages.append({"role": "assistant", "content": "".join(shown)})
