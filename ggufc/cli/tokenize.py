"""`ggufc tokenize`: text to token ids, or ids to text.

Reads a bundle, or only the metadata of a GGUF file: a file with nothing but a vocabulary will do.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError, describe, report
from ggufc.cli.common import decoded
from ggufc.runtime.errors import ArgumentError

if TYPE_CHECKING:
    from ggufc.tokenizer import Tokenizer

Result = dict[str, Any]

_KINDS = {"text": str, "ids": list, "literal": bool, "no_bos": bool, "decode": bool, "strict": bool}


@dataclass(frozen=True)
class Request:
    """One text to encode, or with `decode` ids to decode: a list, or a text with ids in it."""

    text: str = ""
    ids: list[int] | None = None
    literal: bool = False
    no_bos: bool = False
    decode: bool = False
    strict: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("model", type=Path, metavar="BUNDLE|MODEL.gguf")
    add("text", nargs="?", metavar="TEXT", help="the text; - or nothing for standard input")
    add("--literal", action="store_true", help="control tokens in the text are ordinary text")
    add("--no-bos", action="store_true", help="without the begin and end tokens")
    add("--decode", action="store_true", help="TEXT holds ids: print what they stand for")
    add("--strict", action="store_true", help="refuse bytes that the vocabulary has no token for")
    add("--json", action="store_true", help="print one JSON object")
    add("--jsonl", metavar="FILE", help="one request a line, one result a line out; - for stdin")


def main(arguments: argparse.Namespace) -> int:
    """Encode or decode one text or many."""
    if arguments.jsonl is not None and arguments.text is not None:
        raise UsageError("give either TEXT or --jsonl")
    tokenizer = open_tokenizer(arguments.model)
    options = {name: getattr(arguments, name) for name in ("literal", "no_bos", "decode", "strict")}
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
        control_tokens="literal" if request.literal else "native",
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
    ids = ids_in(request.text) if request.ids is None else request.ids
    for token in ids:
        if not 0 <= token < tokenizer.vocab_size:
            last = tokenizer.vocab_size - 1
            raise ArgumentError(f"token id {token}: the vocabulary has ids 0 to {last}")
    return {"text": tokenizer.decode_text(ids), "bytes_hex": tokenizer.decode(ids).hex()}


def ids_in(text: str) -> list[int]:
    """Ids with spaces or commas between, perhaps in brackets. Raises ArgumentError."""
    words = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    for word in words:
        if not (word.isascii() and word.removeprefix("-").isdigit() and len(word) < 20):
            raise ArgumentError(f"{word!r:.60} is not a token id; numbers such as 1,2,3 are wanted")
    return [int(word) for word in words]


def show(tokenizer: "Tokenizer", result: Result) -> None:
    """A result for people; what was lost is said on standard error."""
    if "bytes_hex" in result:
        print(result["text"])
        return
    for token, text in zip(result["ids"], result["tokens"], strict=True):
        print(f"{token:>8}  {text!r}")
    dropped = result["dropped_bytes"]
    if dropped:
        first = ", ".join(f"0x{value:02x} at byte {offset}" for offset, value in dropped[:8])
        more = f" and {len(dropped) - 8} more" if len(dropped) > 8 else ""
        report(f"warning: dropped {first}{more}: the vocabulary has no token for them")


def answer(tokenizer: "Tokenizer", line: bytes, options: dict[str, bool]) -> Result:
    """The result of one line, or an error object; the command's own options are the defaults."""
    from ggufc.tokenizer import DroppedBytesError, TextError, TokenizerError

    try:
        return respond(tokenizer, request_of(line, options))
    except (ArgumentError, TokenizerError) as error:
        kinds = {TextError: "invalid_text", DroppedBytesError: "dropped_bytes"}
        kind = kinds.get(type(error), "invalid_request")
        return {"error": {"kind": kind, "message": describe(error)}}


def request_of(line: bytes, options: dict[str, bool]) -> Request:
    """The request in one line of JSON. Raises ArgumentError."""
    try:
        data = json.loads(decoded(line, "line"))
    except (ValueError, RecursionError):
        raise ArgumentError("the line is not JSON") from None
    if not isinstance(data, dict):
        raise ArgumentError(f"the line holds a {type(data).__name__}, an object is wanted")
    for key, value in data.items():
        if key not in _KINDS:
            raise ArgumentError(f"unknown key {key!r:.60}; the keys are {', '.join(_KINDS)}")
        if not isinstance(value, _KINDS[key]):
            raise ArgumentError(f"{key} is {value!r:.60}, a {_KINDS[key].__name__} is wanted")
    if any(type(token) is not int for token in data.get("ids", ())):
        raise ArgumentError("ids holds something that is not an integer")
    if "text" not in data and "ids" not in data:
        raise ArgumentError("the line has no text")
    return Request(**{**options, **data, "decode": _decodes(data, options)})


def _decodes(data: dict[str, Any], options: dict[str, bool]) -> bool:
    return bool(data.get("decode", options["decode"] or "text" not in data))


def lines_of(name: str) -> Iterator[bytes]:
    """The lines of a file or of standard input that are not empty."""
    if name == "-":
        yield from filter(bytes.strip, sys.stdin.buffer)
        return
    with open(name, "rb") as file:
        yield from filter(bytes.strip, file)
