"""How packers store fields of units: 16 rows side by side, bytes as quads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


def put(units: Bytes, offset: int, values: Array) -> None:
    """Store values [groups, 16, units, ...] with the row index last: 16 rows side by side."""
    by_row = np.moveaxis(values, 1, -1)
    size = by_row[0, 0].size * values.itemsize
    field = units[..., offset : offset + size].view(values.dtype)
    field.reshape(by_row.shape)[...] = by_row


def quads(qs: Array) -> Array:
    """Bytes [..., 4 i + j] as little-endian words [..., i]: four consecutive k in one word."""
    return np.ascontiguousarray(qs).view("<u4")


def f16(values: Array) -> Array:
    """float16 values as their bits."""
    return np.ascontiguousarray(values).view("<u2")
