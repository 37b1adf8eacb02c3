"""The functions of a graph: one that every thread runs, and the exported one that starts it.

The first calls the kernels in order with constant offsets into the arena and the weights, and a
barrier where one is needed; the second checks the call, posts the graph to the pool and runs it as
thread 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ggufc.backends.llvm.abi import ABI_VERSION, INPUT_FIELDS, ReturnCode, field_offset
from ggufc.backends.llvm.barriers import barriers
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import I1, I32, I64, PTR, VOID, Function, Val
from ggufc.backends.llvm.kernel_builder import Module as LlvmModule
from ggufc.backends.llvm.machine import clock
from ggufc.backends.llvm.placement import ARENA, LOGITS, value_place, weight_offset
from ggufc.backends.llvm.signatures import run_time_dimension
from ggufc.backends.llvm.states import state_limits
from ggufc.backends.llvm.threading import barrier, run_on_all
from ggufc.ir import Function as IrFunction
from ggufc.ir import Module, Op, State, Symbol, Value, Weight

GRAPH_PARAMS = (("call", PTR), ("tid", I64), ("threads", I64), ("pool", PTR))
_CONTEXT_UNIT = 64
_COUNTERS = {"tokens": "n_tokens", "rows": "n_rows"}


class Graph:
    """The function that every thread runs for one call of a graph."""

    def __init__(self, out: LlvmModule, isa: Isa, module: Module, function: IrFunction) -> None:
        self._isa, self._function = isa, function
        self._state_index = {state: i for i, state in enumerate(module.states.values())}
        self.f: Function = out.function(f"graph.{function.name}", GRAPH_PARAMS)
        self._fields: dict[str, Val] = {}
        self._states: dict[State, Val] = {}
        self._counters = _symbol_counters(function)

    def emit(self, kernels: Sequence[str | None]) -> None:
        """Write the body: `kernels` has the name of each op's kernel, None for a view."""
        f = self.f
        tid, threads, pool = (f.arg(name) for name in ("tid", "threads", "pool"))
        self._load_operands()
        profile = f.select(tid.eq(0), self._field("profile"), f.null())
        needed = barriers(self._function)
        for index, (op, name) in enumerate(zip(self._function.ops, kernels, strict=True)):
            if index in needed:
                barrier(f, pool, tid, threads)
            self._stamp(profile, index)
            if name is not None:
                self._call_kernel(op, name)
        barrier(f, pool, tid, threads)
        self._stamp(profile, len(kernels))
        f.ret()

    def _load_operands(self) -> None:
        """Load once what the calls of kernels need of the call record."""
        for name in ("weights", ARENA, LOGITS, "n_tokens", "n_rows", "context", *INPUT_FIELDS):
            self._field(name)
        table = self._field("states")
        for state, index in self._state_index.items():
            self._states[state] = self.f.load(table, PTR, 8 * index)

    def _field(self, name: str) -> Val:
        if name not in self._fields:
            is_number = name.startswith("n_") or name == "context"
            kind = I64 if is_number else PTR
            self._fields[name] = self.f.load(self.f.arg("call"), kind, field_offset(name))
        return self._fields[name]

    def _call_kernel(self, op: Op, name: str) -> None:
        pointers = [self._pointer(leaf) for leaf in (*op.leaves(), *op.results)]
        tail = [self._count(run_time_dimension(op)), self._field("context")]
        tail += [self.f.arg(parameter) for parameter in ("tid", "threads", "pool")]
        self.f.call(f'@"{name}"', VOID, [*pointers, *tail])

    def _pointer(self, leaf: Value | Weight | State) -> Val:
        if isinstance(leaf, State):
            return self._states[leaf]
        if isinstance(leaf, Weight):
            return self._field("weights") + weight_offset(leaf)
        place = value_place(self._function, leaf)
        return self._field(place.space) + place.start

    def _count(self, dimension: Symbol | int) -> Val:
        if isinstance(dimension, Symbol):
            return self._field(self._counters[dimension])
        return self.f.const(I64, dimension)

    def _stamp(self, profile: Val, index: int) -> None:
        """Thread 0 notes the time before each op and at the end, where a profile is wanted.

        It does so after the barrier: an op takes as long as its slowest thread.
        """
        with self.f.if_(profile.ne(self.f.null())):
            self.f.store(clock(self.f, self._isa), profile, 8 * index)


def _symbol_counters(function: IrFunction) -> dict[Symbol, str]:
    """The field of the call that holds each symbol's run-time value."""
    return {
        symbol: _COUNTERS[value.name]
        for value in function.inputs
        if value.name in _COUNTERS
        for symbol in value.type.symbols()
    }


def define_version(out: LlvmModule) -> None:
    """`i64 ggufc_abi_version()`."""
    out.function("ggufc_abi_version", [], I64, exported=True).ret(ABI_VERSION)


def define_entry(out: LlvmModule, module: Module, function: IrFunction, graph: str) -> None:
    """`i32 ggufc_<function>(call)`: refuse what the code was not compiled for, else run `graph`."""
    f = out.function(f"ggufc_{function.name}", [("call", PTR)], I32, exported=True)
    call = f.arg("call")
    for code, refused in _checks(f, call, module, function).items():
        with f.if_(refused):
            f.ret(int(code))
    run_on_all(f, graph, call, f.load(call, PTR, field_offset("pool")))
    f.ret(int(ReturnCode.OK))


def _checks(
    f: Function, call: Val, module: Module, function: IrFunction
) -> Mapping[ReturnCode, Val]:
    """For each code of refusal, the i1 that says whether it applies."""

    def field(name: str) -> Val:
        return f.load(call, I64, field_offset(name))

    def outside(value: Val, low: int, high: int) -> Val:
        return (value < low) | (value > high)

    maxima = _maxima(module, function)
    n_tokens, n_rows, context = field("n_tokens"), field("n_rows"), field("context")
    padded = -(-maxima["context"] // _CONTEXT_UNIT) * _CONTEXT_UNIT
    rows = n_rows.ne(n_tokens) if "n_rows" not in maxima else outside(n_rows, 0, maxima["n_rows"])
    misaligned = f.const(I1, 0)
    for name in ("weights", ARENA, "pool"):
        pointer = field(name)
        misaligned = misaligned | pointer.eq(0) | (pointer & 63).ne(0)
    return {
        ReturnCode.ABI_VERSION: field("abi_version").ne(ABI_VERSION),
        ReturnCode.N_TOKENS: outside(n_tokens, 1, maxima["n_tokens"]),
        ReturnCode.N_ROWS: rows,
        ReturnCode.CONTEXT: outside(context, _CONTEXT_UNIT, padded)
        | (context % _CONTEXT_UNIT).ne(0),
        ReturnCode.N_SEQUENCES: outside(field("n_sequences"), 1, maxima["n_sequences"]),
        ReturnCode.ALIGNMENT: misaligned,
    }


def _maxima(module: Module, function: IrFunction) -> dict[str, int]:
    """The compiled maximum of each count; where no state depends on it, any context, or number of
    sequences, will do."""
    counters = {name: symbol.max for symbol, name in _symbol_counters(function).items()}
    limits = state_limits(module)
    unlimited = 1 << 40
    return {
        "n_tokens": 1,
        **counters,
        "context": limits.get("C", unlimited),
        "n_sequences": limits.get("S", unlimited),
    }
