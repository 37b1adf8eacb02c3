"""Writing GGUF files, for tests and benchmarks."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import pack
from types import TracebackType
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from ggufc.compiler.errors import GGUFError, quoted
from ggufc.compiler.gguf.arrays import GGUFArray
from ggufc.compiler.gguf.constants import (
    ALIGNMENT_KEY,
    DEFAULT_ALIGNMENT,
    KIND_BY_NAME,
    MAGIC,
    NUMPY_TYPES,
    VERSIONS,
)
from ggufc.ir.quants import QuantType, quant

Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[Any]
Data: TypeAlias = Buffer | Callable[[], Iterable[Buffer]]


@dataclass(frozen=True)
class _Tensor:
    name: str
    type: QuantType
    shape: tuple[int, ...]
    data: Data

    @property
    def nbytes(self) -> int:
        """Bytes that the tensor takes."""
        return self.type.nbytes(prod(self.shape))


class GGUFWriter:
    """Collects metadata and tensors, and writes the file on `write` or at the end of a `with`
    block.

    A tensor's data may be a function that returns the bytes piece by piece: it is called only when
    its tensor is written, so a large model needs no more memory than one piece."""

    def __init__(
        self, path: str | os.PathLike[str], version: int = 3, alignment: int = DEFAULT_ALIGNMENT
    ) -> None:
        """Write to `path`, with tensors at multiples of `alignment` (noted as a key unless it is
        the default)."""
        if version not in VERSIONS:
            raise GGUFError(f"GGUF version {version} cannot be written, allowed are 2 and 3")
        if alignment < 1 or alignment & (alignment - 1):
            raise GGUFError(f"alignment {alignment} cannot be written, allowed are powers of two")
        self.path = Path(path)
        self.version = version
        self.alignment = alignment
        self.keys: list[bytes] = []
        self.tensors: list[_Tensor] = []
        if alignment != DEFAULT_ALIGNMENT:
            self.add_metadata(ALIGNMENT_KEY, alignment, "u32")

    def add_metadata(self, key: str, value: Any, kind: str | None = None) -> None:
        """Add a key. `kind` (`u8` ... `f64`, `bool`, `string`) is that of the value, or of an
        array's elements; by default bool -> bool, int -> u32 (i32 if negative), float -> f32, str
        or bytes -> string, and an array that was read from a file keeps its kind."""
        self.keys.append(_string(key) + _value(value, kind))

    def add_tensor(self, name: str, type_name: str, shape: Sequence[int], data: Data) -> None:
        """Add a tensor of `shape` in NumPy order. `data` is its bytes in the type's own blocks
        (bytes, or an array of any type whose memory is taken as it is), or a function that returns
        them in pieces."""
        self.tensors.append(_Tensor(name, quant(type_name), tuple(shape), data))

    def write(self) -> None:
        """Write the file."""
        with open(self.path, "wb") as file:
            file.write(MAGIC + pack("<IQQ", self.version, len(self.tensors), len(self.keys)))
            file.write(b"".join(self.keys) + self._table())
            for tensor in self.tensors:
                self._pad(file)
                _write_data(file, tensor)
            self._pad(file)

    def _table(self) -> bytes:
        entries = []
        offset = 0
        for tensor in self.tensors:
            dims = [pack("<Q", dim) for dim in reversed(tensor.shape)]
            entries.append(_string(tensor.name) + pack("<I", len(dims)) + b"".join(dims))
            entries.append(pack("<IQ", tensor.type.ggml_id, offset))
            offset += -(-tensor.nbytes // self.alignment) * self.alignment
        return b"".join(entries)

    def _pad(self, file: BinaryIO) -> None:
        file.write(bytes(-file.tell() % self.alignment))

    def __enter__(self) -> "GGUFWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.write()


def _write_data(file: BinaryIO, tensor: _Tensor) -> None:
    pieces = tensor.data() if callable(tensor.data) else [tensor.data]
    written = 0
    for piece in pieces:
        raw = np.ascontiguousarray(piece).data if isinstance(piece, np.ndarray) else piece
        written += file.write(memoryview(raw).cast("B"))
    if written != tensor.nbytes:
        raise GGUFError(
            f"tensor {quoted(tensor.name)} of type {tensor.type.name} and shape"
            f" {list(tensor.shape)} takes {tensor.nbytes} bytes, {written} were given"
        )


def _string(text: str | bytes) -> bytes:
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return pack("<Q", len(raw)) + raw


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _value(value: Any, kind: str | None) -> bytes:
    """A value with its kind before it, as it stands after a key."""
    name = "array" if _is_array(value) else kind or _kind_of(value)
    return pack("<I", KIND_BY_NAME[name].id) + _payload(value, kind)


def _payload(value: Any, kind: str | None) -> bytes:
    if not _is_array(value):
        return _scalar(value, kind or _kind_of(value))
    element = _element_kind(value, kind)
    header = pack("<IQ", KIND_BY_NAME[element].id, len(value))
    if element in NUMPY_TYPES:
        return header + np.asarray(value).astype(NUMPY_TYPES[element]).tobytes()
    return header + b"".join(_payload(item, kind) for item in value)


def _scalar(value: Any, kind: str) -> bytes:
    return _string(value) if kind == "string" else KIND_BY_NAME[kind].struct.pack(value)


def _element_kind(values: Any, kind: str | None) -> str:
    if len(values) and _is_array(values[0]):
        return "array"
    if kind is not None or isinstance(values, GGUFArray):
        return kind or values.kind
    kinds = {_kind_of(value) for value in values} or {"u32"}
    if kinds == {"u32", "i32"}:
        return "i32"
    if len(kinds) > 1:
        raise GGUFError(f"an array of mixed kinds cannot be written: {', '.join(sorted(kinds))}")
    return kinds.pop()


def _kind_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.integer):
        return "u32" if value >= 0 else "i32"
    return "string" if isinstance(value, str | bytes) else "f32"
