"""What patterns share: finding the op behind a value, and running patterns over a module."""

from __future__ import annotations

from typing import Any

from ggufc.ir import Module, Op, Operand, RewritePattern, Rewriter, Value, Weight, apply_patterns


def rewrite_module(module: Module, *patterns: RewritePattern) -> None:
    """Apply the patterns to every function until none matches."""
    for function in module.functions.values():
        apply_patterns(function, patterns, module)


def defining_op(operand: Operand, *names: str) -> Op | None:
    """The op that makes this value, if it is one of the named ones."""
    op = operand.op if isinstance(operand, Value) else None
    return op if op is not None and op.name in names else None


def sole_op(rewriter: Rewriter, operand: Operand, *names: str) -> Op | None:
    """As `defining_op`, if the value has no use but one."""
    op = defining_op(operand, *names)
    return op if op is not None and rewriter.only_use(op.result) is not None else None


def create_like(rewriter: Rewriter, op: Op, op_name: str | None = None, **changes: Any) -> Value:
    """The result of a new op like `op` but for the changes, which `op_name` may be one of."""
    arguments: dict[str, Any] = {**op.operands, **op.attributes, **changes}
    created: Value = rewriter.create(op_name or op.name, **arguments)
    return created


def erase_unused(rewriter: Rewriter, value: Value) -> None:
    """Erase the op that makes a value, then those that made its operands, if nothing uses them."""
    if value.op is None or not rewriter.erase_if_unused(value.op):
        return
    for operand in value.op.values():
        erase_unused(rewriter, operand)


def is_plain_linear(op: Op | None) -> bool:
    """Whether it is a linear that adds nothing: neither bias nor residual."""
    return (
        op is not None
        and op.name == "linear"
        and op.operands["bias"] is None
        and op.operands["residual"] is None
    )


def are_in_blocks(weights: tuple[Weight, ...]) -> bool:
    """Whether every weight is of a block type, so that it takes quantised activations."""
    return all(weight.type.dtype.is_quantized for weight in weights)


def take_one_input(weights: tuple[Weight, ...]) -> bool:
    """Whether one linear can hold these weights: all take quantised activations, or none does."""
    return len({weight.type.dtype.is_quantized for weight in weights}) == 1


def joined_name(names: list[str]) -> str:
    """One name for several that differ in the middle: `blk.0.q`, `blk.0.k` -> `blk.0.qk`."""
    head = _common_prefix(names)
    rest = [name[len(head) :] for name in names]
    tail = _common_prefix([name[::-1] for name in rest])[::-1]
    return head + "".join(name[: len(name) - len(tail)] for name in rest) + tail


def _common_prefix(names: list[str]) -> str:
    length = 0
    while all(len(name) > length and name[length] == names[0][length] for name in names):
        length += 1
    return names[0][:length]
