"""Typed reading of a tokenizer's metadata keys. Every error is a SpecError that names the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ggufc.tokenizer.errors import SpecError


def text_of(metadata: Mapping[str, Any], key: str) -> str | None:
    """A string, None where the key is missing."""
    value = metadata.get(key)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, str):
        return value
    raise SpecError(f"{key} is {shown(value)}, a string is wanted")


def strings_of(metadata: Mapping[str, Any], key: str) -> list[bytes] | None:
    """An array of strings as bytes, None where the key is missing."""
    value = metadata.get(key)
    if value is None:
        return None
    raw: Callable[[], list[bytes]] | None = getattr(value, "raw", None)
    items: Sequence[Any] = raw() if raw else sequence_of(value, key)
    try:
        return [
            item if isinstance(item, bytes) else item.encode("utf-8", "surrogateescape")
            for item in items
        ]
    except (AttributeError, UnicodeError):
        raise SpecError(f"{key} is not an array of strings") from None


def numbers_of(
    metadata: Mapping[str, Any], key: str, size: int, real: bool = False
) -> np.ndarray[Any, np.dtype[Any]] | None:
    """An array of one number a token: 32-bit or wider."""
    value = metadata.get(key)
    if value is None:
        return None
    numpy = getattr(value, "numpy", None)
    array = np.asarray(numpy() if numpy else sequence_of(value, key))
    if array.ndim != 1 or array.dtype.kind not in ("iuf" if real else "iu"):
        raise SpecError(f"{key} is not an array of {'numbers' if real else 'integers'}")
    if array.dtype.itemsize < 4:
        raise SpecError(f"{key} has elements of {array.dtype.itemsize} bytes, 4 are wanted")
    if len(array) != size:
        raise SpecError(f"{key} has {len(array)} values, wanted {size}, one for each token")
    return array


def sequence_of(value: Any, key: str) -> Any:
    """The value itself, if it is an array."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
        raise SpecError(f"{key} is {shown(value)}, an array is wanted")
    return value


def shown(value: Any) -> str:
    """A value as messages show it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
