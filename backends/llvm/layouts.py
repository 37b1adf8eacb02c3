"""Packed layouts of weights: one for each element type, the same for every instruction set.

The unit is 16 rows by `unit_k` columns; units of a row group are contiguous along K, groups along
N. Rows are padded to 16 and columns to `unit_k` with zero scales. docs/architecture.md has the
bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.packing import PACKERS
from ggufc.backends.llvm.unpacking import UNPACKERS
from ggufc.ir.errors import IRError
from ggufc.ir.quants import QUANTS

Bytes = npt.NDArray[np.uint8]
F32Array = npt.NDArray[np.float32]

GROUP_ROWS = 16
_SLICE_BYTES = 8 << 20


@dataclass(frozen=True)
class Layout:
    """How a matrix [N, K] lies in weights.bin. `type_name` is the type that it was made for."""

    name: str
    type_name: str
    unit_k: int
    unit_bytes: int

    def units(self, k: int) -> int:
        """Units along K."""
        return -(-k // self.unit_k)

    def group_bytes(self, k: int) -> int:
        """Bytes of one group of 16 rows."""
        return self.units(k) * self.unit_bytes


RAW = Layout("raw", "f32", 1, 4 * GROUP_ROWS)

_LAYOUTS = {
    layout.type_name: layout
    for layout in (
        Layout("r16.q4_0", "q4_0", 64, 576),
        Layout("r16.q4_1", "q4_1", 64, 640),
        Layout("r16.q5_0", "q5_0", 64, 704),
        Layout("r16.q5_1", "q5_1", 64, 768),
        Layout("r16.q8_0", "q8_0", 64, 1088),
        Layout("r16.q4_k", "q4_k", 256, 2368),
        Layout("r16.q5_k", "q5_k", 256, 2880),
        Layout("r16.q6_k", "q6_k", 256, 3392),
        Layout("r16.q2_k", "q2_k", 256, 1344),
        Layout("r16.q3_k", "q3_k", 256, 1856),
        Layout("r16.iq1_m", "iq1_m", 256, 1344),
        Layout("r16.iq2_s", "iq2_s", 256, 1856),
        Layout("r16.iq3_xxs", "iq3_xxs", 256, 2240),
        Layout("r16.iq3_s", "iq3_s", 256, 2240),
        Layout("r16.iq4_nl", "iq4_nl", 64, 576),
        Layout("r16.iq4_xs", "iq4_xs", 256, 2240),
        Layout("r16.tq2_0", "tq2_0", 256, 1056),
        Layout("r16.mxfp4", "mxfp4", 64, 544),
        Layout("r16.nvfp4", "nvfp4", 64, 576),
        Layout("r16.q1_0", "q1_0", 128, 288),
        Layout("r16.q2_0", "q2_0", 64, 288),
        Layout("r16.f32", "f32", 1, 64),
        Layout("r16.f16", "f16", 2, 64),
        Layout("r16.bf16", "bf16", 2, 64),
    )
}
_BY_NAME = {layout.name: layout for layout in (*_LAYOUTS.values(), RAW)}

# What is stored in place of a file's codes, for the types whose codes are not kept: the same values
# to the last bit. A type without a layout of its own shares one.
_REPACKED = {
    "iq1_s": ("iq1_m", "grid values as 2-bit codes"),
    "iq1_m": ("iq1_m", "grid values as 2-bit codes"),
    "iq2_xxs": ("iq2_s", "signed grid values as 3-bit codes"),
    "iq2_xs": ("iq2_s", "signed grid values as 3-bit codes"),
    "iq2_s": ("iq2_s", "signed grid values as 3-bit codes"),
    "iq3_xxs": ("iq3_xxs", "signed grid values as 4-bit codes"),
    "iq3_s": ("iq3_s", "signed grid values as 4-bit codes"),
    "tq1_0": ("tq2_0", "ternary digits as 2-bit codes"),
}
_LAYOUTS |= {name: _LAYOUTS[own] for name, (own, _) in _REPACKED.items()}


def layout_for(type_name: str) -> Layout:
    """The layout of matrices of an element type; IRError lists the types that have one."""
    if type_name not in _LAYOUTS:
        raise IRError(
            f"element type {type_name!r} has no packed layout; types that have one: "
            f"{', '.join(_LAYOUTS)}"
        )
    return _LAYOUTS[type_name]


def layout_reason(type_name: str) -> str:
    """Why matrices of a type that has a layout have that one."""
    if type_name not in _REPACKED:
        return "own layout"
    return f"exact repack, {_REPACKED[type_name][1]}"


def layout_named(name: str) -> Layout:
    """The layout of this name, `raw` included; IRError lists the known ones."""
    if name not in _BY_NAME:
        raise IRError(f"layout {name!r} is unknown; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def packed_bytes(layout: Layout, n: int, k: int) -> int:
    """Bytes of a packed matrix [n, k]; `raw` is plain float32."""
    if layout is RAW:
        return 4 * n * k
    return -(-n // GROUP_ROWS) * layout.group_bytes(k)


def tensor_bytes(layout: Layout, shape: tuple[int, ...]) -> int:
    """Bytes of a packed tensor: a matrix, or several equal ones, one after another."""
    *stack, n, k = shape
    return math.prod(stack) * packed_bytes(layout, n, k)


def pack_tensor(type_name: str, raw: Bytes, shape: tuple[int, ...]) -> Bytes:
    """As `pack`, of every matrix [n, k] of a tensor [..., n, k]."""
    *stack, n, k = shape
    count = math.prod(stack)
    if count == 1:
        return pack(type_name, raw, n, k)
    matrices = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    if not count or matrices.nbytes % count:
        raise IRError(f"{type_name} tensor {list(shape)}: found {matrices.nbytes} bytes")
    parts = [pack(type_name, part, n, k) for part in matrices.reshape(count, -1)]
    return np.concatenate(parts)


def pack(type_name: str, raw: Bytes, n: int, k: int) -> Bytes:
    """A matrix [n, k] as a GGUF file stores it, repacked; works in slices of bounded size.

    `raw` is the file's bytes, rows contiguous. IRError where the type has no layout or the size is
    wrong.
    """
    layout = layout_for(type_name)
    blocks = _blocks(type_name, raw, n, k)
    per_unit = layout.unit_k // QUANTS[type_name].block_size
    out = np.empty((-(-n // GROUP_ROWS), layout.units(k), layout.unit_bytes), np.uint8)
    step = _slice_groups(layout, k)
    for first in range(0, len(out), step):
        into = out[first : first + step]
        rows = blocks[first * GROUP_ROWS : (first + len(into)) * GROUP_ROWS]
        PACKERS[type_name](_grouped(rows, len(into), layout.units(k), per_unit), into)
    return out.reshape(-1)


def _slice_groups(layout: Layout, k: int) -> int:
    """Row groups to work on at a time: a slice's codes may need a byte each."""
    codes = GROUP_ROWS * layout.units(k) * layout.unit_k
    return max(1, _SLICE_BYTES // max(layout.group_bytes(k), codes, 1))


def _blocks(type_name: str, raw: Bytes, n: int, k: int) -> npt.NDArray[np.void]:
    """The file's bytes as blocks [n, blocks of a row]."""
    quant = QUANTS[type_name]
    expected = n * quant.nbytes(k)
    if raw.nbytes != expected:
        raise IRError(
            f"{type_name} matrix [{n}, {k}]: found {raw.nbytes} bytes, expected {expected}"
        )
    flat = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    return flat.view(quant.fields).reshape(n, k // quant.block_size)


def _grouped(
    rows: npt.NDArray[np.void], groups: int, units: int, per_unit: int
) -> npt.NDArray[np.void]:
    """Blocks [rows, blocks] as [groups, 16, units, blocks of a unit], padded with zero blocks."""
    shape = groups * GROUP_ROWS, units * per_unit
    if rows.shape != shape:
        padded = np.zeros(shape, rows.dtype)
        padded[: rows.shape[0], : rows.shape[1]] = rows
        rows = padded
    return rows.reshape(groups, GROUP_ROWS, units, per_unit)


def unpack_tensor(layout: Layout, packed: Bytes, shape: tuple[int, ...]) -> F32Array:
    """As `unpack`, of a tensor [..., n, k]; a vector counts as one row."""
    *stack, n, k = (1, *shape) if len(shape) == 1 else shape
    parts = packed.reshape(math.prod(stack), -1)
    return np.stack([unpack(layout, part, n, k) for part in parts]).reshape(shape)


def unpack(layout: Layout, packed: Bytes, n: int, k: int) -> F32Array:
    """The float32 values [n, k] of a packed matrix, bit-equal to the decoder of the type.

    Whole row groups may be unpacked by themselves, since they are contiguous.
    """
    if packed.nbytes != packed_bytes(layout, n, k):
        raise IRError(
            f"layout {layout.name}, matrix [{n}, {k}]: found {packed.nbytes} bytes, expected "
            f"{packed_bytes(layout, n, k)}"
        )
    if layout is RAW:
        return packed.view("<f4").reshape(n, k)
    units = packed.reshape(-1, layout.units(k), layout.unit_bytes)
    out = np.empty((n, k), np.float32)
    step = max(1, _slice_groups(layout, k) // 4)
    for first in range(0, len(units), step):
        values = UNPACKERS[layout.type_name](units[first : first + step])
        rows = values.transpose(0, 3, 1, 2).reshape(len(values) * GROUP_ROWS, -1)
        start = first * GROUP_ROWS
        out[start : start + len(rows)] = rows[: n - start, :k]
    return out
