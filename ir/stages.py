"""Stages of the pipeline: which ops a module may hold at each, and what planning must add."""

from __future__ import annotations

from ggufc.ir.core import Function, Module, Op, Value
from ggufc.ir.errors import IRError, VerifyError
from ggufc.ir.opdef import View

GRAPH = "graph"
FUSED = "fused"
PLANNED = "planned"
STAGES = (GRAPH, FUSED, PLANNED)


def check_stage_name(stage: str) -> None:
    """An IRError that lists the stages unless this is one."""
    if stage not in STAGES:
        raise IRError(f"unknown stage {stage!r}; known: {', '.join(STAGES)}")


def check_op_allowed(op: Op, stage: str) -> None:
    """A VerifyError unless the op may appear at this stage."""
    if stage not in op.definition.stages:
        allowed = ", ".join(op.definition.stages)
        raise VerifyError(f"not allowed at stage {stage}; allowed at: {allowed}")


def check_buffer(value: Value, stage: str, outside: set[Value]) -> None:
    """A VerifyError unless the value has a buffer exactly when the stage asks for one.

    At stage planned every value has one but those in `outside` the arena; before, none has.
    """
    if stage != PLANNED or value in outside:
        if value.buffer is not None:
            where = "outside the arena" if stage == PLANNED else f"at stage {stage}"
            raise VerifyError(f"result %{value.name} has a buffer; expected none {where}")
        return
    if value.buffer is None:
        raise VerifyError(f"result %{value.name} has no buffer; expected one at stage planned")
    _check_place(value)


def _check_place(value: Value) -> None:
    buffer = value.buffer
    if buffer is None:
        return
    if buffer.offset < 0 or buffer.nbytes < value.type.max_bytes:
        raise VerifyError(
            f"result %{value.name} has buffer [{buffer.offset}:{buffer.end}]; expected an offset "
            f"of 0 or more and at least {value.type.max_bytes} bytes"
        )
    source = viewed(value)
    if source is not None and source.buffer != buffer:
        raise VerifyError(f"result %{value.name} is a view of %{source.name}; expected its buffer")


def viewed(value: Value) -> Value | None:
    """The value whose bytes this one is another view of, if it is a view."""
    view = value.op.definition.trait(View) if value.op is not None else None
    return None if view is None or value.op is None else value.op.value(view.operand)


def view_root(value: Value) -> Value:
    """The value that owns the bytes: itself, or what it is a view of, followed to the end."""
    source = viewed(value)
    while source is not None:
        value, source = source, viewed(source)
    return value


def outside_arena(function: Function) -> set[Value]:
    """Values that the caller provides memory for: inputs, outputs and the views of either."""
    roots = {*function.inputs, *(view_root(output) for output in function.outputs)}
    return {value for value in function.values() if view_root(value) in roots}


def check_weights_placed(module: Module) -> None:
    """A VerifyError unless every weight has a layout and a place (stage planned)."""
    for weight in module.weights.values():
        if weight.layout is None or weight.offset is None or weight.nbytes is None:
            raise VerifyError(
                f"weight @{weight.name}: expected a layout and a place at stage planned, found none"
            )
