"""What blocks are made of: sizes, products with matrices, sums, and other shapes."""

import math

from ggufc.compiler.errors import quoted
from ggufc.compiler.models.network import Scope
from ggufc.ir import Value, max_dim


def width(x: Value) -> int:
    """The size of the last dimension of `x`."""
    return max_dim(x.type.shape[-1])


def linear(at: Scope, name: str, x: Value, n: int) -> Value:
    """`x` [T, K] times the matrix `name` [n, K], times its scale and plus its bias where the file
    has one: [T, n]."""
    weight = at.tensors.matrix(f"{at.prefix}{name}.weight", n, width(x))
    y = at.emit("linear", x, (weight,), name=name)
    return biased(at, name, rescaled(at, name, y))


def rescaled(at: Scope, name: str, x: Value) -> Value:
    """`x` times the scale of the matrix `name` that made it, where the file has one."""
    full = f"{at.prefix}{name}.scale"
    if not at.tensors.has(full):
        return x
    scale = float(at.tensors.vector_values(full, 1)[0])
    if not math.isfinite(scale):
        raise at.tensors.fail(f"tensor {quoted(full)} holds {scale}, allowed are finite numbers")
    return at.emit("scale", x, factor=scale, name=f"{name}.scaled")


def biased(at: Scope, name: str, x: Value) -> Value:
    """`x` [T, n] plus the bias `name`, where the file has one."""
    full = f"{at.prefix}{name}.bias"
    if not at.tensors.has(full):
        return x
    return at.emit("bias_add", x, at.tensors.vector(full, width(x)), name=f"{name}.biased")


def add(at: Scope, name: str, x: Value, y: Value) -> Value:
    """The sum of a residual stream and a branch."""
    return at.emit("add", x, y, name=name)


def scaled(at: Scope, name: str, x: Value, factor: float) -> Value:
    """`x` times `factor`, which is 0 where a file does not ask for that."""
    return at.emit("scale", x, factor=factor, name=name) if factor not in (0.0, 1.0) else x


def split(at: Scope, x: Value, sizes: dict[str, int]) -> dict[str, Value]:
    """`x` [T, N] cut into columns, `sizes[name]` of them for each name in turn."""
    parts = {}
    start = 0
    for name, size in sizes.items():
        parts[name] = at.emit("slice", x, start=start, stop=start + size, name=name)
        start += size
    return parts
