"""The key-value pairs of a GGUF file, and typed access to them."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, overload

import numpy as np

from ggufc.compiler.errors import GGUFError, quoted
from ggufc.compiler.gguf.arrays import GGUFArray, described, read_array
from ggufc.compiler.gguf.constants import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    KIND_BY_ID,
    MAX_KEYS,
    MAX_NAME,
    ValueKind,
)
from ggufc.compiler.gguf.cursor import Cursor

Default = TypeVar("Default")


class _Required:
    """The type of the default value that stands for: there is none."""


REQUIRED = _Required()


class Metadata(Mapping[str, Any]):
    """A file's metadata: a mapping from key to int, float, bool, str or `GGUFArray`.

    The getters raise GGUFError in one line that names the key, the kind found and the kinds wanted;
    without a default a key is required."""

    def __init__(self, label: str, values: dict[str, Any], kinds: dict[str, str]) -> None:
        """`values` and their kinds (`u32`, `string`, `array`, ...) by key; `label` names the file
        in messages."""
        self.label = label
        self.values_by_key = values
        self.kinds = kinds

    def __getitem__(self, key: str) -> Any:
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def fail(self, message: str) -> GGUFError:
        """An error about this file, to be raised."""
        return GGUFError(f"{self.label}: {message}")

    def typed(self, key: str, kinds: frozenset[str], wanted: str, default: Any) -> Any:
        """The value of `key`, of a kind among `kinds`; `default` if there is no such key."""
        if key not in self.values_by_key:
            if isinstance(default, _Required):
                raise self.fail(f"key {quoted(key)} is missing ({wanted} wanted)")
            return default
        if self.kinds[key] not in kinds:
            raise self.fail(f"key {quoted(key)} is of type {self.kind_of(key)}, wanted {wanted}")
        return self.values_by_key[key]

    def kind_of(self, key: str) -> str:
        """The kind of a value; for arrays with the kind of the elements."""
        value = self.values_by_key[key]
        return f"array of {value.kind}" if isinstance(value, GGUFArray) else self.kinds[key]

    def as_written(self, key: str, default: Any = None) -> Any:
        """The value of `key`; a float32 as the shortest number that rounds to it, which is what its
        author wrote."""
        value = self.values_by_key.get(key, default)
        return float(str(np.float32(value))) if self.kinds.get(key) == "f32" else value

    @overload
    def get_int(self, key: str) -> int: ...
    @overload
    def get_int(self, key: str, default: Default) -> int | Default: ...
    def get_int(self, key: str, default: Any = REQUIRED) -> Any:
        """An integer, stored as any kind of integer."""
        return self.typed(key, INTEGER_KINDS, "an integer", default)

    @overload
    def get_float(self, key: str) -> float: ...
    @overload
    def get_float(self, key: str, default: Default) -> float | Default: ...
    def get_float(self, key: str, default: Any = REQUIRED) -> Any:
        """A number; integers are accepted where a real number is meant."""
        value = self.typed(key, FLOAT_KINDS | INTEGER_KINDS, "a number", default)
        return float(value) if isinstance(value, int) and key in self.values_by_key else value

    @overload
    def get_str(self, key: str) -> str: ...
    @overload
    def get_str(self, key: str, default: Default) -> str | Default: ...
    def get_str(self, key: str, default: Any = REQUIRED) -> Any:
        """A string."""
        return self.typed(key, frozenset({"string"}), "a string", default)

    @overload
    def get_bool(self, key: str) -> bool: ...
    @overload
    def get_bool(self, key: str, default: Default) -> bool | Default: ...
    def get_bool(self, key: str, default: Any = REQUIRED) -> Any:
        """A boolean."""
        return self.typed(key, frozenset({"bool"}), "a bool", default)

    @overload
    def get_array(self, key: str, kinds: frozenset[str] | None = None) -> GGUFArray: ...
    @overload
    def get_array(
        self, key: str, kinds: frozenset[str] | None, default: Default
    ) -> GGUFArray | Default: ...
    def get_array(
        self, key: str, kinds: frozenset[str] | None = None, default: Any = REQUIRED
    ) -> Any:
        """An array, whose element kind must be one of `kinds` if given."""
        wanted = "an array" if kinds is None else "an array of " + " or ".join(sorted(kinds))
        value = self.typed(key, frozenset({"array"}), wanted, default)
        if kinds is not None and isinstance(value, GGUFArray) and value.kind not in kinds:
            raise self.fail(f"key {quoted(key)} is of type array of {value.kind}, wanted {wanted}")
        return value


def read_metadata(cursor: Cursor, count: int) -> Metadata:
    """Read `count` key-value pairs at the cursor and move behind them."""
    values: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for index in range(count):
        at = cursor.position
        key = cursor.string(f"the name of key {index}", MAX_NAME)
        if key in values:
            raise cursor.fail(f"key {quoted(key)} at byte {at} is there twice")
        kind = read_kind(cursor, key)
        kinds[key] = kind.name
        values[key] = read_value(cursor, kind, key)
    return Metadata(cursor.label, values, kinds)


def read_kind(cursor: Cursor, key: str) -> ValueKind:
    """The kind of the value of `key`."""
    at = cursor.position
    number = cursor.u32(f"the type of {quoted(key)}")
    if number not in KIND_BY_ID:
        raise cursor.fail(
            f"key {quoted(key)} has value type {number} at byte {at},"
            f" known are 0 to {max(KIND_BY_ID)}"
        )
    return KIND_BY_ID[number]


def read_value(cursor: Cursor, kind: ValueKind, key: str) -> Any:
    """The value of `key`, of a kind that has been read."""
    what = described(key)
    if kind.name == "string":
        return cursor.string(what)
    if kind.name == "array":
        return read_array(cursor, what)
    at = cursor.position
    value = cursor.number(kind.struct, what)
    if kind.name != "bool":
        return value
    if value not in (0, 1):
        raise cursor.fail(
            f"key {quoted(key)} at byte {at} is a bool of value {value}, allowed are 0 and 1"
        )
    return value == 1


def key_count(cursor: Cursor) -> int:
    """The number of key-value pairs, as the header gives it."""
    return cursor.count("the number of metadata keys", 13, MAX_KEYS)
