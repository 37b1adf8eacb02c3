"""A program that stresses the sharing of work: `python -m shares_program THREADS CALLS DELAY`.

Each call runs a graph that shares out one op's work after another, without a barrier between them:
every piece of work adds 1 to its own counter, and now and then waits a random time of at most
2^DELAY pauses. Prints as JSON how many counters are not 1, and how many pieces every thread did.
"""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.jit import NativeLibrary
from ggufc.backends.llvm.kernel_builder import I32, I64, PTR, Function, Module, Val
from ggufc.backends.llvm.machine import pause
from ggufc.backends.llvm.object_code import emit_object
from ggufc.backends.llvm.optimize import parse, run_passes, target_machine
from ggufc.backends.llvm.shares import shares
from ggufc.backends.llvm.threading import barrier, define_pool, run_on_all

# Pieces of each op, and the multiple that parts are of.
OPS = ((1, 1), (0, 1), (7, 1), (1000, 1), (3, 8), (1000, 8), (257, 16), (0, 4), (64, 64), (999, 5))
_GRAPH_PARAMS = [("call", PTR), ("tid", I64), ("threads", I64), ("pool", PTR)]


def _delay(f: Function, isa: Isa, seed: Val, bits: Val) -> None:
    """Pause for a time that looks random at one piece of 64."""
    mixed = (seed * 6364136223846793005) >> 40
    with f.if_((mixed & 63).eq(0)):
        with f.loop(mixed & ((f.const(I64, 1) << bits) - 1), name="delay"):
            pause(f, isa)


def module_text(isa: Isa) -> str:
    """LLVM text of `share(call, pool)`; a call is i64 DELAY, pointers to the counters of pieces and
    to the threads' counts."""
    module = Module("shares", isa.triple)
    define_pool(module, isa)
    f = module.function("graph.shares", _GRAPH_PARAMS)
    call, tid, threads, pool = (f.arg(name) for name, _ in _GRAPH_PARAMS)
    delay, counters, done = f.load(call, I64), f.load(call, PTR, 8), f.load(call, PTR, 16)
    start = 0
    for count, smallest in OPS:
        with shares(f, pool, tid, threads, f.const(I64, count), smallest) as (begin, end):
            with f.loop(end, begin, name="piece") as piece:
                at = counters + (piece + start) * 4
                f.store(f.load(at, I32) + 1, at)
                _delay(f, isa, (piece + start) * 64 + tid, delay)
            own = done + tid * 64
            f.store(f.load(own, I64) + (end - begin), own)
        start += count
    barrier(f, pool, tid, threads)
    f.ret()
    entry = module.function("share", [("call", PTR), ("pool", PTR)], exported=True)
    run_on_all(entry, f.ref, entry.arg("call"), entry.arg("pool"))
    entry.ret()
    return module.text()


def load(isa: Isa) -> NativeLibrary:
    """Compile and load the program for this machine."""
    machine = target_machine(isa)
    module = parse(module_text(isa))
    run_passes(module, machine)
    return NativeLibrary(emit_object(module, machine), isa, ("share",))


def run(threads: int, calls: int, delay: int, isa: str | None = None) -> dict[str, object]:
    """Run the stress."""
    library = load(isa_named(isa or host_isas()[0]))
    pool = library.pool(threads)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("share"))
    done, failures = np.zeros((threads, 8), np.int64), 0
    for _ in range(calls):
        counters = np.zeros(sum(count for count, _ in OPS), np.int32)
        call = np.array([delay, counters.ctypes.data, done.ctypes.data], np.int64)
        function(call.ctypes.data, pool.address)
        failures += int(np.count_nonzero(counters != 1))
    pool.close()
    return {"failures": failures, "pieces": done[:, 0].tolist()}


if __name__ == "__main__":
    threads, calls, delay = map(int, sys.argv[1:])
    print(json.dumps(run(threads, calls, delay)))
