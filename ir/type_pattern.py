"""Patterns of operand types, such as `f32|q8a[T, K]`, with dimensions that must agree.

f32[T, K]     two dimensions, bound to the names T and K, equal wherever the name is used again
*[_, K]       any element type; any first dimension
f32[..., D]   any number of leading dimensions
f32           any shape
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ggufc.ir.errors import IRError, OperandError
from ggufc.ir.types import Dim, TensorType

_PATTERN = re.compile(r"(?P<types>\*|[a-z0-9_|]+)(?:\[(?P<dims>.*)\])?")


@dataclass(frozen=True)
class TypePattern:
    """Accepted element types (empty: any) and dimensions (None: any shape) of an operand."""

    text: str
    dtypes: tuple[str, ...]
    dims: tuple[str, ...] | None

    @classmethod
    def parse(cls, text: str) -> TypePattern:
        """Read a pattern as written in an op's declaration."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise IRError(f"bad type pattern {text!r}")
        types = () if match["types"] == "*" else tuple(match["types"].split("|"))
        dims = None if match["dims"] is None else tuple(re.split(r"\s*,\s*", match["dims"]))
        return cls(text, types, dims)

    def match(self, part: str, found: TensorType, bound: dict[str, Dim]) -> None:
        """Check a type, binding new dimension names; an OperandError about `part` if it differs."""
        if self.dtypes and found.dtype.name not in self.dtypes:
            raise self._error(part, found, bound)
        if self.dims is None:
            return
        names, shape = self.dims, found.shape
        if names and names[0] == "...":
            names = names[1:]
            shape = shape[len(shape) - len(names) :] if len(shape) >= len(names) else ()
        if len(names) != len(shape):
            raise self._error(part, found, bound)
        for name, dim in zip(names, shape, strict=True):
            if name != "_" and bound.setdefault(name, dim) != dim:
                raise self._error(part, found, bound)

    def _error(self, part: str, found: TensorType, bound: dict[str, Dim]) -> OperandError:
        known = [f"{name} = {bound[name]}" for name in self.dims or () if name in bound]
        where = f" with {', '.join(known)}" if known else ""
        return OperandError(part, f"expected {self.text}{where}, found {found}")
