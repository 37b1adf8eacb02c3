"""The time of each op of a bundle's graphs.

Thread 0 notes the clock before each op, after the barrier if there is one before it. The time of an
op that a barrier follows is therefore that of its slowest thread; where none follows, it is that
of thread 0, and waiting for the others counts for the next op that has to.
"""

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggufc.compiler.costs import CONTEXT, PAST, Cost, op_cost
from ggufc.ir import Function, IRError, Module, Op, parse_module
from ggufc.profiling.measure import ProbeLibrary
from ggufc.profiling.workload import Call, Workload
from ggufc.runtime.bundle import AGAIN, PLANNED_IR, Bundle
from ggufc.runtime.engine import Engine
from ggufc.runtime.errors import BundleError

Ticks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OpProfile:
    """One op in all calls of a run: seconds and what it had to do."""

    name: str
    op: Op
    seconds: float
    cost: Cost


@dataclass(frozen=True)
class GraphProfile:
    """One run of a graph: `calls` calls with `tokens` tokens in all. `seconds` passed on the wall;
    those of the ops leave out what it takes to call."""

    graph: str
    tokens: int
    calls: int
    seconds: float
    ops: list[OpProfile]


def load_program(bundle: Bundle, isa: str) -> Module:
    """The program that the code of an instruction set runs. Raises BundleError."""
    path = PLANNED_IR.format(isa=isa)
    if all(entry.path != path for entry in bundle.manifest.files):
        raise BundleError(f"{bundle.path}: has no {path}, which names the ops of its code: {AGAIN}")
    try:
        return parse_module(bundle.read(path).decode())
    except (IRError, UnicodeDecodeError) as error:
        raise BundleError(f"{bundle.path / path}: {error}") from None


class Profiler:
    """Profiles the graphs of a loaded bundle."""

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        """Raises BundleError for a bundle without the programs of its code."""
        self._engine = engine
        self._functions = load_program(bundle, engine.isa).functions
        self._probes = ProbeLibrary(engine.isa)
        longest = max(len(function.ops) for function in self._functions.values())
        self._stamps = np.zeros(longest + 1, np.uint64)

    def prefill(self, work: Workload, tokens: int, repetitions: int) -> GraphProfile:
        """The prefill of so many tokens: the median of each op's time over the repetitions."""
        runs = [work.prefill(tokens) for _ in range(repetitions)]
        return self._profile("prefill", runs)

    def decode(self, work: Workload, steps: int, depth: int, repetitions: int) -> GraphProfile:
        """So many steps of decode from a depth on, which the cache has to be filled to."""
        runs = [list(work.decode(steps, depth)) for _ in range(repetitions)]
        return self._profile("decode", runs)

    def _profile(self, graph: str, runs: list[list[Call]]) -> GraphProfile:
        function = self._functions[graph]
        self._engine.profile(self._stamps)
        try:
            started, first = time.perf_counter(), self._probes.clock()
            measured = [self._run(function, calls) for calls in runs]
            rate = (time.perf_counter() - started) / (self._probes.clock() - first)
        finally:
            self._engine.profile(None)
        seconds = np.median([ticks for ticks, _ in measured], axis=0) * rate
        costs = run_costs(function, runs[0])
        ops = zip(function.ops, seconds.tolist(), costs, strict=True)
        return GraphProfile(
            graph,
            sum(call.tokens for call in runs[0]),
            len(runs[0]),
            statistics.median(wall for _, wall in measured),
            [OpProfile(op_name(op), op, spent, cost) for op, spent, cost in ops],
        )

    def _run(self, function: Function, calls: Iterable[Call]) -> tuple[Ticks, float]:
        """Ticks of each op over all calls, and seconds on the wall."""
        count, wall = len(function.ops), 0.0
        ticks = np.zeros(count)
        for call in calls:
            started = time.perf_counter()
            call.run()
            wall += time.perf_counter() - started
            stamps = self._stamps[: count + 1]
            ticks += (stamps[1:] - stamps[:-1]).astype(np.float64)
        return ticks, wall


def op_name(op: Op) -> str:
    """The name of what an op makes; of an op that only writes a state, its first value."""
    return op.results[0].name if op.results else f"{op.name} {op.values()[0].name}"


def call_sizes(call: Call) -> dict[str, int]:
    """The sizes that a call's costs depend on."""
    if call.graph == "decode":
        return {"B": call.tokens, CONTEXT: call.position + 1}
    context = call.position + (call.tokens + 1) // 2
    return {"T": call.tokens, "R": call.rows, PAST: call.position, CONTEXT: context}


def run_costs(function: Function, calls: Iterable[Call]) -> list[Cost]:
    """What each op costs in all calls. Only attention depends on the position of a call."""
    alike: dict[tuple[str, int, int], list[Call]] = {}
    for call in calls:
        alike.setdefault((call.graph, call.tokens, call.rows), []).append(call)
    return [
        sum((_costs_of_alike(op, group) for group in alike.values()), Cost()) for op in function.ops
    ]


def _costs_of_alike(op: Op, calls: list[Call]) -> Cost:
    if "window" in op.attributes:
        return sum((op_cost(op, call_sizes(call)) for call in calls), Cost())
    return op_cost(op, call_sizes(calls[0])) * len(calls)
