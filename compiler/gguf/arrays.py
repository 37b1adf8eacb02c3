"""Metadata arrays: located when the file is opened, decoded when they are first looked at.

A vocabulary has some 262,000 strings. Each is stored after its own length, so the end of the array
is known only by walking all of it; that walk and the decoding are written for speed, everything
else is not.
"""

import mmap
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ggufc.compiler.errors import quoted
from ggufc.compiler.gguf.constants import (
    KIND_BY_ID,
    MAX_DEPTH,
    MAX_NESTED,
    MAX_STRINGS,
    NUMPY_TYPES,
)
from ggufc.compiler.gguf.cursor import U64, Cursor

WALK_CHUNK = 1 << 16


class GGUFArray(Sequence[Any]):
    """An array in the metadata: a read-only sequence of Python values, decoded on first use.

    `kind` is the kind of the elements (`u32`, `string`, `array`, ...)."""

    def __init__(self, kind: str, length: int) -> None:
        """An array of `length` elements of `kind`; subclasses know where they are."""
        self.kind = kind
        self.length = length

    @cached_property
    def values(self) -> list[Any]:
        """All elements as Python values."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __repr__(self) -> str:
        return f"<{self.length} x {self.kind}>"

    def head(self, count: int) -> list[Any]:
        """The first `count` elements, without decoding the others."""
        return self.values[:count]


class NumberArray(GGUFArray):
    """An array of numbers or booleans."""

    def __init__(self, kind: str, stored: npt.NDArray[Any]) -> None:
        """`stored` is a view of the mapped file."""
        super().__init__(kind, len(stored))
        self.stored = stored

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as a one-dimensional array of their own type; not a copy, except for
        booleans."""
        return self.stored != 0 if self.kind == "bool" else self.stored

    @cached_property
    def values(self) -> list[Any]:
        """All elements as Python numbers or booleans."""
        return list(self.numpy().tolist())

    def head(self, count: int) -> list[Any]:
        """The first `count` elements."""
        return list(self.numpy()[:count].tolist())


class StringArray(GGUFArray):
    """An array of strings; those that are not UTF-8 come back with lone surrogates
    (`surrogateescape`)."""

    def __init__(self, data: mmap.mmap, starts: npt.NDArray[np.int64]) -> None:
        """`starts[i]` is where string i's length is in the file; one more entry marks the end of
        the last."""
        super().__init__("string", len(starts) - 1)
        self.data = data
        self.starts = starts

    def raw(self, count: int | None = None) -> list[bytes]:
        """The bytes of the first `count` strings, or of all."""
        starts = self.starts if count is None else self.starts[: count + 1]
        first = int(starts[0])
        blob = self.data[first : int(starts[-1])]
        ends = (starts - first).tolist()
        return [blob[a + 8 : b] for a, b in pairwise(ends)]

    @cached_property
    def values(self) -> list[Any]:
        """All strings."""
        return self.decoded(None)

    def decoded(self, count: int | None) -> list[str]:
        """The first `count` strings, or all."""
        return [piece.decode("utf-8", "surrogateescape") for piece in self.raw(count)]

    def head(self, count: int) -> list[Any]:
        """The first `count` strings."""
        return list(self.decoded(count))


class NestedArray(GGUFArray):
    """An array of arrays."""

    def __init__(self, items: list[GGUFArray]) -> None:
        """The inner arrays, which need not agree in kind or length."""
        super().__init__("array", len(items))
        self.items = items

    @cached_property
    def values(self) -> list[Any]:
        """The inner arrays."""
        return list(self.items)


def read_array(cursor: Cursor, what: str, depth: int = 1) -> GGUFArray:
    """Locate the array at the cursor (element kind, count, elements) and move behind it."""
    if depth > MAX_DEPTH:
        raise cursor.fail(f"{what} at byte {cursor.position} is nested more than {MAX_DEPTH} deep")
    at = cursor.position
    number = cursor.u32(f"the element type of {what}")
    kind = KIND_BY_ID.get(number)
    if kind is None:
        raise cursor.fail(
            f"{what} at byte {at} has element type {number}, known are 0 to {max(KIND_BY_ID)}"
        )
    if kind.name == "string":
        return read_strings(cursor, what)
    if kind.name == "array":
        count = cursor.count(f"the length of {what}", 12, MAX_NESTED)
        return NestedArray([read_array(cursor, what, depth + 1) for _ in range(count)])
    count = cursor.count(f"the length of {what}", kind.size, cursor.size)
    start = cursor.skip(count * kind.size, what)
    stored = np.frombuffer(cursor.data, NUMPY_TYPES[kind.name], count, start)
    if kind.name == "bool" and count and int(stored.max()) > 1:
        raise cursor.fail(
            f"{what} at byte {at} holds a boolean of value {int(stored.max())}, allowed are 0 and 1"
        )
    return NumberArray(kind.name, stored)


def read_strings(cursor: Cursor, what: str) -> StringArray:
    """Locate the strings of an array whose element kind has been read."""
    count = cursor.count(f"the length of {what}", 8, MAX_STRINGS)
    starts = np.empty(count + 1, np.int64)
    for first in range(0, count, WALK_CHUNK):
        last = min(first + WALK_CHUNK, count)
        starts[first:last] = walk_short(cursor, last - first) or walk(cursor, first, last, what)
    starts[count] = cursor.position
    return StringArray(cursor.data, starts)


def walk_short(cursor: Cursor, count: int) -> list[int]:
    """Where each of the next `count` strings starts, if all are shorter than 256 bytes and in the
    file; then the cursor moves behind them. Otherwise an empty list, and the cursor stays.

    Only the low byte of each length is looked at on the way; the other seven are checked afterwards
    at once."""
    data = cursor.data
    end = cursor.position
    try:
        starts = [end, *[end := end + 8 + data[end] for _ in range(count)]]
    except IndexError:
        return []
    starts.pop()
    if end > cursor.size:
        return []
    bytes_ = np.frombuffer(data, np.uint8)
    high = np.array(starts, np.int64)[:, None] + np.arange(1, 8)
    if bytes_[high].any():
        return []
    cursor.position = end
    return starts


def walk(cursor: Cursor, first: int, last: int, what: str) -> list[int]:
    """Where strings `first` to `last` start; strings of any length, each checked before it is
    stepped over."""
    starts = []
    for index in range(first, last):
        starts.append(cursor.position)
        length = int(cursor.number(U64, f"the length of string {index} of {what}"))
        cursor.skip(length, f"string {index} of {what}")
    return starts


def described(name: str) -> str:
    """How messages name the metadata key `name`."""
    return f"the value of {quoted(name)}"
