"""Give every value its place in the arena."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.memory.liveness import ARENA, OUTPUT, Lifetimes, Storage, lifetimes
from ggufc.compiler.memory.planner import plan
from ggufc.compiler.memory.verify_plan import verify_plan
from ggufc.compiler.pass_manager import Pass
from ggufc.ir import Buffer, Function, Module, view_root


class PlanMemory(Pass):
    """Values get buffers of the arena; those whose lives do not meet share bytes.

    before: %a = silu(%x) : f32[T, 64]     after: %a = silu(%x) : f32[T, 64] in arena[0:2048]

    Both functions use one arena, each from its start. The plan is checked by `verify_plan`.
    """

    name: ClassVar[str] = "plan-memory"
    stage: ClassVar[str] = "planned"

    def run(self, module: Module) -> None:
        """A PlanError says what is wrong with a plan that does not hold."""
        for function in module.functions.values():
            found = lifetimes(function)
            _set_buffers(function, found, plan(found.arena_intervals()).offsets)
            verify_plan(function, arena_bytes(function))


def _set_buffers(function: Function, found: Lifetimes, offsets: dict[str, int]) -> None:
    outputs = {view_root(output) for output in function.outputs}
    for value, storage in found.of_value.items():
        # What is returned, and views of it, are the caller's: no buffer says where they lie.
        value.buffer = None if view_root(value) in outputs else _buffer(storage, offsets)


def _buffer(storage: Storage, offsets: dict[str, int]) -> Buffer | None:
    if storage.space == ARENA:
        return Buffer(ARENA, offsets[storage.interval().key], storage.nbytes)
    return Buffer(OUTPUT, 0, storage.nbytes) if storage.space == OUTPUT else None
