"""Running a compiled object in this process: loading, the thread pool, and the two graphs on NumPy
arrays.

For tests and for `verify`; a bundle is run by `ggufc.runtime`, which may not import this package.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Self

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt

from ggufc.backends.base import CompiledObject, Integers, Logits
from ggufc.backends.llvm.abi import ABI_VERSION, CALL_FIELDS, EXPORTS, INPUT_FIELDS, ReturnCode
from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.optimize import CodegenError
from ggufc.backends.llvm.states import (
    CONTEXT_MULTIPLE,
    state_bytes,
    state_layouts,
    state_limits,
    unpack_state,
)
from ggufc.ir import Function, Module, round_up
from ggufc.ir.interpreter import sequence_lengths
from ggufc.ir.numerics import array_type

Bytes = npt.NDArray[np.uint8]

_names = itertools.count()
_I64, _PTR = ctypes.c_int64, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ggufc_abi_version": (_I64,),
    "ggufc_pool_bytes": (_I64, _I64),
    "ggufc_pool_init": (None, _PTR, _I64),
    "ggufc_worker": (None, _PTR, _I64),
    "ggufc_pool_close": (None, _PTR),
    "ggufc_prefill": (ctypes.c_int32, _PTR),
    "ggufc_decode": (ctypes.c_int32, _PTR),
    "ggufc_embed": (ctypes.c_int32, _PTR),
}


def aligned_bytes(nbytes: int) -> Bytes:
    """Zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


