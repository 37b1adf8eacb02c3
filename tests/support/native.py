"""Build one kernel for one instruction set, load it, and call it with NumPy arrays.

    run = build_kernel(signature, isa_named("x86-64-v3"))
    run(x, weights, out, n=4, threads=2)      # operands in declared order, then results

Threads are called one after another: a kernel without barriers does not notice. Kernels that use
the pool's barrier need `concurrent=True`, which calls each thread id on a thread of its own.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.kernel import EMITTERS, TAIL, Kernel, OpSignature
from ggufc.backends.llvm.kernel_builder import Module
from ggufc.backends.llvm.object_code import emit_assembly, emit_object
from ggufc.backends.llvm.optimize import data_layout, parse, run_passes, target_machine

_names = itertools.count()
_jit: Any = None


def aligned(shape: int | tuple[int, ...], dtype: Any, fill: float = 0) -> np.ndarray[Any, Any]:
    """An array at a multiple of 64 bytes, as the arena and weights are."""
    count = int(np.prod(shape))
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out: np.ndarray[Any, Any] = raw[start : start + size].view(dtype).reshape(shape)
    out[...] = fill
    return out


def runnable_isas() -> list[Isa]:
    """The instruction sets that this machine can run, most capable first."""
    return [isa_named(name) for name in host_isas()]


def kernel_module(signature: OpSignature, isa: Isa, name: str = "kernel_under_test") -> Module:
    """A module with the kernel of this signature, exported under `name`."""
    module = Module(name, triple=isa.triple, data_layout=data_layout(isa))
    kernel = Kernel(module, f"{name}_body", signature, isa)
    EMITTERS[signature.op](kernel)
    params = kernel.f.params
    thunk = module.function(name, params, exported=True)
    thunk.call(kernel.f.ref, kernel.f.returns, [thunk.arg(param) for param, _ in params])
    return module


def optimized(module: Module, isa: Isa) -> tuple[Any, Any]:
    """The module as code is made of it, and the machine it is made for."""
    machine = target_machine(isa)
    parsed = parse(module.text())
    run_passes(parsed, machine)
    return parsed, machine


def object_code(module: Module, isa: Isa) -> bytes:
    """The object file of a module; fails where it refers to anything outside itself."""
    return emit_object(*optimized(module, isa))


def assembly(module: Module, isa: Isa) -> str:
    """The assembly text of a module."""
    return emit_assembly(*optimized(module, isa))


def load(module: Module, isa: Isa) -> tuple[Any, int]:
    """Link a module into this process: what keeps it alive, and the address of its function."""
    global _jit
    if _jit is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_object_img(object_code(module, isa))
    library = f"test{next(_names)}"
    tracker = builder.export_symbol(module.name).link(_jit, library)
    return tracker, tracker[module.name]


class NativeKernel:
    """A loaded kernel; calling it runs all of its threads."""

    def __init__(self, signature: OpSignature, isa: Isa) -> None:
        self.module = kernel_module(signature, isa)
        self.isa = isa
        self._keep, self.address = load(self.module, isa)
        self._arrays = len(signature.operands) + len(signature.results)
        arguments: list[Any] = [ctypes.c_void_p] * self._arrays
        arguments += [ctypes.c_void_p if t.scalar == "ptr" else ctypes.c_int64 for _, t in TAIL]
        self.function: Callable[..., None] = ctypes.CFUNCTYPE(None, *arguments)(self.address)

    def __call__(
        self,
        *arrays: np.ndarray,
        n: int,
        context: int = 0,
        threads: int = 1,
        pool: int | None = None,
        concurrent: bool = False,
    ) -> None:
        """Arrays are operands in declared order (those present), then results; C-contiguous."""
        if len(arrays) != self._arrays:
            raise TypeError(f"expected {self._arrays} arrays, found {len(arrays)}")
        if not all(a.flags.c_contiguous for a in arrays):
            raise TypeError("arrays must be contiguous")
        pointers = [a.ctypes.data for a in arrays]
        calls = [(*pointers, n, context, tid, threads, pool) for tid in range(threads)]
        if not concurrent:
            for call in calls:
                self.function(*call)
            return
        workers = [Thread(target=self.function, args=call) for call in calls]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


_built: dict[tuple[OpSignature, str], NativeKernel] = {}


def build_kernel(signature: OpSignature, isa: Isa) -> NativeKernel:
    """The loaded kernel of a signature; built once a process."""
    key = (signature, isa.name)
    if key not in _built:
        _built[key] = NativeKernel(signature, isa)
    return _built[key]


def write_assembly(signature: OpSignature, isa: Isa, path: Path) -> None:
    """For looking at: the assembly of one kernel."""
    path.write_text(assembly(kernel_module(signature, isa), isa))
