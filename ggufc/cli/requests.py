"""Requests on lines of JSON: one object a line, whose keys and values are checked."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ggufc.json_lines import check_key, parsed
from ggufc.runtime.errors import ArgumentError

WORDS = {str: "a string", bool: "true or false", int: "an integer", list: "a list"}


def lines_of(name: str) -> Iterator[bytes]:
    """The lines of a file or of standard input that are not empty."""
    if name == "-":
        yield from filter(bytes.strip, sys.stdin.buffer)
        return
    with open(name, "rb") as file:
        yield from filter(bytes.strip, file)


def object_in(line: str | bytes, kinds: Mapping[str, type], wanted: str) -> dict[str, Any]:
    """The object in a line, without what is null; `kinds` are the types of the values by their
    keys, `wanted` says what the line is to hold. Raises ArgumentError."""
    data = parsed(line)
    if not isinstance(data, dict):
        raise ArgumentError(f"expected {wanted}, found {in_json(data)}")
    for key, value in data.items():
        check_key(key, kinds)
        if value is not None and type(value) is not kinds[key]:
            raise ArgumentError(f"{key}: expected {WORDS[kinds[key]]}, found {in_json(value)}")
    return {key: value for key, value in data.items() if value is not None}


def in_json(value: Any) -> str:
    """The beginning of a value, as the request spells it."""
    return json.dumps(value)[:40]
