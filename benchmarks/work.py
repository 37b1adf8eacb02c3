"""What ggufc's graphs have to do for what is timed, from the costs of their ops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from contestants import Settings

from ggufc.backends.llvm.isa import isa_named
from ggufc.compiler.costs import function_cost, op_cost
from ggufc.ir import Function
from ggufc.profiling.bounds import unit_of
from ggufc.profiling.profile import call_sizes, load_program, run_costs
from ggufc.profiling.workload import Call
from ggufc.runtime.bundle import Bundle


def graph_work(path: Path, isa: str, sizes: Settings) -> dict[str, Any]:
    """Bytes of weights of a decode step, operations of the prefill and the unit that most of them
    run on, and bytes of the cache that a step reads after a short and after a long text."""
    bundle = Bundle.open(path)
    functions = load_program(bundle, isa).functions
    prefill, decode = functions["prefill"], functions["decode"]
    calls = prefill_calls(sizes.prompt, bundle.manifest.limits.tokens)
    costs = run_costs(prefill, calls)
    return {
        "decode_weight_bytes": step_cost(decode, sizes.generate // 2)[0],
        "prefill_flops": sum(cost.flops for cost in costs),
        "prefill_unit": main_unit(prefill, isa, calls[0]),
        "kv_bytes_short": step_cost(decode, sizes.depth + sizes.steps // 2)[1],
        "kv_bytes_long": step_cost(decode, sizes.long + sizes.steps // 2)[1],
    }


def prefill_calls(tokens: int, most: int) -> list[Call]:
    """The calls of a prefill, to be counted only."""
    return [
        Call("prefill", min(most, tokens - at), at, int(at + most >= tokens), lambda: None)
        for at in range(0, tokens, most)
    ]


def step_cost(decode: Function, position: int) -> tuple[int, int]:
    """Bytes of weights and of states of one sequence's step at a position."""
    cost = function_cost(decode, call_sizes(Call("decode", 1, position, 1, lambda: None)))
    return cost.weight_bytes, cost.state_bytes


def main_unit(function: Function, isa: str, call: Call) -> str:
    """The unit that most of a call's operations run on."""
    flops, sizes = Counter[str](), call_sizes(call)
    for op in function.ops:
        flops[unit_of(op, isa_named(isa))] += op_cost(op, sizes).flops
    return flops.most_common(1)[0][0]
