"""What blocks are made of: sizes, products with matrices, sums, and other shapes."""

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
    scale_name, bias_name = (f"{at.prefix}{name}.{kind}" for kind in ("scale", "bias"))
    if at.tensors.has(scale_name):
        scale = float(at.tensors.vector_values(scale_name, 1)[0])
        y = at.emit("scale", y, factor=scale, name=f"{name}.scaled")
    if not at.tensors.has(bias_name):
        return y
    return at.emit("bias_add", y, at.tensors.vector(bias_name, n), name=f"{name}.biased")


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
