"""The arena of planned functions."""

from __future__ import annotations

from ggufc.compiler.memory.intervals import align
from ggufc.compiler.memory.liveness import ARENA
from ggufc.ir import Function, Module


def arena_bytes(planned: Function | Module) -> int:
    """Bytes of the arena that a planned function needs, or that all functions of a module share."""
    if isinstance(planned, Module):
        return max((arena_bytes(function) for function in planned.functions.values()), default=0)
    buffers = [value.buffer for value in planned.values()]
    return align(max((b.end for b in buffers if b is not None and b.space == ARENA), default=0))
