"""`ggufc tokenize`: text to token ids, or ids to text.

Reads a bundle, or only the metadata of a GGUF file: a file with nothing but a vocabulary will do.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError, describe
from ggufc.cli.common import add_policy_arguments, decoded, tell_dropped
from ggufc.cli.numbers import token_ids
from ggufc.cli.requests import lines_of, object_in
from ggufc.runtime.errors import ArgumentError

if TYPE_CHECKING:
    from ggufc.tokenizer import Tokenizer

Result = dict[str, Any]

_KINDS = {
    "text": str,
    "ids": list,
    "literal": bool,
    "control_tokens": str,
    "no_bos": bool,
    "decode": bool,
    "strict": bool,
}
_OPTIONS = ("literal", "control_tokens", "no_bos", "decode", "strict")


@dataclass(frozen=True)
class Request:
    """One text to encode, or with `decode` ids to decode: a list, or a text with ids in it.
    `literal` is short for a policy for control tokens."""

    text: str = ""
    ids: list[int] | None = None
    literal: bool = False
    control_tokens: str | None = None
    no_bos: bool = False
    decode: bool = False
    strict: bool = False

    @property
    def policy(self) -> str:
        """What control tokens in the text become. Raises ArgumentError."""
        if self.literal and self.control_tokens not in (None, "literal"):
            raise ArgumentError(f"literal excludes control_tokens {self.control_tokens!r}")
        return "literal" if self.literal else self.control_tokens or "native"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("model", type=Path, metavar="BUNDLE|MODEL.gguf")
    add("text", nargs="?", metavar="TEXT", help="the text; - or nothing for standard input")
    add("--literal", action="store_true", help="as --control-tokens literal")
    add_policy_arguments(parser, "native")
    add("--no-bos", action="store_true", help="without the begin and end tokens")
    add("--decode", action="store_true", help="TEXT holds ids: print what they stand for")
    add("--json", action="store_true", help="print one JSON object")
    add("--jsonl", metavar="FILE", help="one request a line, one result a line out; - for stdin")


def main(arguments: argparse.Namespace) -> int:
    """Encode or decode one text or many."""
    if arguments.jsonl is not None and arguments.text is not None:
        raise UsageError("give either TEXT or --jsonl")
    if arguments.literal and arguments.control_tokens not in (None, "literal"):
        raise UsageError(f"--literal excludes --control-tokens {arguments.control_tokens}")
    tokenizer = open_tokenizer(arguments.model)
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    if arguments.jsonl is not None:
        for line in lines_of(arguments.jsonl):
            print(json.dumps(answer(tokenizer, line, options)), flush=True)
        return 0
    request = Request(text=given_text(arguments.text), **options)
    result = respond(tokenizer, request)
    if arguments.json:
        print(json.dumps(result))
    else:
        show(tokenizer, result)
    return 0


def open_tokenizer(path: Path) -> "Tokenizer":
    """The tokenizer of a bundle or of a GGUF file."""
    from ggufc.runtime.bundle import MANIFEST, Bundle
    from ggufc.tokenizer import create_tokenizer, load_tokenizer

    if path.is_dir():
        if (path / MANIFEST).exists():
            Bundle.open(path)
        return load_tokenizer(path)
    from ggufc.compiler.gguf import GGUFFile
    from ggufc.compiler.tokenizer_import import import_tokenizer

    with GGUFFile.open(path) as file:
        return create_tokenizer(import_tokenizer(file.metadata))


def given_text(text: str | None) -> str:
    """The text of the command line or of standard input. Raises ArgumentError naming the first
    byte that is not UTF-8."""
    if text is None or text == "-":
        return decoded(sys.stdin.buffer.read(), "standard input")
    return decoded(text.encode("utf-8", "surrogateescape"), "TEXT")


def respond(tokenizer: "Tokenizer", request: Request) -> Result:
    """The result of one request. Raises TokenizerError, ArgumentError."""
    if request.decode:
        return decode(tokenizer, request)
    encoding = tokenizer.encode_with_details(
        request.text,
        control_tokens=request.policy,
        add_special=not request.no_bos,
        strict=request.strict,
    )
    return {
        "ids": encoding.ids,
        "tokens": [tokenizer.token_text(token) for token in encoding.ids],
        "dropped_bytes": [list(pair) for pair in encoding.dropped_bytes],
    }


def decode(tokenizer: "Tokenizer", request: Request) -> Result:
    """What ids stand for: as text, and byte for byte. Raises ArgumentError."""
    ids = token_ids(request.text) if request.ids is None else request.ids
    for token in ids:
        if not 0 <= token < tokenizer.vocab_size:
            last = tokenizer.vocab_size - 1
            raise ArgumentError(f"token id {token}: the vocabulary has ids 0 to {last}")
    return {"text": tokenizer.decode_text(ids), "bytes_hex": tokenizer.decode(ids).hex()}


def show(tokenizer: "Tokenizer", result: Result) -> None:
    """A result for people; what was lost is said on standard error."""
    if "bytes_hex" in result:
        print(result["text"])
        return
    for token, text in zip(result["ids"], result["tokens"], strict=True):
        print(f"{token:>8}  {text!r}")
    tell_dropped([(offset, value) for offset, value in result["dropped_bytes"]], strict=False)


def answer(tokenizer: "Tokenizer", line: bytes, options: dict[str, Any]) -> Result:
    """The result of one line, or an error object; the command's own options are the defaults."""
    from ggufc.tokenizer import (
        ControlTokenInTextError,
        DroppedBytesError,
        TextError,
        TokenizerError,
    )

    try:
        return respond(tokenizer, request_of(line, options))
    except (ArgumentError, TokenizerError) as error:
        kinds = {
            TextError: "invalid_text",
            DroppedBytesError: "dropped_bytes",
            ControlTokenInTextError: "control_token",
        }
        kind = kinds.get(type(error), "invalid_request")
        return {"error": {"kind": kind, "message": describe(error)}}


def request_of(line: bytes, options: dict[str, Any]) -> Request:
    """The request in one line of JSON. Raises ArgumentError."""
    data = object_in(decoded(line, "line"), _KINDS, "an object")
    if any(type(token) is not int for token in data.get("ids", ())):
        raise ArgumentError("ids holds something that is not an integer")
    if "text" not in data and "ids" not in data:
        raise ArgumentError("the line has no text")
    return Request(**{**options, **data, "decode": _decodes(data, options)})


def _decodes(data: dict[str, Any], options: dict[str, Any]) -> bool:
    return bool(data.get("decode", options["decode"] or "text" not in data))
