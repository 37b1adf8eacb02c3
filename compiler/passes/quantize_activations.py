"""Give linears with quantised weights the activations that the target multiplies them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import are_in_blocks, defining_op
from ggufc.ir import F32, Function, Module, Op, Rewriter, Value, Weight

_ACTIVATIONS = {"int8": "q8a", "bf16": "bf16"}
_PRODUCTS = ("linear", "linear_glu", "expert_linear", "expert_glu")


@dataclass(frozen=True)
class Compute:
    """How each function multiplies quantised weights: "int8" or "bf16" (tiles)."""

    prefill: str = "int8"
    decode: str = "int8"

    def activation(self, function: str) -> str:
        """The activation's element type in a function: `q8a` or `bf16`."""
        return _ACTIVATIONS[self.prefill if function == "prefill" else self.decode]

    def __post_init__(self) -> None:
        for mode in (self.prefill, self.decode):
            if mode not in _ACTIVATIONS:
                raise ValueError(f"compute mode {mode!r}; allowed: {', '.join(_ACTIVATIONS)}")


@dataclass(frozen=True)
class QuantizeActivations(Pass):
    """The input of every linear over block types is quantised, once for all that share it.

    before: %a = linear(%x, [@w0])         after: %xq = quantize(%x) {to = "q8a"}
            %b = linear(%x, [@w1])                %a = linear(%xq, [@w0])
                                                  %b = linear(%xq, [@w1])

    Rows that are gathered for experts are quantised before, once for all experts of a token.
    """

    name: ClassVar[str] = "quantize-activations"
    compute: Compute = Compute()

    def run(self, module: Module) -> None:
        """Each function with the activations of its compute mode."""
        for function in module.functions.values():
            _quantize_inputs(module, function, self.compute.activation(function.name))


def _quantize_inputs(module: Module, function: Function, to: str) -> None:
    quantized: dict[Value, Value] = {}
    for op in list(function.ops):
        if not _takes_quantized(op):
            continue
        x = op.value("x")
        if x not in quantized:
            quantized[x] = _quantized(Rewriter(function, module, op), x, to)
        op.set_operand("x", quantized[x])


def _quantized(rewriter: Rewriter, x: Value, to: str) -> Value:
    gather = defining_op(x, "gather_rows")
    source = x if gather is None else gather.value("x")
    made: Value = rewriter.create("quantize", source, to=to, name=f"{source.name}.{to}")
    if gather is None:
        return made
    gathered: Value = rewriter.create("gather_rows", made, gather.value("order"), name=x.name)
    return gathered


def _takes_quantized(op: Op) -> bool:
    if op.name not in _PRODUCTS or op.value("x").type.dtype != F32:
        return False
    biases = [op.operands.get(name) for name in ("bias", "gate_bias", "up_bias")]
    matrices: tuple[Weight, ...] = tuple(w for w in op.weights() if w not in biases)
    return are_in_blocks(matrices)
