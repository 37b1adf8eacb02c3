"""The tensor table of a GGUF file: what each tensor is and where its bytes are, checked against the
file."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ggufc.compiler.errors import quoted
from ggufc.compiler.gguf.constants import MAX_DIM, MAX_DIMS, MAX_NAME, MAX_TENSORS
from ggufc.compiler.gguf.cursor import Cursor
from ggufc.ir.errors import IRError
from ggufc.ir.quants import QuantType, by_ggml_id


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a GGUF file.

    `type_name` is its element type in lower case (`q4_k`), `shape` is in NumPy order (rows first),
    `offset` counts from the start of the file `path`, and the `nbytes` bytes there are known to be
    present."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    path: Path


def tensor_count(cursor: Cursor) -> int:
    """The number of tensors, as the header gives it."""
    return cursor.count("the number of tensors", 24, MAX_TENSORS)


def read_tensor_infos(cursor: Cursor, count: int, path: Path) -> list[TensorInfo]:
    """Read `count` entries at the cursor and move behind them. Offsets are still relative to the
    data."""
    infos = [read_tensor_info(cursor, index, path) for index in range(count)]
    seen: set[str] = set()
    for info in infos:
        if info.name in seen:
            raise cursor.fail(f"tensor {quoted(info.name)} is there twice")
        seen.add(info.name)
    return infos


def read_tensor_info(cursor: Cursor, index: int, path: Path) -> TensorInfo:
    """One entry: name, dimensions (fastest first), type and offset from the start of the data."""
    name = cursor.string(f"the name of tensor {index}", MAX_NAME)
    what = f"the entry of tensor {quoted(name)}"
    n_dims = cursor.u32(what)
    if n_dims > MAX_DIMS:
        raise cursor.fail(
            f"tensor {quoted(name)} has {n_dims} dimensions, allowed are at most {MAX_DIMS}"
        )
    dims = [cursor.u64(what) for _ in range(n_dims)]
    for axis, dim in enumerate(dims):
        if not 1 <= dim <= MAX_DIM:
            raise cursor.fail(
                f"tensor {quoted(name)} has dimension {axis} equal to {dim},"
                f" allowed are 1 to {MAX_DIM}"
            )
    kind = tensor_type(cursor, name, cursor.u32(what))
    row = dims[0] if dims else 1
    if row % kind.block_size:
        raise cursor.fail(
            f"tensor {quoted(name)} of type {kind.name} has rows of {row} elements,"
            f" allowed are multiples of {kind.block_size}"
        )
    nbytes = kind.nbytes(prod(dims))
    return TensorInfo(name, kind.name, tuple(reversed(dims)), cursor.u64(what), nbytes, path)


def tensor_type(cursor: Cursor, name: str, number: int) -> QuantType:
    """The element type with this number in the file."""
    try:
        return by_ggml_id(number)
    except IRError as error:
        raise cursor.fail(f"tensor {quoted(name)}: {error}") from None


def place(
    cursor: Cursor, infos: Iterable[TensorInfo], data_start: int, alignment: int
) -> list[TensorInfo]:
    """The same tensors with offsets from the start of the file, once all of them are known to be
    aligned, within the file and apart from each other."""
    placed = [place_one(cursor, info, data_start, alignment) for info in infos]
    before: TensorInfo | None = None
    for info in sorted(placed, key=lambda info: info.offset):
        if before is not None and info.offset < before.offset + before.nbytes:
            raise cursor.fail(
                f"tensor {quoted(info.name)} at byte {info.offset} overlaps tensor"
                f" {quoted(before.name)}, which ends at byte {before.offset + before.nbytes}"
            )
        before = info
    return placed


def place_one(cursor: Cursor, info: TensorInfo, data_start: int, alignment: int) -> TensorInfo:
    """One tensor with its offset from the start of the file."""
    if info.offset % alignment:
        raise cursor.fail(
            f"tensor {quoted(info.name)} has offset {info.offset},"
            f" allowed are multiples of {alignment}"
        )
    start = data_start + info.offset
    if start + info.nbytes > cursor.size:
        present = max(0, cursor.size - start)
        raise cursor.fail(
            f"the file is cut short: tensor {quoted(info.name)} needs {info.nbytes} bytes"
            f" at byte {start}, {present} are present"
        )
    return TensorInfo(info.name, info.type_name, info.shape, start, info.nbytes, info.path)
