"""A program as data: ops with types, places, lifetimes and costs, and the totals of each graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ggufc.compiler.costs import compute_type, function_cost, op_cost, typical_sizes
from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.memory.intervals import lower_bound
from ggufc.compiler.memory.liveness import Lifetimes, lifetimes
from ggufc.compiler.memory.planner import naive
from ggufc.ir import PLANNED, Function, Module, Op, Operand, Symbol, Value, format_name, leaves


def render_json(module: Module, stage: str) -> str:
    """`module_data` as JSON text, one line a list element."""
    return json.dumps(module_data(module, stage), indent=1) + "\n"


def module_data(module: Module, stage: str) -> dict[str, Any]:
    """`{"stage", "graphs": {name: graph}}`; bytes and flops are numbers, types text.

    A graph has `ops`, the `sizes` that flops and bytes of ops are counted at, their sums, and for
    the largest sizes `arena_bytes` (null before planning), `naive_bytes` and `lower_bound_bytes`.
    """
    graphs = {name: _graph(function, stage) for name, function in module.functions.items()}
    return {"stage": stage, "graphs": graphs}


def _graph(function: Function, stage: str) -> dict[str, Any]:
    found = lifetimes(function)
    intervals = found.arena_intervals()
    sizes = typical_sizes(function)
    total = function_cost(function, sizes)
    return {
        "ops": [_op(op, found, sizes) for op in function.ops],
        "arena_bytes": arena_bytes(function) if stage == PLANNED else None,
        "naive_bytes": naive(intervals).peak,
        "lower_bound_bytes": lower_bound(intervals),
        "sizes": sizes,
        "flops": total.flops,
        "bytes": total.bytes,
        "weight_bytes": total.weight_bytes,
        "state_bytes": total.state_bytes,
        "inputs": [_value(value, found) for value in function.inputs],
        "returns": [value.name for value in function.outputs],
    }


def _op(op: Op, found: Lifetimes, sizes: Mapping[str, int]) -> dict[str, Any]:
    cost = op_cost(op, sizes)
    return {
        "op": op.name,
        "operands": {name: _operand(operand) for name, operand in op.operands.items()},
        "attributes": {name: _attribute(value) for name, value in op.attributes.items()},
        "results": [_value(result, found) for result in op.results],
        "compute": compute_type(op),
        "flops": cost.flops,
        "bytes": cost.bytes,
        "weight_bytes": cost.weight_bytes,
        "state_bytes": cost.state_bytes,
    }


def _operand(operand: Operand) -> str | list[str] | None:
    """A name with its sign (`%value`, `@weight`, `$state`), or a list of them."""
    names = [format_name(leaf) for leaf in leaves(operand)]
    if isinstance(operand, tuple):
        return names
    return names[0] if names else None


def _attribute(value: Any) -> Any:
    if isinstance(value, Symbol):
        return value.name
    return [_attribute(item) for item in value] if isinstance(value, tuple) else value


def _value(value: Value, found: Lifetimes) -> dict[str, Any]:
    first, last = found.lives[value]
    buffer = value.buffer
    return {
        "name": value.name,
        "type": str(value.type),
        "bytes": value.type.max_bytes,
        "lifetime": [first, last],
        "space": found.of_value[value].space,
        "offset": None if buffer is None else buffer.offset,
    }
