"""Where the bytes of a weight come from: the tensors of the file that it names, or the program
itself."""

import math

import numpy as np
import numpy.typing as npt

from ggufc.compiler.errors import ModelError, quoted
from ggufc.compiler.gguf import GGUFFile
from ggufc.ir import Rows, Source, Weight


def weight_bytes(gguf: GGUFFile, weight: Weight) -> npt.NDArray[np.uint8]:
    """The bytes of `weight` in its own element type, rows in order.

    A view of the file where the weight is one tensor or some of its rows; a copy where several are
    joined along the first axis. A ModelError names a tensor of another type, or a size that does
    not fit."""
    if weight.data is not None:
        return np.frombuffer(weight.data, np.uint8)
    parts = [source_bytes(gguf, weight, source) for source in weight.sources]
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if joined.nbytes != weight.type.max_bytes:
        raise ModelError(
            f"{gguf.label}: weight {quoted(weight.name)} takes {weight.type.max_bytes} bytes,"
            f" its tensors hold {joined.nbytes}"
        )
    return joined


def source_bytes(gguf: GGUFFile, weight: Weight, source: Source) -> npt.NDArray[np.uint8]:
    """The bytes of one source of `weight`: of a tensor or of some of its rows."""
    if not isinstance(source, Rows):
        return tensor_bytes(gguf, weight, source)
    data = tensor_bytes(gguf, weight, source.tensor)
    row_bytes = len(data) // row_count(gguf.tensors[source.tensor].shape)
    return data[source.start * row_bytes : source.stop * row_bytes]


def row_count(shape: tuple[int, ...]) -> int:
    """The number of rows of a tensor, over all axes but the last; of elements, if it has one."""
    return math.prod(shape[:-1]) if len(shape) > 1 else shape[0]


def tensor_bytes(gguf: GGUFFile, weight: Weight, name: str) -> npt.NDArray[np.uint8]:
    """The bytes of one tensor of `weight`, which must be of the weight's type."""
    data = gguf.tensor_bytes(name)
    found, wanted = gguf.tensors[name].type_name, weight.type.dtype.name
    if found != wanted:
        raise ModelError(
            f"{gguf.label}: tensor {quoted(name)} is of type {found},"
            f" weight {quoted(weight.name)} is of type {wanted}"
        )
    return data
