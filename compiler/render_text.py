"""A program as text: the module, and for planned ones a table of the memory plan as comments."""

from __future__ import annotations

from collections.abc import Iterator

from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.memory.intervals import lower_bound
from ggufc.compiler.memory.liveness import Lifetimes, lifetimes
from ggufc.compiler.memory.planner import naive
from ggufc.ir import PLANNED, Function, Module, Value, format_name, print_module


def render_text(module: Module, stage: str) -> str:
    """The module's text, which parses back; at stage planned with the plan of each function."""
    text = print_module(module)
    if stage != PLANNED:
        return text
    return text + "".join(plan_table(function) for function in module.functions.values())


def plan_table(function: Function) -> str:
    """Bytes, lifetime and offset of every value of a planned function, and what the plan gains.

    Ops are numbered from 0; a value lives from the op that makes it to the last that reads it.
    """
    found = lifetimes(function)
    rows = [("value", "bytes", "life", "offset"), *_rows(function, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["", f"// plan of {function.name}: {len(function.ops)} ops"]
    for name, nbytes, life, offset in rows:
        cells = (name.ljust(widths[0]), nbytes.rjust(widths[1]), life.rjust(widths[2]))
        lines.append(f"//   {'  '.join((*cells, offset.rjust(widths[3])))}")
    return "\n".join([*lines, f"//   {_summary(function, found)}", ""])


def _rows(function: Function, found: Lifetimes) -> Iterator[tuple[str, str, str, str]]:
    for value in function.values():
        first, last = found.lives[value]
        start = "call" if first < 0 else str(first)
        end = "return" if last == len(function.ops) else str(max(last, 0))
        nbytes = str(value.type.max_bytes)
        yield format_name(value), nbytes, f"{start}..{end}", _place(value, found)


def _place(value: Value, found: Lifetimes) -> str:
    """The offset in the arena, or the caller's memory that the value lies in."""
    in_arena = value.buffer is not None and value.buffer.space == "arena"
    return str(value.buffer.offset) if in_arena and value.buffer else found.of_value[value].space


def _summary(function: Function, found: Lifetimes) -> str:
    intervals = found.arena_intervals()
    peak, bound, separate = arena_bytes(function), lower_bound(intervals), naive(intervals).peak
    ratio = f" (peak is {peak / bound:.3f} times that)" if bound else ""
    return f"peak {peak} bytes; lower bound {bound}{ratio}; without sharing {separate}"
