"""Arguments of the Python interface: what is not of the type or within the limits that the
interface states is refused, by the argument's name, with what was found and what is allowed."""

import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ggufc.runtime.errors import ArgumentError

NAMED_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as a message names it: on one line, and cut."""
    try:
        text = repr(value)
    except Exception:  # an integer of too many digits, or a class of the caller's
        text = f"a value of type {type(value).__name__}"
    return " ".join(map(str.strip, text.splitlines()))[:NAMED_CHARACTERS]


def refuse(name: str, value: object, expected: str) -> NoReturn:
    """Raise ArgumentError: the argument, the value found, the values allowed."""
    raise ArgumentError(f"{name} {shown(value)}: expected {expected}")


def is_integer(value: object) -> bool:
    """Whether a value counts: NumPy's integers do, True and False do not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_integer(name: str, value: Any, low: int, high: int) -> None:
    """Raise ArgumentError unless `value` is an integer within the interval."""
    if not is_integer(value) or not low <= value <= high:
        refuse(name, value, f"an integer from {low} to {high}")


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise ArgumentError unless `value` is a finite number within the interval."""
    if not is_finite(value) or not low <= value <= high:
        allowed = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        refuse(name, value, f"a number {allowed}")


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_flag(name: str, value: object) -> None:
    """Raise ArgumentError unless `value` is True or False."""
    if not isinstance(value, bool):
        refuse(name, value, "True or False")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ArgumentError unless `value` is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{name} {shown(value)}: allowed are {', '.join(choices)}")


def check_instance(name: str, value: object, kind: type) -> None:
    """Raise ArgumentError unless `value` is of a class of ours."""
    if not isinstance(value, kind):
        refuse(name, value, f"an instance of {kind.__name__}")


def check_names(given: Iterable[str], kind: type, what: str = "setting") -> None:
    """Raise ArgumentError for the name of a setting that a TypedDict, or a dataclass, does not
    have."""
    for name in given:
        if name not in kind.__annotations__:
            known = ", ".join(kind.__annotations__)
            raise ArgumentError(f"unknown {what} {shown(name)}; the {what}s are {known}")


def check_iterable(name: str, value: Any, expected: str) -> None:
    """Raise ArgumentError unless `value` has members. A text alone is refused, too: its members
    are characters, which nobody who gives one means."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        refuse(name, value, expected)


def texts_of(name: str, value: Any) -> list[str]:
    """A list of texts. Raises ArgumentError for anything else, which names the first member that
    is none."""
    check_iterable(name, value, "a list of texts")
    texts = list(value)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            refuse(f"{name}[{place}]", text, "a text")
    return texts


def token_ids(name: str, value: Any, expected: str = "a list of token ids") -> Sequence[int]:
    """Token ids, perhaps as an array. Raises ArgumentError for anything else, which names the
    first member that is none."""
    ids = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(ids, str | bytes | bytearray | memoryview) or not isinstance(ids, Sequence):
        refuse(name, value, expected)
    for place, token in enumerate(ids):
        if not is_integer(token):
            refuse(f"{name}[{place}]", token, "a token id")
    return ids


def path_of(name: str, value: Any) -> Path:
    """A path. Raises ArgumentError for what is none, and for those that no file can have."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        refuse(name, value, "a path, which is not empty and has no NUL")
    return Path(text)
