"""From ops to the signatures and names of their kernels."""

from __future__ import annotations

from typing import Literal

from ggufc.backends.llvm.kernel import EMITTERS, OperandSignature, OpSignature, attributes_key
from ggufc.backends.llvm.optimize import CodegenError
from ggufc.backends.llvm.placement import weight_offset
from ggufc.ir import Function, Op, State, Symbol, TensorType, Value, View, Weight, leaves

# Making embeddings is prefill that returns something else: it has the same kernels.
_PHASES: dict[str, Literal["prefill", "decode"]] = {
    "prefill": "prefill",
    "decode": "decode",
    "embed": "prefill",
}


def signature(function: Function, op: Op) -> OpSignature:
    """What the kernel of an op depends on; CodegenError for an op that has no emitter."""
    found = OpSignature(
        op=op.name,
        attributes=attributes_key(op.attributes),
        operands=tuple(
            _operand(name, leaf) for name, group in op.operands.items() for leaf in leaves(group)
        ),
        results=tuple(result.type for result in op.results),
        phase=phase(function),
    )
    if op.name not in EMITTERS:
        raise CodegenError(
            f"function '{function.name}': no kernel for {describe(found)}; "
            f"there are kernels for {', '.join(sorted(EMITTERS))}"
        )
    return found


def phase(function: Function) -> Literal["prefill", "decode"]:
    """How the kernels of a function work; CodegenError for a name that no graph has."""
    if function.name not in _PHASES:
        raise CodegenError(f"function '{function.name}' is none of {', '.join(_PHASES)}")
    return _PHASES[function.name]


def needs_kernel(op: Op) -> bool:
    """Whether an op does anything at run time: views do not."""
    return not op.definition.has(View)


def describe(signature: OpSignature) -> str:
    """A signature on one line, for messages."""
    operands = ", ".join(
        f"{o.name}={o.type}" + (f" {o.layout}" if o.layout else "") for o in signature.operands
    )
    attributes = ", ".join(f"{key} = {value!r}" for key, value in signature.attributes)
    return f"{signature.op}({operands}) {{{attributes}}}"


def kernel_name(signature: OpSignature, number: int) -> str:
    """A readable name: op, weight types, sizes, graph, and a number that makes it unique."""
    weights = [o.type for o in signature.operands if o.kind == "weight" and len(o.type.shape) > 1]
    parts = [signature.op]
    if weights:
        parts.append("+".join(dict.fromkeys(w.dtype.name for w in weights)))
        rows = sum(w.max_shape[0] for w in weights)
        parts.append(f"{rows}x{weights[0].max_shape[1]}")
    else:
        parts.append(_sizes((*signature.results, *(o.type for o in signature.operands))[0]))
    return ".".join([*filter(None, parts), signature.phase, str(number)])


def run_time_dimension(op: Op) -> Symbol | int:
    """What a kernel gets as `n`: the leading dimension of its result, else of its first value."""
    for value in (*op.results, *op.values()):
        if value.type.shape:
            return value.type.shape[0]
    return 1


def _operand(name: str, leaf: Value | Weight | State) -> OperandSignature:
    if isinstance(leaf, Weight):
        weight_offset(leaf)  # a weight without a place has no layout to generate code for
        return OperandSignature(name, "weight", leaf.type, leaf.layout)
    return OperandSignature(name, "state" if isinstance(leaf, State) else "value", leaf.type)


def _sizes(found: TensorType) -> str:
    return "x".join(str(dim) for dim in found.shape if not isinstance(dim, Symbol))
