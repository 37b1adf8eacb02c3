"""The tensors of a model as its graph asks for them: each checked before any work, none
forgotten."""

import math
import re

from ggufc.backends.llvm.layouts import layout_for
from ggufc.compiler.errors import ModelError, listing, quoted
from ggufc.compiler.gguf import GGUFFile, TensorInfo
from ggufc.ir import F32, IRError, Module, Rows, TensorType, Weight, decode, dtype
from ggufc.ir.numerics import F32Array

# Tables that old converters stored and that every graph computes by itself, and the scales that
# 4-bit activations would need.
IGNORED = re.compile(
    r"blk\.\d+\.attn(\.rot_embd|_rot_embd)(\.weight)?|blk\.\d+\.rope_freqs\.weight"
    r"|.*\.input_scale"
)
VECTOR_TYPES = ("f32", "f16", "bf16")


class ModelTensors:
    """Declares the weights of a module from the tensors of a file.

    A ModelError names the tensor that is missing, or has another shape than the graph needs, or
    is of a type that cannot be packed."""

    def __init__(self, gguf: GGUFFile, module: Module) -> None:
        """Declare weights of `gguf` in `module`."""
        self.gguf = gguf
        self.module = module
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the file holds the tensor `name`."""
        return name in self.gguf.tensors

    def fail(self, message: str) -> ModelError:
        """An error about this file, to be raised."""
        return ModelError(f"{self.gguf.label}: {message}")

    def info(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        """The tensor `name`, which must have `shape` (rows first; leading dimensions of 1 are as
        good as none), marked as used."""
        info = self.gguf.tensors.get(name)
        if info is None:
            raise self.fail(f"tensor {quoted(name)} is missing, wanted with shape {list(shape)}")
        if without_ones(info.shape) != without_ones(shape):
            raise self.fail(
                f"tensor {quoted(name)} has shape {list(info.shape)}, wanted {list(shape)}"
            )
        self.used.add(name)
        return info

    def matrix(self, name: str, rows: int, columns: int) -> Weight:
        """A weight matrix [rows, columns] of any type that has a packed layout."""
        info = self.packable(name, (rows, columns))
        return self.module.weight(name, TensorType((rows, columns), dtype(info.type_name)))

    def stack(self, name: str, shape: tuple[int, ...], parts: str = "") -> Weight:
        """Several weight matrices, [count, rows, columns], of any type that has a packed layout;
        from one tensor, or from one each, named `parts` with the number in place of `{}`."""
        names = [parts.format(i) for i in range(shape[0])] if parts else []
        if self.has(name) or not names or not self.has(names[0]):
            info = self.packable(name, shape)
            return self.module.weight(name, TensorType(shape, dtype(info.type_name)))
        infos = [self.packable(part, shape[1:]) for part in names]
        for info in infos:
            if info.type_name != infos[0].type_name:
                raise self.fail(
                    f"tensor {quoted(info.name)} is of type {info.type_name}, wanted"
                    f" {infos[0].type_name} as {quoted(names[0])}"
                )
        type_ = TensorType(shape, dtype(infos[0].type_name))
        return self.module.weight(name, type_, names)

    def row(self, name: str, n: int) -> Weight:
        """A weight matrix [1, n], which files may also hold as a vector."""
        info = self.packable(name, (1, n))
        return self.module.weight(name, TensorType((1, n), dtype(info.type_name)))

    def halves(
        self, name: str, rows: int, columns: int, first: str, second: str
    ) -> tuple[Weight, Weight]:
        """Two weight matrices [rows, columns] that the file holds as one, above each other. They
        get the tensor's name with `first` and `second` in place of its last part."""
        return self.stacked_halves(name, (rows, columns), first, second)

    def stacked_halves(
        self, name: str, shape: tuple[int, ...], first: str, second: str
    ) -> tuple[Weight, Weight]:
        """Two weights [..., rows, columns] whose matrices the file holds above each other, in
        pairs; named as in `halves`."""
        *outer, rows, columns = shape
        info = self.packable(name, (*outer, 2 * rows, columns))
        type_ = TensorType(shape, dtype(info.type_name))
        prefix = name.removesuffix(".weight").rpartition(".")[0]
        starts = range(0, 2 * rows * math.prod(outer), 2 * rows)
        upper = [Rows(name, start, start + rows) for start in starts]
        lower = [Rows(name, start + rows, start + 2 * rows) for start in starts]
        return (
            self.module.weight(f"{prefix}.{first}.weight", type_, upper),
            self.module.weight(f"{prefix}.{second}.weight", type_, lower),
        )

    def packable(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        """The tensor `name` of this shape, of a type that has a packed layout."""
        info = self.info(name, shape)
        try:
            layout_for(info.type_name)
        except IRError as error:
            raise self.fail(f"tensor {quoted(name)}: {error}") from None
        return info

    def vector(self, name: str, n: int) -> Weight:
        """A vector [n] in float32; one that is stored in 16 bits is converted, exactly."""
        info = self.info(name, (n,))
        if info.type_name == "f32":
            return self.module.weight(name, TensorType((n,), F32))
        return self.constant(name, self.vector_values(name, n))

    def plain(self, name: str, shape: tuple[int, ...]) -> Weight:
        """A tensor in float32 that is read as it is; one in 16 bits is converted, exactly."""
        info = self.info(name, shape)
        if info.type_name == "f32":
            return self.module.weight(name, TensorType(shape, F32))
        return self.constant(name, self.decoded(info).reshape(shape))

    def flat_vector(self, name: str, rows: int, columns: int) -> Weight:
        """The float32 matrix [rows, columns] as a vector, row after row."""
        info = self.info(name, (rows, columns))
        type_ = TensorType((rows * columns,), F32)
        if info.type_name == "f32":
            return self.module.weight(name, type_)
        return self.constant(name, self.decoded(info).reshape(-1))

    def vector_values(self, name: str, n: int) -> F32Array:
        """The values of the vector `name` [n], for computing with at compile time."""
        return self.decoded(self.info(name, (n,))).reshape(n)

    def decoded(self, info: TensorInfo) -> F32Array:
        """The values of a tensor that is not quantised."""
        if info.type_name not in VECTOR_TYPES:
            raise self.fail(
                f"tensor {quoted(info.name)} is a vector of type {info.type_name},"
                f" allowed are {', '.join(VECTOR_TYPES)}"
            )
        return decode(info.type_name, self.gguf.tensor_bytes(info.name), info.shape)

    def constant(self, name: str, values: F32Array) -> Weight:
        """A float32 weight that is computed here and stored in the program."""
        return self.module.weight(
            name, TensorType(values.shape, F32), data=values.astype("<f4").tobytes()
        )

    def leave(self, *names: str) -> None:
        """Let these tensors be there though nothing asks for them."""
        self.used.update(names)

    def check_all_used(self, ignored: tuple[str, ...] = ()) -> None:
        """Refuse a file with tensors that the graph does not use: they must have been meant to
        be used. Names may begin with what is `ignored`."""
        unused = [n for n in self.gguf.tensors if n not in self.used and not n.startswith(ignored)]
        unused = [name for name in unused if not IGNORED.fullmatch(name)]
        if unused:
            raise self.fail(
                f"{len(unused)} tensors are not part of the graph of architecture"
                f" {quoted(str(self.module.attributes['arch']))}: {listing(unused)}"
            )


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` without its leading dimensions of 1, but for the last dimension."""
    first = next((i for i, size in enumerate(shape) if size != 1), len(shape) - 1)
    return shape[first:]
