"""Reading the keys of one architecture: where a value comes from, and whether it may be."""

from functools import cache
from importlib import resources
from typing import Any

import yaml

from ggufc.compiler.errors import ModelError, quoted
from ggufc.compiler.gguf import GGUFArray, Metadata
from ggufc.compiler.gguf.constants import FLOAT_KINDS, INTEGER_KINDS

# Keys that stand in the file without the architecture's name before them.
BARE = ("xielu.",)


@cache
def architecture_data() -> dict[str, Any]:
    """The contents of `models/architectures.yaml`."""
    text = (
        resources.files("ggufc.compiler.models").joinpath("architectures.yaml").read_text("utf-8")
    )
    data: dict[str, Any] = yaml.safe_load(text)
    return data


class Keys:
    """The keys of one architecture, looked up in the file, then in the defaults of the
    architecture, then in those of the caller; without any a key is required. Every number is
    checked against its range."""

    def __init__(self, metadata: Metadata) -> None:
        """Take the architecture from `general.architecture`."""
        self.metadata = metadata
        self.architecture = metadata.get_str("general.architecture")
        self.defaults: dict[str, Any] = architecture_data()["defaults"].get(self.architecture, {})

    def full(self, name: str) -> str:
        """The whole key."""
        return name if name.startswith(BARE) else f"{self.architecture}.{name}"

    def has(self, name: str) -> bool:
        """Whether the file or the architecture's defaults have the key."""
        return self.full(name) in self.metadata or name in self.defaults

    def is_among(self, group: str) -> bool:
        """Whether the architecture is one of those that a list of the data file names."""
        return self.architecture in architecture_data()[group]

    def fail(self, name: str, value: object, allowed: str) -> ModelError:
        """An error about one key, to be raised."""
        shown_value = quoted(value) if isinstance(value, str) else value
        return ModelError(
            f"{self.metadata.label}: key {quoted(self.full(name))} is {shown_value},"
            f" allowed {allowed}"
        )

    def default(self, name: str, default: Any) -> tuple[Any, ...]:
        """The arguments that give a getter its default; none when the key is required."""
        value = self.defaults.get(name, default)
        return () if value is None else (value,)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer from `low` to `high`."""
        value: int = self.metadata.get_int(self.full(name), *self.default(name, default))
        if not low <= value <= high:
            raise self.fail(name, value, f"are {low} to {high}")
        return value

    def real(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number above `low` (or equal to it if it is the default) and at most `high`."""
        value: float = self.metadata.get_float(self.full(name), *self.default(name, default))
        value = self.metadata.as_written(self.full(name), value)
        if value != default and not low < value <= high:
            raise self.fail(name, value, f"are numbers above {low:g} up to {high:g}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        value: bool = self.metadata.get_bool(self.full(name), *self.default(name, default))
        return value

    def word(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of several words."""
        value: str = self.metadata.get_str(self.full(name), *self.default(name, default))
        if value not in choices:
            raise self.fail(name, value, f"are {', '.join(map(repr, choices))}")
        return value

    def array(self, name: str, kinds: frozenset[str], length: int) -> GGUFArray:
        """An array of `length` values."""
        values = self.metadata.get_array(self.full(name), kinds)
        if len(values) != length:
            raise ModelError(
                f"{self.metadata.label}: key {quoted(self.full(name))} has {len(values)} values,"
                f" wanted {length}, one for each layer"
            )
        return values

    def per_layer(
        self, name: str, n_layers: int, high: int, default: tuple[int, ...] = (), low: int = 1
    ) -> tuple[int, ...]:
        """One integer from `low` to `high` for each layer, stored as one number for all or as an
        array."""
        value = self.metadata.get(self.full(name))
        if value is None and default:
            return default
        if not isinstance(value, GGUFArray):
            return (self.integer(name, low, high),) * n_layers
        numbers = self.array(name, INTEGER_KINDS, n_layers)
        for number in numbers:
            if not low <= number <= high:
                raise self.fail(name, number, f"are {low} to {high}")
        return tuple(numbers)

    def reals_per_layer(self, name: str, n_layers: int, limit: float) -> tuple[float, ...]:
        """One number from -`limit` to `limit` for each layer, stored as one for all or as an
        array."""
        if isinstance(self.metadata.get(self.full(name)), GGUFArray):
            numbers = tuple(float(x) for x in self.array(name, FLOAT_KINDS, n_layers))
        else:
            numbers = (self.metadata.get_float(self.full(name)),) * n_layers
        for number in numbers:
            if not -limit <= number <= limit:
                raise self.fail(name, number, f"are numbers from {-limit:g} to {limit:g}")
        return numbers
