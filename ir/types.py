"""Types of tensors: dimensions (integers or bounded symbols), element types, shapes and sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ggufc.ir.errors import IRError
from ggufc.ir.quants import QUANTS

Q8A_BLOCK = 32
_Q8A_PADDING = 256
_Q8A_ALIGNMENT = 64
_LINE = 64


@dataclass(frozen=True)
class Symbol:
    """A dimension known only at run time, between 0 and `max`; equal by name and bound."""

    name: str
    max: int

    def __str__(self) -> str:
        return f"{self.name}<={self.max}"


Dim = int | Symbol


def max_dim(dim: Dim) -> int:
    """The largest value that a dimension can take."""
    return dim.max if isinstance(dim, Symbol) else dim


@dataclass(frozen=True)
class DType:
    """Element type: plain (`numpy` is its array type; bf16 is held as uint16) or in blocks.

    `q8a` and `bf16a` are activations, whose rows have a stride of their own."""

    name: str
    numpy: np.dtype[np.generic] | None
    is_quantized: bool
    block_size: int
    block_bytes: int

    def nbytes(self, n_elements: int) -> int:
        """Bytes of one row of `n_elements`, whole blocks; of activations the row stride."""
        if n_elements < 0 or n_elements % self.block_size:
            raise IRError(
                f"{self.name}: a row of {n_elements} elements is not a multiple of the block of "
                f"{self.block_size}"
            )
        if self.name == "q8a":
            return q8a_row_stride(n_elements)
        if self.name == "bf16a":
            return bf16a_row_stride(n_elements)
        return n_elements // self.block_size * self.block_bytes

    def __str__(self) -> str:
        return self.name


def q8a_row_stride(n_elements: int) -> int:
    """Bytes of one quantised activation row: 2.90625 x the padded width, rounded up to 64.

    Padded width Kp = n rounded up to 256: int8 qs[Kp], then per 32 a float32 scale, a float32
    scale x sum and an int32 -sum, then an int32 -sum per 16; of the residuals int8 rs[Kp], an
    int32 -sum per 16, and per 32 a byte that says whether there are any.
    """
    padded = round_up(n_elements, _Q8A_PADDING)
    codes = padded + 3 * (padded // 32) * 4 + (padded // 16) * 4
    return round_up(codes + padded + (padded // 16) * 4 + padded // 32, _Q8A_ALIGNMENT)


def bf16a_row_stride(n_elements: int) -> int:
    """Bytes of one row of bf16 activations: an odd number of lines of 64 bytes.

    Rows a power of two apart, of which matrix tiles read sixteen at a time, would share few sets of
    a cache.
    """
    lines = -(-2 * n_elements // _LINE)
    return (lines | 1) * _LINE


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


_NUMPY = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i8": "i1", "i32": "<i4"}


def _dtypes() -> dict[str, DType]:
    table = {}
    for row in QUANTS.values():
        if not row.is_quantized and row.name not in _NUMPY:
            continue
        array = np.dtype(_NUMPY[row.name]) if row.name in _NUMPY else None
        table[row.name] = DType(row.name, array, row.is_quantized, row.block_size, row.block_bytes)
    table["bf16a"] = DType("bf16a", np.dtype("<u2"), False, 1, 2)
    # Scale and sums of a block lie apart from its bytes: 52 bytes, and 41 of its residuals.
    table["q8a"] = DType("q8a", None, True, Q8A_BLOCK, 93)
    return table


DTYPES = _dtypes()


def dtype(name: str) -> DType:
    """The element type of this name; an IRError lists the known ones otherwise."""
    if name not in DTYPES:
        raise IRError(f"unknown element type {name!r}; known: {', '.join(DTYPES)}")
    return DTYPES[name]


F32 = dtype("f32")
F16 = dtype("f16")
BF16 = dtype("bf16")
I8 = dtype("i8")
I32 = dtype("i32")
Q8A = dtype("q8a")


@dataclass(frozen=True)
class TensorType:
    """Shape (NumPy order, rows first) and element type; `str` gives `f32[T<=512, 576]`."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The shape with every symbol at its bound."""
        return tuple(max_dim(dim) for dim in self.shape)

    @property
    def max_bytes(self) -> int:
        """Bytes of a contiguous tensor at its largest; rows of block types are whole blocks."""
        shape = self.max_shape
        row = shape[-1] if shape else 1
        return math.prod(shape[:-1]) * self.dtype.nbytes(row)

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        """The same element type with another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, element: DType) -> TensorType:
        """The same shape with another element type."""
        return TensorType(self.shape, element)

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the shape, in order, each once."""
        return tuple(dict.fromkeys(dim for dim in self.shape if isinstance(dim, Symbol)))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(str(dim) for dim in self.shape)}]"
