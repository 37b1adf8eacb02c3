"""Table of GGUF's element types: name, ggml id, block size and the fields of a block.

A block is a run of `block_size` consecutive elements of a row. `quant_reference.py` gives the
meaning of the bytes; everything here is data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ggufc.ir.errors import IRError

Field = tuple[str, str] | tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True)
class QuantType:
    """One element type of a GGUF file; `fields` is the packed little-endian layout of a block."""

    name: str
    ggml_id: int
    block_size: int
    fields: np.dtype[np.void]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: the sum of its fields."""
        return self.fields.itemsize

    @property
    def is_quantized(self) -> bool:
        """Whether elements share a block, so that they cannot be read one by one."""
        return self.block_size > 1

    def nbytes(self, n_elements: int) -> int:
        """Bytes of `n_elements` consecutive elements, which must be whole blocks."""
        blocks, rest = divmod(n_elements, self.block_size)
        if rest or n_elements < 0:
            raise IRError(
                f"{self.name}: {n_elements} elements are not whole blocks of {self.block_size}"
            )
        return blocks * self.block_bytes


def _row(name: str, ggml_id: int, block_size: int, *fields: Field) -> QuantType:
    return QuantType(name, ggml_id, block_size, np.dtype(list(fields)))


_ROWS = (
    # plain numbers
    _row("f32", 0, 1, ("x", "<f4")),
    _row("f16", 1, 1, ("x", "<f2")),
    _row("bf16", 30, 1, ("x", "<u2")),
    _row("f64", 28, 1, ("x", "<f8")),
    _row("i8", 24, 1, ("x", "i1")),
    _row("i16", 25, 1, ("x", "<i2")),
    _row("i32", 26, 1, ("x", "<i4")),
    _row("i64", 27, 1, ("x", "<i8")),
    # blocks of 32 with one scale
    _row("q4_0", 2, 32, ("d", "<f2"), ("qs", "u1", (16,))),
    _row("q4_1", 3, 32, ("d", "<f2"), ("m", "<f2"), ("qs", "u1", (16,))),
    _row("q5_0", 6, 32, ("d", "<f2"), ("qh", "u1", (4,)), ("qs", "u1", (16,))),
    _row("q5_1", 7, 32, ("d", "<f2"), ("m", "<f2"), ("qh", "u1", (4,)), ("qs", "u1", (16,))),
    _row("q8_0", 8, 32, ("d", "<f2"), ("qs", "i1", (32,))),
    # K-quants: blocks of 256 with scales of sub-blocks
    _row(
        "q2_k", 10, 256, ("scales", "u1", (16,)), ("qs", "u1", (64,)), ("d", "<f2"), ("dmin", "<f2")
    ),
    _row(
        "q3_k",
        11,
        256,
        ("hmask", "u1", (32,)),
        ("qs", "u1", (64,)),
        ("scales", "u1", (12,)),
        ("d", "<f2"),
    ),
    _row(
        "q4_k",
        12,
        256,
        ("d", "<f2"),
        ("dmin", "<f2"),
        ("scales", "u1", (12,)),
        ("qs", "u1", (128,)),
    ),
    _row(
        "q5_k",
        13,
        256,
        ("d", "<f2"),
        ("dmin", "<f2"),
        ("scales", "u1", (12,)),
        ("qh", "u1", (32,)),
        ("qs", "u1", (128,)),
    ),
    _row(
        "q6_k",
        14,
        256,
        ("ql", "u1", (128,)),
        ("qh", "u1", (64,)),
        ("scales", "i1", (16,)),
        ("d", "<f2"),
    ),
    # grid and codebook types
    _row("iq2_xxs", 16, 256, ("d", "<f2"), ("qs", "<u4", (8, 2))),
    _row("iq2_xs", 17, 256, ("d", "<f2"), ("qs", "<u2", (32,)), ("scales", "u1", (8,))),
    _row("iq3_xxs", 18, 256, ("d", "<f2"), ("qs", "u1", (64,)), ("signs", "<u4", (8,))),
    _row("iq1_s", 19, 256, ("d", "<f2"), ("qs", "u1", (32,)), ("qh", "<u2", (8,))),
    _row("iq4_nl", 20, 32, ("d", "<f2"), ("qs", "u1", (16,))),
    _row(
        "iq3_s",
        21,
        256,
        ("d", "<f2"),
        ("qs", "u1", (64,)),
        ("qh", "u1", (8,)),
        ("signs", "u1", (32,)),
        ("scales", "u1", (4,)),
    ),
    _row(
        "iq2_s",
        22,
        256,
        ("d", "<f2"),
        ("qs", "u1", (32,)),
        ("signs", "u1", (32,)),
        ("qh", "u1", (8,)),
        ("scales", "u1", (8,)),
    ),
    _row(
        "iq4_xs",
        23,
        256,
        ("d", "<f2"),
        ("scales_h", "<u2"),
        ("scales_l", "u1", (4,)),
        ("qs", "u1", (128,)),
    ),
    _row("iq1_m", 29, 256, ("qs", "u1", (32,)), ("qh", "u1", (16,)), ("scales", "<u2", (4,))),
    # ternary
    _row("tq1_0", 34, 256, ("qs", "u1", (48,)), ("qh", "u1", (4,)), ("d", "<f2")),
    _row("tq2_0", 35, 256, ("qs", "u1", (64,)), ("d", "<f2")),
    # 4-bit floats and small integers
    _row("mxfp4", 39, 32, ("e", "u1"), ("qs", "u1", (16,))),
    _row("nvfp4", 40, 64, ("d", "u1", (4,)), ("qs", "u1", (32,))),
    _row("q1_0", 41, 128, ("d", "<f2"), ("qs", "u1", (16,))),
    _row("q2_0", 42, 64, ("d", "<f2"), ("qs", "u1", (16,))),
)

QUANTS: dict[str, QuantType] = {row.name: row for row in _ROWS}
_BY_GGML_ID: dict[int, QuantType] = {row.ggml_id: row for row in _ROWS}


def by_ggml_id(ggml_id: int) -> QuantType:
    """The type with this id in a GGUF file; an IRError lists the known ids otherwise."""
    if ggml_id not in _BY_GGML_ID:
        known = ", ".join(f"{row.ggml_id} {row.name}" for row in _BY_GGML_ID.values())
        raise IRError(f"unknown ggml type id {ggml_id}; known: {known}")
    return _BY_GGML_ID[ggml_id]


def quant(name: str) -> QuantType:
    """The type of this name in either case; an IRError lists the known names otherwise."""
    found = QUANTS.get(name.lower())
    if found is None:
        raise IRError(f"unknown element type {name!r}; known: {', '.join(QUANTS)}")
    return found
