"""Requests on lines of JSON: what all kinds of them have in common."""

import json
from collections.abc import Collection
from typing import Any

from ggufc.runtime.errors import ArgumentError


def parsed(line: str | bytes) -> Any:
    """The value in a line. Raises ArgumentError."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ArgumentError("the line is not JSON") from None


def check_key(key: str, known: Collection[str]) -> None:
    """Raise ArgumentError for a key that no request has."""
    if key not in known:
        raise ArgumentError(f"unknown key {key!r:.60}; the keys are {', '.join(known)}")
