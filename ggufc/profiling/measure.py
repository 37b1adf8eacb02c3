"""Measuring what this machine can do, by the probes of `ggufc.backends.llvm.probes`.

A limit is what the best of several runs reached: anything slower was disturbed.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ggufc.backends.llvm.isa import isa_named
from ggufc.backends.llvm.jit import NativeLibrary
from ggufc.backends.llvm.probes import DATA_BYTES, READ_UNIT, READS, SINK_BYTES, compile_probes
from ggufc.runtime.memory import Bytes, address, allocate

MEMORY_BYTES, LEAST_BYTES = 1 << 30, 64 << 20
CACHE_BYTES = 2 << 20
CACHE_PASSES = 100
READ_RUNS, UNIT_RUNS = 6, 8
UNIT_SECONDS = 0.03
TRIAL_ROUNDS = 20_000

Task = Callable[[int], None]


class ProbeLibrary:
    """The probes of an instruction set, loaded."""

    def __init__(self, isa: str) -> None:
        """Raises CodegenError where this machine does not run the instruction set."""
        probes = compile_probes(isa_named(isa))
        self.units = probes.units
        self._library = NativeLibrary(probes.object, isa_named(isa), probes.symbols)
        self.clock = ctypes.CFUNCTYPE(ctypes.c_uint64)(self._library.address("probe_clock"))

    def function(self, name: str) -> Callable[[int, int, int], None]:
        """A probe: data, how much, and where results go."""
        kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        return ctypes.CFUNCTYPE(None, *kinds)(self._library.address(f"probe_{name}"))


def measure_limits(isa: str, threads: int) -> tuple[dict[str, float], dict[str, float]]:
    """Bytes per second by place, operations per second by unit, of all threads together."""
    library = ProbeLibrary(isa)
    read = {
        "2m": read_speed(library, threads, huge=True),
        "4k": read_speed(library, threads, huge=False),
        "cache": cache_speed(library, threads),
    }
    return read, {unit: unit_speed(library, unit, threads) for unit in library.units}


def on_threads(threads: int, task: Task) -> float:
    """Seconds until `task(index)` has run on all threads, which begin at once."""
    ready = threading.Barrier(threads)
    begun, ended = [0.0] * threads, [0.0] * threads

    def work(index: int) -> None:
        ready.wait()
        begun[index] = time.perf_counter()
        task(index)
        ended[index] = time.perf_counter()

    others = [threading.Thread(target=work, args=(i,)) for i in range(1, threads)]
    for other in others:
        other.start()
    work(0)
    for other in others:
        other.join()
    return max(ended) - min(begun)


def read_speed(library: ProbeLibrary, threads: int, *, huge: bool) -> float:
    """Bytes per second of reading a gigabyte once, each thread its own part."""
    area = touched(memory_bytes(), huge=huge)
    part = len(area) // threads // READ_UNIT * READ_UNIT
    starts = [address(area) + i * part for i in range(threads)]
    return best_read(library, starts, part, runs=READ_RUNS)


def cache_speed(library: ProbeLibrary, threads: int) -> float:
    """Bytes per second of reading 2 MB a thread, which stay in a cache."""
    area = touched(CACHE_BYTES * threads, huge=True)
    starts = [address(area) + i * CACHE_BYTES for i in range(threads)]
    return best_read(library, starts, CACHE_BYTES, runs=2, passes=CACHE_PASSES)


def touched(nbytes: int, *, huge: bool) -> Bytes:
    """Memory that is there."""
    area = allocate(nbytes, huge=huge)
    area[:] = 1
    return area


def memory_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """How much to read: a gigabyte, or a quarter of what is free if that is less."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        lines = []
    free = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return max(LEAST_BYTES, min(MEMORY_BYTES, *(amount // 4 for amount in free), MEMORY_BYTES))


def best_read(
    library: ProbeLibrary, starts: list[int], part: int, *, runs: int, passes: int = 1
) -> float:
    """Bytes per second of all threads by the best way to read."""
    sinks = allocate(SINK_BYTES * len(starts))
    best = 0.0
    for name in READS:
        probe = library.function(name)

        def task(index: int, probe: Callable[[int, int, int], None] = probe) -> None:
            for _ in range(passes):
                probe(starts[index], part, address(sinks) + index * SINK_BYTES)

        seconds = min(on_threads(len(starts), task) for _ in range(runs))
        best = max(best, passes * part * len(starts) / seconds)
    return best


def unit_speed(library: ProbeLibrary, unit: str, threads: int) -> float:
    """Operations per second of a unit on all threads."""
    probe, data = library.function(unit), unit_data(unit)
    sinks = allocate(SINK_BYTES * threads)

    def seconds(rounds: int) -> float:
        return on_threads(
            threads,
            lambda index: probe(address(data), rounds, address(sinks) + index * SINK_BYTES),
        )

    rounds = max(1, int(TRIAL_ROUNDS * UNIT_SECONDS / max(seconds(TRIAL_ROUNDS), 1e-6)))
    best = min(seconds(rounds) for _ in range(UNIT_RUNS))
    return library.units[unit] * rounds * threads / best


def unit_data(unit: str) -> Bytes:
    """Random numbers of the type that a unit multiplies."""
    random, out = np.random.default_rng(0), allocate(DATA_BYTES)
    if unit.startswith("int8"):
        out[:] = random.integers(0, 256, DATA_BYTES, np.uint8)
    elif unit.startswith("bf16"):
        values = random.standard_normal(DATA_BYTES // 2, np.float32)
        out.view(np.uint16)[:] = values.view(np.uint32) >> 16
    else:
        out.view(np.float32)[:] = random.random(DATA_BYTES // 4, np.float32) * np.float32(0.5)
    return out
