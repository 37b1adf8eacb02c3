"""`ggufc render`: messages to the prompt that a model is given, as text, ids or JSON.

Reads a bundle, or only the metadata of a GGUF file; with `--chat-template`, or with `--jsonl` where
the lines bring the template, it needs no model at all.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError, describe, report
from ggufc.cli.common import add_policy_arguments, tell_dropped
from ggufc.cli.requests import lines_of

if TYPE_CHECKING:
    from ggufc.prompts import Prompt, PromptSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="[BUNDLE|MODEL.gguf] MESSAGES.json",
        help="the model, and a list of messages or an object with further keys; - for stdin",
    )
    add("--tools", type=Path, metavar="FILE", help="JSON list of tools for the template")
    add("--kwargs", metavar="JSON", help="further template variables, as an object")
    add("--chat-template", type=Path, metavar="FILE", help="instead of the model's own template")
    add("--template", metavar="NAME", help="one of the model's named templates")
    add("--now", metavar="ISO", help="the time that the template is told (default: now)")
    add(
        "--no-generation-prompt",
        dest="add_generation_prompt",
        action="store_const",
        const=False,
        help="do not open the assistant's turn",
    )
    add(
        "--continue-final-message",
        action="store_true",
        help="leave the last message open, for the model to go on with",
    )
    add_policy_arguments(parser, "literal, plain text")
    add("--ids", action="store_true", help="print the token ids, not the text")
    add("--json", action="store_true", help="print one JSON object")
    add("--jsonl", metavar="FILE", help="one request a line, one result a line out; - for stdin")
    add("--show-provenance", action="store_true", help="tell template text and content apart")


def main(arguments: argparse.Namespace) -> int:
    """Render one conversation or many."""
    model, messages = chosen_paths(arguments)
    source = open_source(model)
    defaults = defaults_of(arguments)
    if arguments.jsonl is not None:
        for line in lines_of(arguments.jsonl):
            print(json.dumps(answer(source, line, defaults)), flush=True)
        return 0
    prompt = rendered(source, messages, defaults)
    if arguments.json:
        print(json.dumps(prompt.to_json()))
        return 0
    if prompt.encoded is not None:
        tell_dropped(prompt.encoded.dropped_bytes, strict=False)
    if arguments.ids:
        print(*ids_of(prompt))
    elif arguments.show_provenance:
        show_provenance(prompt)
    else:
        print(prompt.rendered.text, end="", flush=True)
    return 0


def chosen_paths(arguments: argparse.Namespace) -> tuple[Path | None, str]:
    """The model, if one is named, and the file of messages. Raises UsageError."""
    paths = arguments.paths
    if len(paths) > (2 if arguments.jsonl is None else 1):
        raise UsageError("too many arguments: [BUNDLE|MODEL.gguf] MESSAGES.json, or --jsonl FILE")
    if arguments.jsonl is not None:
        return (Path(paths[0]) if paths else None), ""
    if not paths:
        raise UsageError("give MESSAGES.json or --jsonl FILE")
    if len(paths) == 1 and arguments.chat_template is None:
        raise UsageError("give a model before MESSAGES.json, or a template with --chat-template")
    return (Path(paths[0]) if len(paths) == 2 else None), paths[-1]


def open_source(model: Path | None) -> "PromptSource":
    """Templates and vocabulary of a model; neither without one."""
    from ggufc.prompts import PromptSource

    return PromptSource() if model is None else PromptSource.open(model)


def defaults_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options say, by the keys of a request."""
    from ggufc.compiler.prompt_import import read_template
    from ggufc.prompts import parse_json, request_of

    found: dict[str, Any] = {
        "add_generation_prompt": arguments.add_generation_prompt,
        "continue_final_message": arguments.continue_final_message or None,
        "control_tokens": arguments.control_tokens,
        "strict": arguments.strict or None,
        "template": arguments.template,
        "now": arguments.now,
    }
    if arguments.tools is not None:
        found["tools"] = parse_json(arguments.tools.read_bytes(), str(arguments.tools))
    if arguments.kwargs is not None:
        found["kwargs"] = parse_json(arguments.kwargs, "--kwargs")
    if arguments.chat_template is not None:
        found["chat_template"] = read_template(arguments.chat_template)
    given = {key: value for key, value in found.items() if value is not None}
    request_of({**given, "messages": []})
    return given


def rendered(source: "PromptSource", messages: str, defaults: dict[str, Any]) -> "Prompt":
    """The prompt of the messages in a file; the options come before what the file says."""
    from ggufc.prompts import parse_json, request_of

    data = sys.stdin.buffer.read() if messages == "-" else Path(messages).read_bytes()
    request = parse_json(data, "standard input" if messages == "-" else messages)
    whole = {"messages": request} if isinstance(request, list) else request
    if isinstance(whole, dict):
        whole = {**whole, **defaults}
    prompt = source.prompt(found := request_of(whole))
    notice = source.template_for(found).notice
    if notice is not None:
        report(notice)
    return prompt


def ids_of(prompt: "Prompt") -> list[int]:
    """The ids of a prompt. Raises UsageError where there is no vocabulary."""
    if prompt.encoded is None:
        raise UsageError("--ids needs a model: a template alone has no vocabulary")
    return prompt.encoded.ids


def answer(source: "PromptSource", line: bytes, defaults: dict[str, Any]) -> dict[str, Any]:
    """The result of one line, or an error object; the command's options are the defaults."""
    from ggufc.prompts import label_of, parse_json, request_of
    from ggufc.runtime.prompt import PromptError
    from ggufc.tokenizer import TokenizerError

    label: dict[str, Any] = {}
    try:
        data = parse_json(line, "the line")
        label = label_of(data)
        return {**label, **source.prompt(request_of(data, defaults)).to_json()}
    except (PromptError, TokenizerError) as error:
        return {**label, "error": error_object(error)}


def error_object(error: Exception) -> dict[str, Any]:
    """An error for programs."""
    found = {"kind": getattr(error, "kind", "invalid_request"), "message": describe(error)}
    line = getattr(error, "template_line", None)
    return found if line is None else {**found, "template_line": line}


def show_provenance(prompt: "Prompt") -> None:
    """The prompt with its authors: coloured on a terminal, a line for each part elsewhere."""
    from ggufc.cli.provenance import coloured, listed

    print(coloured(prompt) if sys.stdout.isatty() else listed(prompt))
