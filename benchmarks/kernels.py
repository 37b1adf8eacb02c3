"""Measure the linear kernels alone: weight bytes per second in decode, operations per second in
prefill.

    python benchmarks/kernels.py [--isa NAME] [--types q4_0 q4_k ...] [--threads 1 2]

"hot" streams a matrix that stays in the second-level cache, "memory" one of 256 MB on huge pages;
both for one token. Prefill multiplies 512 tokens. Figures are those of the shortest of several
runs; "read" is what NumPy's maximum over the same 256 MB reaches.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm import codegen
from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.jit import NativeLibrary
from ggufc.backends.llvm.kernel import OperandSignature, OpSignature
from ggufc.backends.llvm.kernel_builder import Module
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.layouts import GROUP_ROWS, layout_for, pack
from ggufc.backends.llvm.object_code import emit_object
from ggufc.backends.llvm.optimize import data_layout, parse, run_passes, target_machine
from ggufc.backends.llvm.threading import define_pool
from ggufc.ir import QUANTS, Symbol, TensorType
from ggufc.ir.types import dtype

Bytes = npt.NDArray[np.uint8]
TYPES = ("q4_0", "q4_1", "q5_0", "q8_0", "q4_k", "q5_k", "q6_k")
SHAPES = ((512, 1536), (1024, 3072), (2048, 8192))  # K, N
TOKENS = 512
MEMORY_BYTES = 256 << 20
HOT_BYTES, HOT_CALLS = 512 << 10, 100
HUGE_PAGE = 2 << 20


def huge(nbytes: int) -> Bytes:
    """Memory at a multiple of 2 MB that the system may back with huge pages."""
    area = mmap.mmap(-1, nbytes + HUGE_PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE
    return whole[start : start + nbytes]


def shortest(run: Callable[[], None], seconds: float = 0.5, at_least: int = 5) -> float:
    """Seconds of the shortest of the runs that fit in a time."""
    best, began, runs = float("inf"), time.perf_counter(), 0
    while runs < at_least or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run()
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return best


def on_threads(threads: int, work: Callable[[int], Any]) -> None:
    """Call `work(tid)` on every thread at once and wait."""
    others = [threading.Thread(target=work, args=(tid,)) for tid in range(1, threads)]
    for other in others:
        other.start()
    work(0)
    for other in others:
        other.join()


class Linear:
    """A loaded `linear` kernel of one weight [n, k]."""

    def __init__(self, isa: Isa, type_name: str, n: int, k: int, phase: Any) -> None:
        self.n, self.k, self.type_name = n, k, type_name
        tokens = Symbol("T", TOKENS)
        x = OperandSignature("x", "value", TensorType((tokens, k), dtype(multiplied(isa, phase))))
        weight = TensorType((n, k), dtype(type_name))
        layout = layout_for(type_name).name
        operands = (x, OperandSignature("weights", "weight", weight, layout))
        result = TensorType((tokens, n), dtype("f32"))
        signature = OpSignature("linear", (), operands, (result,), phase)
        module = Module("bench", isa.triple, data_layout(isa))
        codegen.emit_kernel(module, "bench", signature, isa, exported=True)
        define_pool(module, isa)
        parsed, machine = parse(module.text()), target_machine(isa)
        run_passes(parsed, machine)
        self._library = NativeLibrary(emit_object(parsed, machine), isa, ("bench",))
        kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 4 + [ctypes.c_void_p]
        self._function = ctypes.CFUNCTYPE(None, *kinds)(self._library.address("bench"))

    def run(self, x: Bytes, weight: Bytes, out: Bytes, tokens: int, threads: int) -> None:
        """One call on all threads."""
        pointers = [array.ctypes.data for array in (x, weight, out)]
        on_threads(threads, lambda tid: self._function(*pointers, tokens, 0, tid, threads, None))


def random_packed(type_name: str, n: int, k: int) -> Bytes:
    """A packed matrix of random blocks."""
    rng, quant = np.random.default_rng(0), QUANTS[type_name]
    raw = rng.integers(0, 256, n * quant.nbytes(k), np.uint8)
    blocks = raw.view(quant.fields)
    for scale in {"d", "m", "dmin"} & set(quant.fields.names or ()):
        blocks[scale] = 0.01
    packed = pack(type_name, raw, n, k)
    out = huge(packed.size)
    out[:] = packed
    return out


def multiplied(isa: Isa, phase: str) -> str:
    """The element type of activations in a phase."""
    return "bf16a" if phase == "prefill" and isa.prefill_compute == "bf16" else "q8a"


def bf16_activations(k: int) -> Bytes:
    """Rows of normal values; products of zeros would be faster than those of others."""
    values = np.random.default_rng(1).standard_normal((TOKENS, k), np.float32)
    out = huge(TOKENS * dtype("bf16a").nbytes(k)).view(np.uint16).reshape(TOKENS, -1)
    out[:, :k] = values.view(np.uint32) >> 16
    return out.view(np.uint8)


def quantized_activations(k: int) -> Bytes:
    """Rows of q8a with random codes and small scales; their sums are zero, which costs the same."""
    row, rng = Q8aRow(k), np.random.default_rng(1)
    out = huge(TOKENS * row.stride).reshape(TOKENS, row.stride)
    out[:] = 0
    out[:, :k] = rng.integers(-127, 128, (TOKENS, k), np.int8).view(np.uint8)
    out[:, row.scales : row.scales + k // 8].view(np.float32)[:] = 0.01
    return out


def decode_speed(isa: Isa, type_name: str, threads: int, *, memory: bool) -> float:
    """Weight bytes per second of one token, in GB/s."""
    k = 2048
    slab_rows = HOT_BYTES // layout_for(type_name).group_bytes(k) * GROUP_ROWS
    slab = random_packed(type_name, slab_rows, k)
    copies = MEMORY_BYTES // slab.size if memory else 1
    weight = huge(copies * slab.size)
    weight.reshape(copies, -1)[:] = slab
    kernel = Linear(isa, type_name, copies * slab_rows, k, "decode")
    x, out = quantized_activations(k), huge(copies * slab_rows * 4)
    if memory:
        seconds = shortest(lambda: kernel.run(x, weight, out, 1, threads), 1.5)
        return weight.size / seconds / 1e9

    def repeat(tid: int) -> None:
        for _ in range(HOT_CALLS):
            kernel.run(x, weight, out, 1, 1)

    seconds = shortest(lambda: on_threads(threads, repeat), 1.5)
    return threads * HOT_CALLS * weight.size / seconds / 1e9


def prefill_speed(isa: Isa, type_name: str, k: int, n: int, threads: int) -> float:
    """Operations per second of 512 tokens, in TOPS."""
    kernel = Linear(isa, type_name, n, k, "prefill")
    bf16 = multiplied(isa, "prefill") == "bf16a"
    x = bf16_activations(k) if bf16 else quantized_activations(k)
    weight, out = random_packed(type_name, n, k), huge(TOKENS * n * 4)
    seconds = shortest(lambda: kernel.run(x, weight, out, TOKENS, threads))
    return 2 * TOKENS * n * k / seconds / 1e12


def read_speed(threads: int) -> float:
    """Bytes per second that reading memory reaches, in GB/s."""
    area = huge(MEMORY_BYTES)
    area[:] = 1
    parts = np.array_split(area.view(np.int64), threads)
    return area.size / shortest(lambda: on_threads(threads, lambda tid: parts[tid].max())) / 1e9


def main() -> None:
    """Print one line for each type and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--isa", default=host_isas()[0], help="instruction set to measure")
    parser.add_argument("--types", nargs="+", default=TYPES, help="element types of the weights")
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    args = parser.parse_args()
    isa = isa_named(args.isa)
    print(isa.name, *(f"read {t}T {read_speed(t):.1f} GB/s" for t in args.threads), sep="  ")
    shapes = "".join(f"{f'{k}x{n}':>12}" for k, n in SHAPES)
    print(f"{'type':6}{'threads':>8}{'hot GB/s':>10}{'memory GB/s':>12}   prefill TOPS{shapes}")
    for type_name in args.types:
        for threads in args.threads:
            hot, memory = (
                decode_speed(isa, type_name, threads, memory=memory) for memory in (False, True)
            )
            figures = [prefill_speed(isa, type_name, k, n, threads) for k, n in SHAPES]
            cells = "".join(f"{figure:12.3f}" for figure in figures)
            line = f"{type_name:6}{threads:8}{hot:10.1f}{memory:12.1f}{'':15}{cells}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
