"""Where the operands and results of a planned op lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from ggufc.backends.llvm.abi import INPUT_FIELDS
from ggufc.backends.llvm.optimize import CodegenError
from ggufc.ir import Function, State, Value, Weight, view_root

ARENA, LOGITS = "arena", "logits"


@dataclass(frozen=True)
class Place:
    """Bytes start to end of one memory: the arena, the logits, an input or a state."""

    space: str
    start: int
    end: int

    def overlaps(self, other: Place) -> bool:
        """Whether the two have a byte in common."""
        return self.space == other.space and self.start < other.end and other.start < self.end


def state_place(state: State) -> Place:
    """A state as a whole: which rows are touched is known only at run time."""
    return Place(f"${state.name}", 0, 1)


def value_place(function: Function, value: Value) -> Place:
    """Where a value lies; CodegenError where the plan does not say."""
    root = view_root(value)
    if root in function.inputs:
        return Place(_checked_input(function, root), 0, root.type.max_bytes)
    if root in map(view_root, function.outputs):
        return Place(LOGITS, 0, root.type.max_bytes)
    buffer = root.buffer
    if buffer is None or buffer.space not in (ARENA, LOGITS):
        found = "no buffer" if buffer is None else f"a buffer in {buffer.space!r}"
        raise CodegenError(
            f"function '{function.name}': %{root.name} has {found}; code is generated for planned "
            f"modules, whose values lie in {ARENA!r} or {LOGITS!r}"
        )
    return Place(buffer.space, buffer.offset, buffer.end)


def weight_offset(weight: Weight) -> int:
    """The byte offset of a weight in the packed file; CodegenError where it has none."""
    if weight.offset is None or weight.layout is None:
        raise CodegenError(
            f"weight @{weight.name} has no layout and offset; code is generated for planned modules"
        )
    return weight.offset


def arena_bytes(functions: list[Function]) -> int:
    """Bytes of the arena that all functions share: the end of the last buffer."""
    buffers = [value.buffer for function in functions for value in function.values()]
    return max((b.end for b in buffers if b is not None and b.space == ARENA), default=0)


def _checked_input(function: Function, value: Value) -> str:
    if value.name not in INPUT_FIELDS:
        raise CodegenError(
            f"function '{function.name}': input %{value.name} is none of the interface's inputs "
            f"{', '.join(INPUT_FIELDS)}"
        )
    return value.name
