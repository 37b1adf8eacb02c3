"""What becomes of every tensor of a model: the layout it is packed in, the kernel that reads it,
what it is multiplied as, and why. Told from the graph, as the passes see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ggufc.backends.llvm.layouts import RAW, layout_for, layout_reason
from ggufc.compiler.passes.layout_weights import matrices_of
from ggufc.compiler.passes.quantize_activations import Compute, QuantizeActivations
from ggufc.ir import Module, Op, Rows, Weight

LOOKED_UP = "embed"
PRODUCTS = {"q8a": "int8", "bf16a": "bf16", "f32": "float32"}
# Of tensors that no op reads.
COMPUTED = "taken into account when compiling"


@dataclass(frozen=True)
class TensorUse:
    """The packed layout of a tensor, the kernels that read it, what they compute in, and why."""

    layout: str
    kernel: str
    product: str
    reason: str


def tensor_uses(graph: Module, compute: Compute | None = None) -> dict[str, TensorUse]:
    """The use of every tensor that an op of `graph`, at stage graph, reads, by its name.

    `compute` is how the target multiplies; integers, unless given."""
    module = graph.clone()
    QuantizeActivations(compute or Compute()).run(module)
    readers: dict[Weight, list[Op]] = {}
    for function in module.functions.values():
        for op in function.ops:
            for weight in op.weights():
                readers.setdefault(weight, []).append(op)
    return {
        name: use_of(weight, ops) for weight, ops in readers.items() for name in tensors_of(weight)
    }


def tensors_of(weight: Weight) -> Iterator[str]:
    """The names of the tensors that a weight is made of; its own where it was converted."""
    if weight.data is not None:
        yield weight.name
    for source in weight.sources:
        yield source.tensor if isinstance(source, Rows) else source


def use_of(weight: Weight, ops: list[Op]) -> TensorUse:
    """What `ops`, all that read `weight`, make of it."""
    kernels = ", ".join(dict.fromkeys(op.name for op in ops))
    if not any(weight in matrices_of(op) for op in ops):
        return TensorUse(RAW.name, kernels, "float32", "read as it is, number by number")
    type_name = weight.type.dtype.name
    layout = layout_for(type_name)
    products = {PRODUCTS[op.value("x").type.dtype.name] for op in ops if op.name != LOOKED_UP}
    reasons = (layout_reason(type_name), product_reason(weight, products))
    product = " and ".join(sorted(products)) or "float32"
    return TensorUse(layout.name, kernels, product, "; ".join(reasons))


def product_reason(weight: Weight, products: set[str]) -> str:
    """Why a matrix is multiplied as it is."""
    if not products:
        return "rows are decoded as they are looked up"
    if products != {"float32"}:
        return "activations are rounded once for all weights in blocks"
    if weight.type.dtype.is_quantized:
        return "decoded on the way, since the model is float32 but for its experts"
    return "weights are not in blocks, so activations stay float32"
