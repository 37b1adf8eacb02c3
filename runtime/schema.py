"""Frozen dataclasses to plain data and back, with the key in every error; plain data as YAML."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from ggufc.runtime.errors import BundleError

Record = TypeVar("Record")


def to_plain(value: Any) -> Any:
    """Dataclasses as dictionaries in field order, tuples as lists, everything else as it is."""
    if dataclasses.is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return value


def from_plain(kind: type[Record], data: Any, where: str = "") -> Record:
    """Build a dataclass of type `kind` from `data`; every field must be there, with the declared
    type, and nothing else. `where` names the place in errors. Raises BundleError."""
    if not isinstance(data, dict):
        raise BundleError(f"{where or 'manifest'}: expected a mapping, found {describe(data)}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(map(str, data)) - set(hints))
    missing = [name for name in hints if name not in data]
    if unknown or missing:
        problem = f"missing key {missing[0]!r}" if missing else f"unknown key {unknown[0]!r}"
        raise BundleError(f"{where or 'manifest'}: {problem}; the keys are {', '.join(hints)}")
    prefix = f"{where}." if where else ""
    return kind(**{key: convert(hint, data[key], prefix + key) for key, hint in hints.items()})


def convert(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type `hint`: a dataclass, `tuple[X, ...]`, `Mapping[str, Any]`, `X | None`
    or a scalar."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if value is None else convert(options[0], value, where)
    if origin is tuple:
        return convert_list(typing.get_args(hint)[0], value, where)
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type, hint), value, where)
    wanted = origin or hint
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise BundleError(f"{where}: expected {wanted.__name__}, found {describe(value)}")
    return value


def convert_list(item: Any, value: Any, where: str) -> tuple[Any, ...]:
    """A list as a tuple whose items have the type `item`."""
    if not isinstance(value, list):
        raise BundleError(f"{where}: expected a list, found {describe(value)}")
    return tuple(convert(item, entry, f"{where}[{i}]") for i, entry in enumerate(value))


def describe(value: Any) -> str:
    """A value in an error message: its type and at most 40 characters of it."""
    return f"{type(value).__name__} {repr(value)[:40]}"


def to_yaml(data: Any) -> str:
    """Plain data as YAML: one line for what holds no mapping, always by the same (Python)
    writer."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes records such as a weight or a file on one line."""

        def represent_mapping(
            self, tag: str, mapping: Any, flow_style: bool | None = None
        ) -> yaml.MappingNode:
            node = super().represent_mapping(tag, mapping, flow_style)
            values = [value for _, value in node.value]
            node.flow_style = all(isinstance(v, yaml.ScalarNode) or v.flow_style for v in values)
            return node

    return yaml.dump(
        data,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=1_000_000,
    )


def parse_yaml(body: bytes) -> Any:
    """Plain data, by libyaml where it is there."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(body, Loader=loader)
    except yaml.YAMLError as error:
        raise BundleError(f"not YAML: {' '.join(str(error).split())}") from None