@cache
def _linker() -> llvm.orcjit.LLJIT:
    """LLVM's linker, one for the process: it takes longer to make than an object to link."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


class NativeLibrary:
    """An object linked into this process; `symbols` are the names to look up in it."""

    def __init__(self, content: bytes, isa: Isa, symbols: Sequence[str] = EXPORTS) -> None:
        if isa.name not in host_isas():
            offered = ", ".join(host_isas()) or "none"
            raise CodegenError(f"this machine cannot run {isa.name} code; it runs {offered}")
        builder = llvm.JITLibraryBuilder().add_object_img(content)
        for symbol in {*symbols, *(name for name in EXPORTS if "pool" in name or "worker" in name)}:
            builder.export_symbol(symbol)
        # The tracker owns the code: it must live as long as anyone who may call it.
        self._tracker = builder.link(_linker(), f"ggufc.{next(_names)}")

    def address(self, symbol: str) -> int:
        """Where a symbol lies."""
        return int(self._tracker[symbol])

    def function(self, symbol: str) -> Any:
        """An exported function of the C interface, callable."""
        return ctypes.CFUNCTYPE(*_SIGNATURES[symbol])(self.address(symbol))

    def pool(self, threads: int) -> NativePool:
        """A started pool; the caller closes it."""
        return NativePool(self, threads)


class NativePool:
    """The memory of a pool and its workers, which are Python threads inside `ggufc_worker`."""

    def __init__(self, library: NativeLibrary, threads: int) -> None:
        self._library = library
        self._memory = aligned_bytes(library.function("ggufc_pool_bytes")(threads))
        library.function("ggufc_pool_init")(self.address, threads)
        work = library.function("ggufc_worker")
        self._workers = [
            threading.Thread(target=work, args=(self.address, i), name=f"ggufc {i}", daemon=True)
            for i in range(1, threads)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def address(self) -> int:
        """Where the pool lies, as calls name it."""
        return self._memory.ctypes.data

    def close(self) -> None:
        """End the workers and wait for them; closing twice does nothing."""
        if self._workers:
            self._library.function("ggufc_pool_close")(self.address)
        for worker in self._workers:
            worker.join()
        self._workers = []


class NativeBackend:
    """A compiled module with weights and states, run on `threads` threads of this process.

    `weights` is the packed file that the module's weights have their offsets in. `context` and
    `sequences` default to the compiled maximum; the context is rounded up to a multiple of 64.
    """

    def __init__(
        self,
        compiled: CompiledObject,
        module: Module,
        weights: Bytes,
        *,
        threads: int = 1,
        context: int | None = None,
        sequences: int | None = None,
    ) -> None:
        self._module = module
        graphs = [f"ggufc_{name}" for name in module.functions]
        library = NativeLibrary(compiled.object, isa_named(compiled.isa), graphs)
        self._functions = {n: library.function(f"ggufc_{n}") for n in module.functions}
        self._weights = aligned_bytes(len(weights))
        self._weights[:] = weights
        self._arena = aligned_bytes(max(compiled.arena_bytes, 1))
        limits = state_limits(module)
        self._context = round_up(context or limits.get("C", CONTEXT_MULTIPLE), CONTEXT_MULTIPLE)
        self._sequences = sequences or limits.get("S", 1)
        self._layouts = state_layouts(module)
        self._states = {name: self._new_state(name) for name in module.states}
        self._table = np.array([s.ctypes.data for s in self._states.values()] or [0], np.uint64)
        self._pool = library.pool(threads)

    def _new_state(self, name: str) -> Bytes:
        if name not in self._layouts:
            return aligned_bytes(0)  # no op uses it
        return aligned_bytes(state_bytes(self._layouts[name], self._sequences, self._context))

    def state(self, name: str) -> npt.NDArray[Any]:
        """A copy of a state as the IR has it; a cache is [sequences, context, heads, width]."""
        layout = self._layouts[name]
        memory = self._states[name].view(array_type(layout.element))
        return unpack_state(layout, memory, self._sequences, self._context)

    def prefill(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """Consecutive tokens of one sequence; the logits of those that `rows` names."""
        return self._run("prefill", tokens, positions, sequences, rows)

    def decode(self, tokens: Integers, positions: Integers, sequences: Integers) -> Logits:
        """One token each of distinct sequences; the logits of all."""
        rows = np.arange(len(tokens), dtype=np.int32)
        return self._run("decode", tokens, positions, sequences, rows)

    def embed(
        self, tokens: Integers, positions: Integers, sequences: Integers, rows: Integers
    ) -> Logits:
        """As `prefill`, the embeddings of the tokens; without a cache, of whole texts, each with a
        number of its own in `sequences`."""
        return self._run("embed", tokens, positions, sequences, rows)

    def call(
        self,
        name: str,
        *inputs: Integers,
        profile: npt.NDArray[np.uint64] | None = None,
        changes: Mapping[str, int] | None = None,
    ) -> tuple[int, Logits]:
        """The return code and logits of one call, unchecked; `changes` go into its fields."""
        arrays = [np.ascontiguousarray(a, np.int32) for a in inputs]
        arrays.append(sequence_lengths(arrays[1], arrays[2]))
        logits = np.zeros((len(arrays[3]), output_width(self._module.functions[name])), np.float32)
        fields = self._fields(arrays, logits)
        fields["profile"] = 0 if profile is None else profile.ctypes.data
        fields |= changes or {}
        record = np.array([fields[field] for field in CALL_FIELDS], np.uint64)
        return int(self._functions[name](record.ctypes.data)), logits

    def _fields(self, arrays: list[Integers], logits: Logits) -> dict[str, int]:
        pointers = {n: a.ctypes.data for n, a in zip(INPUT_FIELDS, arrays, strict=True)}
        return {
            **pointers,
            "abi_version": ABI_VERSION,
            "weights": self._weights.ctypes.data,
            "arena": self._arena.ctypes.data,
            "states": self._table.ctypes.data,
            "logits": logits.ctypes.data,
            "n_tokens": len(arrays[0]),
            "n_rows": len(arrays[3]),
            "context": self._context,
            "n_sequences": self._sequences,
            "pool": self._pool.address,
        }

    def _run(self, name: str, *inputs: Integers) -> Logits:
        code, logits = self.call(name, *inputs)
        if code != ReturnCode.OK:
            raise CodegenError(f"ggufc_{name} refused its call: {ReturnCode(code).name.lower()}")
        return logits

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def output_width(function: Function) -> int:
    """The width of the one output of a function."""
    (output,) = function.outputs
    return output.type.max_shape[-1]
