"""A program that stresses the pool of generated code: `python -m pool_program THREADS CALLS ROUNDS
DELAY`.

Each call runs a graph of ROUNDS rounds on all threads: write the round's number to the thread's own
line, barrier, check that every thread's line has it, wait a random time of at most 2^DELAY pauses,
barrier. Prints what it counted as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time

import numpy as np

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.jit import NativeLibrary
from ggufc.backends.llvm.kernel_builder import I64, PTR, Function, Module, Val
from ggufc.backends.llvm.machine import pause
from ggufc.backends.llvm.object_code import emit_object
from ggufc.backends.llvm.optimize import parse, run_passes, target_machine
from ggufc.backends.llvm.threading import barrier, define_pool, run_on_all

LINE = 64
ROUNDS, DELAY, FAILURES, LINES = 0, 8, 16, 64
_GRAPH_PARAMS = [("call", PTR), ("tid", I64), ("threads", I64), ("pool", PTR)]


def _count_stale(f: Function, lines: Val, threads: Val, value: Val) -> Val:
    stale = f.var(I64, 0)
    with f.loop(threads, name="thread") as other:
        found = f.load(lines + other * LINE, I64)
        stale.set(stale.get() + found.ne(value).zext(I64))
    return stale.get()


def _delay(f: Function, isa: Isa, seed: Val, bits: Val) -> None:
    """Pause for a time that looks random, different for each thread and round."""
    mixed = (seed * 6364136223846793005) >> 40
    mask = (f.const(I64, 1) << bits) - 1
    with f.if_((mixed & 7).eq(0)), f.loop(mixed & mask, name="delay"):
        pause(f, isa)


def stress_module(isa: Isa) -> str:
    """LLVM text of the graph and of `stress(call, pool)`, which runs it."""
    module = Module("stress", isa.triple)
    define_pool(module, isa)
    f = module.function("graph.stress", _GRAPH_PARAMS)
    call, tid, threads, pool = (f.arg(name) for name, _ in _GRAPH_PARAMS)
    lines = call + LINES
    with f.loop(f.load(call, I64, ROUNDS), name="round") as i:
        f.store(i + 1, lines + tid * LINE)
        barrier(f, pool, tid, threads)
        stale = _count_stale(f, lines, threads, i + 1)
        with f.if_(stale.ne(0)):
            f.store(stale, call, FAILURES)
        _delay(f, isa, i * 64 + tid, f.load(call, I64, DELAY))
        barrier(f, pool, tid, threads)
    barrier(f, pool, tid, threads)
    f.ret()
    entry = module.function("stress", [("call", PTR), ("pool", PTR)], exported=True)
    run_on_all(entry, f.ref, entry.arg("call"), entry.arg("pool"))
    entry.ret()
    return module.text()


def load(isa: Isa) -> NativeLibrary:
    """Compile and load the stress program for this machine."""
    machine = target_machine(isa)
    module = parse(stress_module(isa))
    run_passes(module, machine)
    return NativeLibrary(emit_object(module, machine), isa, ("stress",))


def run(
    threads: int, calls: int, rounds: int, delay: int, isa: str | None = None
) -> dict[str, float]:
    """Run the stress and say how many failures there were and how long it took."""
    library = load(isa_named(isa or host_isas()[0]))
    pool = library.pool(threads)
    call = np.zeros(LINES // 8 + threads * LINE // 8 + 8, np.int64)
    call[ROUNDS // 8], call[DELAY // 8] = rounds, delay
    stress = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("stress"))
    start = time.perf_counter()
    for i in range(calls):
        stress(call.ctypes.data, pool.address)
        if i % 64 == 63:
            time.sleep(0.002)  # long enough for the workers to fall asleep
    seconds = time.perf_counter() - start
    pool.close()
    alive = sum(t.name.startswith("ggufc") for t in threading.enumerate())
    return {"failures": int(call[FAILURES // 8]), "alive": alive, "seconds": seconds}


if __name__ == "__main__":
    threads, calls, rounds, delay = map(int, sys.argv[1:])
    print(json.dumps(run(threads, calls, rounds, delay)))
