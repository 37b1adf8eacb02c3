"""Give every weight its packed layout and its place in weights.bin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ggufc.backends.llvm.layouts import RAW, layout_for, tensor_bytes
from ggufc.compiler.memory.intervals import align
from ggufc.compiler.pass_manager import Pass, PassError
from ggufc.ir import IRError, Module, Op, Weight

# The operands that are read as packed matrices; every other weight is a plain vector or table.
_MATRICES = {
    "linear": ("weights",),
    "linear_glu": ("gate", "up"),
    "embed": ("table",),
    "expert_linear": ("weight",),
    "expert_glu": ("gate", "up"),
}


class LayoutWeights(Pass):
    """Matrices take the layout of their type, the rest stays as it is; in order of first use.

    before: weight @w : q4_0[32, 64]       after: weight @w : q4_0[32, 64] layout r16.q4_0 at 0:1152

    The order is decode's, then whatever only prefill uses; each weight starts on a multiple of 64.
    """

    name: ClassVar[str] = "layout-weights"

    def run(self, module: Module) -> None:
        """A PassError names the weight whose type has no layout."""
        matrices = {weight for op in _ops(module) for weight in matrices_of(op)}
        offset = 0
        for weight in dict.fromkeys(weight for op in _ops(module) for weight in op.weights()):
            _place(weight, offset, weight in matrices)
            offset += align(weight.nbytes or 0)


def _ops(module: Module) -> Iterator[Op]:
    """All ops, those of decode first: it is decode that reads weights at the memory's speed."""
    for function in sorted(module.functions.values(), key=lambda f: f.name != "decode"):
        yield from function.ops


def matrices_of(op: Op) -> Iterator[Weight]:
    """The weights of an op that it reads as packed matrices."""
    for name in _MATRICES.get(op.name, ()):
        operand = op.operands[name]
        for leaf in operand if isinstance(operand, tuple) else (operand,):
            if isinstance(leaf, Weight):
                yield leaf


def _place(weight: Weight, offset: int, is_matrix: bool) -> None:
    weight.offset = offset
    if is_matrix:
        _lay_out_matrix(weight)
    else:
        weight.layout, weight.nbytes = RAW.name, weight.type.max_bytes


def _lay_out_matrix(weight: Weight) -> None:
    try:
        layout = layout_for(weight.type.dtype.name)
    except IRError as error:
        raise PassError(f"weight @{weight.name}: {error}") from None
    weight.layout, weight.nbytes = layout.name, tensor_bytes(layout, weight.type.max_shape)
