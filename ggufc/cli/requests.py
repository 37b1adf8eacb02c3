"""Requests on lines of JSON: one object a line, whose keys and values are checked."""

import json
from collections.abc import Mapping
from typing import Any

from ggufc.runtime.errors import ArgumentError

WORDS = {str: "a string", bool: "true or false", int: "an integer", list: "a list"}


def object_in(line: str | bytes, kinds: Mapping[str, type], wanted: str) -> dict[str, Any]:
    """The object in a line, without what is null; `kinds` are the types of the values by their
    keys, `wanted` says what the line is to hold. Raises ArgumentError."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise ArgumentError("the line is not JSON") from None
    if not isinstance(data, dict):
        raise ArgumentError(f"expected {wanted}, found {in_json(data)}")
    for key, value in data.items():
        if key not in kinds:
            raise ArgumentError(f"unknown key {key!r:.60}; the keys are {', '.join(kinds)}")
        if value is not None and type(value) is not kinds[key]:
            raise ArgumentError(f"{key}: expected {WORDS[kinds[key]]}, found {in_json(value)}")
    return {key: value for key, value in data.items() if value is not None}


def in_json(value: Any) -> str:
    """The beginning of a value, as the request spells it."""
    return json.dumps(value)[:40]
