"""`ggufc run`: answer one prompt, streamed to standard output."""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError
from ggufc.cli.common import (
    add_generation_arguments,
    add_model_arguments,
    add_policy_arguments,
    decoded,
    generation_settings,
    open_model,
    read_prompt,
    tell_dropped,
    tell_notice,
)
from ggufc.cli.requests import in_json
from ggufc.cli.sessions import add_session_argument, check_session, kept_session

if TYPE_CHECKING:
    from ggufc.runtime.generate import Event, Generation
    from ggufc.runtime.model import Model
    from ggufc.runtime.prompt import Conversation, EncodedPrompt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("-p", "--prompt", help="the prompt (default: standard input)")
    add("-f", "--file", type=Path, help="read the prompt from a file")
    add("--system", help="the system message")
    add("--no-template", action="store_true", help="continue the text; no chat template")
    add("--literal", action="store_true", help="as --control-tokens literal")
    add("--template", metavar="NAME", help="one of the model's named templates")
    add_policy_arguments(parser, "literal, plain text; with --no-template native")
    add("--think", action=argparse.BooleanOptionalAction, help="let the model reason first, or not")
    add("--tools", type=Path, metavar="FILE", help="JSON list of tools for the template")
    add_generation_arguments(parser)
    add_session_argument(parser, "keep what is evaluated in FILE, and begin with what it holds")
    add("--json", action="store_true", help="print one JSON object at the end")


def main(arguments: argparse.Namespace) -> int:
    """Answer the prompt."""
    check(arguments)
    check_session(arguments.session)
    prompt = read_prompt(arguments.prompt, arguments.file)
    with open_model(arguments) as model, kept_session(model, arguments.session) as kept:
        if not arguments.no_template:
            tell_notice(model)
        clock = Clock()
        whole = encoded(model, arguments, prompt)
        settings = generation_settings(arguments)
        for event in model.generate(whole.ids, stream=True, session=kept.session, **settings):
            clock.saw(event)
            if not arguments.json:
                print(event.text, end="\n" if event.result is not None else "", flush=True)
            elif event.result is not None:
                print(as_json(model, whole, clock, event.result))
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that exclude each other. Raises UsageError."""
    chat_only = {
        "--system": arguments.system,
        "--tools": arguments.tools,
        "--think": arguments.think,
        "--template": arguments.template,
    }
    given = [name for name, value in chat_only.items() if value is not None]
    if arguments.no_template and given:
        raise UsageError(f"{given[0]} needs the chat template, so it excludes --no-template")
    if arguments.literal and arguments.control_tokens not in (None, "literal"):
        raise UsageError(f"--literal excludes --control-tokens {arguments.control_tokens}")


def encoded(model: "Model", arguments: argparse.Namespace, prompt: str) -> "EncodedPrompt":
    """The prompt as ids; what was dropped is said on standard error."""
    policy = "literal" if arguments.literal else arguments.control_tokens
    if arguments.no_template:
        from ggufc.runtime.prompt.prompting import text_prompt

        found = text_prompt(prompt, model.tokenizer, policy or "native")
    else:
        whole = conversation(arguments, prompt)
        found = model.chat_prompt(whole, arguments.template, policy or "literal")
    tell_dropped(found.dropped_bytes, arguments.strict)
    return found


def conversation(arguments: argparse.Namespace, prompt: str) -> "Conversation":
    """The prompt as a conversation of one turn, with what the template is told besides."""
    from ggufc.runtime.prompt import Conversation

    messages = [{"role": "user", "content": prompt}]
    if arguments.system is not None:
        messages.insert(0, {"role": "system", "content": arguments.system})
    tools = None if arguments.tools is None else read_json_list(arguments.tools)
    variables = {} if arguments.think is None else {"enable_thinking": arguments.think}
    return Conversation(messages, tools=tools, variables=variables)


def read_json_list(path: Path) -> list[Any]:
    """A JSON list in a file. Raises UsageError."""
    try:
        value = json.loads(decoded(path.read_bytes(), str(path)))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, list):
        raise UsageError(f"{path}: expected a JSON list, found {in_json(value)}")
    return value


class Clock:
    """When the first token came, in seconds since this process started."""

    def __init__(self) -> None:
        self.first_token_s: float | None = None

    def saw(self, _event: "Event") -> None:
        """Note the time of the first event."""
        if self.first_token_s is None:
            self.first_token_s = process_age()


def process_age() -> float:
    """Seconds since this process started, as the kernel counts them (in hundredths)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks_per_second = 100  # USER_HZ, the same on every architecture that Linux has
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / ticks_per_second


def as_json(model: "Model", prompt: "EncodedPrompt", clock: Clock, result: "Generation") -> str:
    """The generation as a JSON object."""
    report = dataclasses.asdict(result)
    report["timings"]["load_s"] = model.load_seconds
    report["timings"]["first_token_s"] = clock.first_token_s
    if prompt.dropped_bytes:
        report["dropped_bytes"] = prompt.dropped_bytes
    return json.dumps(report, ensure_ascii=False)
