"""Give linears with quantised weights the activations that the target multiplies them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import are_in_blocks, defining_op
from ggufc.ir import DECODE, F32, Function, Module, Op, Rewriter, Value, Weight

_ACTIVATIONS = {"int8": "q8a", "bf16": "bf16a"}
_LINEARS = ("linear", "linear_glu")
_PRODUCTS = (*_LINEARS, "expert_linear", "expert_glu")


@dataclass(frozen=True)
class Compute:
    """How functions multiply quantised weights: "int8" or "bf16" (tiles); `embed` as `prefill`."""

    prefill: str = "int8"
    decode: str = "int8"

    def activation(self, function: str) -> str:
        """The activation's element type in a function: `q8a` or `bf16a`."""
        return _ACTIVATIONS[self.decode if function == DECODE else self.prefill]

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

    The few rows whose logits are wanted are multiplied as whole numbers whatever the mode, with
    residuals: their weights pass once, which tiles would only wait for.

    Rows that are gathered for experts are quantised before, once for all experts of a token. Where
    all weights of other linears are F32, experts are computed in float32, too, whatever their type.
    """

    name: ClassVar[str] = "quantize-activations"
    compute: Compute = Compute()

    def run(self, module: Module) -> None:
        """Each function with the activations of its compute mode."""
        if _is_float32(module):
            return
        for function in module.functions.values():
            _quantize_inputs(module, function, self.compute.activation(function.name))


def _is_float32(module: Module) -> bool:
    """Whether a model asks for float32 throughout: its linears but those of experts have it."""
    plain = [op for f in module.functions.values() for op in f.ops if op.name in _LINEARS]
    return bool(plain) and all(weight.type.dtype == F32 for op in plain for weight in op.weights())


def _quantize_inputs(module: Module, function: Function, to: str) -> None:
    made: dict[Value, Value] = {}
    for op in list(function.ops):
        if _takes_quantized(op):
            rewriter = Rewriter(function, module, op)
            refined = function.name != DECODE and not _is_of_tokens(function, op.value("x"))
            kind = "q8a" if refined else to
            op.set_operand("x", _quantized(rewriter, op.value("x"), kind, made, refined))


def _quantized(
    rewriter: Rewriter, x: Value, to: str, made: dict[Value, Value], refined: bool
) -> Value:
    """The value that stands for x; `made` has those that there are."""
    if x not in made:
        gather, name = defining_op(x, "gather_rows"), f"{x.name}.{to}"
        if gather is None:
            refine = "none" if to != "q8a" else "all" if refined else "outliers"
            made[x] = rewriter.create("quantize", x, to=to, refine=refine, name=name)
        else:
            source = _quantized(rewriter, gather.value("x"), to, made, refined)
            made[x] = rewriter.create("gather_rows", source, gather.value("order"), name=name)
    return made[x]


def _is_of_tokens(function: Function, x: Value) -> bool:
    """Whether x has a row for each token, not only for those whose logits are wanted."""
    return bool(function.inputs) and x.type.shape[0] == function.inputs[0].type.shape[0]


def _takes_quantized(op: Op) -> bool:
    if op.name not in _PRODUCTS or op.value("x").type.dtype != F32:
        return False
    biases = [op.operands.get(name) for name in ("bias", "gate_bias", "up_bias")]
    matrices: tuple[Weight, ...] = tuple(w for w in op.weights() if w not in biases)
    return are_in_blocks(matrices)
