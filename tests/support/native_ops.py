"""Runs the one function of an op sample as machine code, with all of its threads at once.

Codegen of whole modules goes through the C interface, whose inputs are token ids; a sample has any
inputs. So the same kernels are called here through a table of pointers to values, weights and
states.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ggufc.backends.llvm.codegen import emit_kernel
from ggufc.backends.llvm.entry_points import GRAPH_PARAMS
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.jit import NativeLibrary, aligned_bytes
from ggufc.backends.llvm.kernel import OpSignature
from ggufc.backends.llvm.kernel_builder import I64, PTR, VOID
from ggufc.backends.llvm.kernel_builder import Module as LlvmModule
from ggufc.backends.llvm.layouts import RAW, layout_for, pack_tensor
from ggufc.backends.llvm.object_code import emit_object
from ggufc.backends.llvm.optimize import parse, run_passes, target_machine
from ggufc.backends.llvm.signatures import needs_kernel, run_time_dimension, signature
from ggufc.backends.llvm.states import pack_state, state_layouts, unpack_state
from ggufc.backends.llvm.threading import barrier, define_pool, run_on_all
from ggufc.ir import (
    Function,
    Leaf,
    Module,
    Op,
    Q8aArray,
    State,
    Symbol,
    TensorType,
    Value,
    Weight,
    view_root,
)
from ggufc.ir.numerics import array_type
from tests.support.op_samples import CONTEXT, SEQUENCES, OpSample

Phase = Literal["prefill", "decode"]
Bytes = npt.NDArray[np.uint8]
MATRIX_OPERANDS = {
    "linear": ("weights",),
    "linear_glu": ("gate", "up"),
    "embed": ("table",),
    "expert_linear": ("weight",),
    "expert_glu": ("gate", "up"),
}


def placed(module: Module, phase: Phase) -> Function:
    """The sample's function under the name of a graph, its weights with layouts."""
    function = module.functions["main"]
    function.name = phase
    matrices = {
        leaf
        for op in function.ops
        for name in MATRIX_OPERANDS.get(op.name, ())
        for leaf in _group(op, name)
    }
    for weight in module.weights.values():
        layout = layout_for(weight.type.dtype.name) if weight in matrices else RAW
        weight.layout, weight.offset = layout.name, 0
    return function


def _group(op: Op, name: str) -> tuple[Leaf, ...]:
    operand = op.operands[name]
    return operand if isinstance(operand, tuple) else (operand,)  # type: ignore[return-value]


class NativeSample:
    """One sample compiled for one instruction set and graph, with its memory; with `count`, for a
    run with so many tokens or rows, of the first inputs."""

    def __init__(self, sample: OpSample, isa: Isa, phase: Phase, count: int | None = None) -> None:
        self._sample = sample
        self._count = count
        self._module = sample.module.clone()
        self._function = placed(self._module, phase)
        self._slots = {leaf: i for i, leaf in enumerate(dict.fromkeys(self._leaves()))}
        self._library = self._compile(isa)

    def _leaves(self) -> Iterator[Leaf]:
        yield from self._function.inputs
        for op in self._function.ops:
            yield from map(_root, op.leaves())
            yield from map(_root, op.results)

    def _compile(self, isa: Isa) -> NativeLibrary:
        out = LlvmModule("sample", isa.triple)
        calls = self._emit_kernels(out, isa)
        define_pool(out, isa)
        f = out.function("graph.sample", GRAPH_PARAMS)
        tail = [f.arg(name) for name in ("tid", "threads", "pool")]
        for op, name in calls:
            leaves = [_root(leaf) for leaf in (*op.leaves(), *op.results)]
            pointers = [f.load(f.arg("call"), PTR, 8 * self._slots[leaf]) for leaf in leaves]
            counts = [f.const(I64, self._size(run_time_dimension(op))), f.const(I64, CONTEXT)]
            f.call(f'@"{name}"', VOID, [*pointers, *counts, *tail])
            barrier(f, f.arg("pool"), f.arg("tid"), f.arg("threads"))
        barrier(f, f.arg("pool"), f.arg("tid"), f.arg("threads"))
        entry = out.function("run_sample", [("call", PTR), ("pool", PTR)], exported=True)
        run_on_all(entry, f.ref, entry.arg("call"), entry.arg("pool"))
        machine = target_machine(isa)
        parsed = parse(out.text())
        run_passes(parsed, machine)
        return NativeLibrary(emit_object(parsed, machine), isa, ("run_sample",))

    def _emit_kernels(self, out: LlvmModule, isa: Isa) -> list[tuple[Op, str]]:
        names: dict[OpSignature, str] = {}
        calls = []
        for op in filter(needs_kernel, self._function.ops):
            wanted = signature(self._function, op)
            if wanted not in names:
                names[wanted] = f"kernel.{len(names)}"
                emit_kernel(out, names[wanted], wanted, isa)
            calls.append((op, names[wanted]))
        return calls

    def _size(self, dim: Symbol | int) -> int:
        if not isinstance(dim, Symbol):
            return dim
        if self._count is not None:
            return self._count
        for value in self._function.inputs:
            for position, other in enumerate(value.type.shape):
                if other == dim:
                    return int(self._sample.inputs[value.name].shape[position])
        raise AssertionError(f"no input has the dimension {dim}")

    def run(self, threads: int) -> tuple[list[Any], dict[str, npt.NDArray[Any]]]:
        """The outputs in the interpreter's form, and the states afterwards."""
        memory = {leaf: self._memory(leaf) for leaf in self._slots}
        table = np.array([array.ctypes.data for array in memory.values()], np.uint64)
        pool = self._library.pool(threads)
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        function(self._library.address("run_sample"))(table.ctypes.data, pool.address)
        pool.close()
        self.memory = memory
        outputs = [self._read(memory[_root(v)], v.type) for v in self._function.outputs]
        layouts = state_layouts(self._module)
        states = {
            leaf.name: unpack_state(
                layouts[leaf.name],
                memory[leaf].view(array_type(leaf.type.dtype)),
                SEQUENCES,
                CONTEXT,
            )
            for leaf in self._slots
            if isinstance(leaf, State)
        }
        return outputs, states

    def wrote(self) -> bool:
        """Whether the last run changed a state, or a result that has as many rows as the run."""
        results = [value for op in self._function.ops for value in op.results]
        filled = [_root(v) for v in results if any(isinstance(d, Symbol) for d in v.type.shape)]
        states = [leaf for leaf in self._slots if isinstance(leaf, State)]
        return any((self.memory[v] != self._memory(v)).any() for v in (*filled, *states))

    def _memory(self, leaf: Leaf) -> Bytes:
        """A leaf's bytes as the kernels want them; results are filled with a sign."""
        if isinstance(leaf, Weight):
            return _aligned(self._packed(leaf))
        if isinstance(leaf, State):
            layout = state_layouts(self._module)[leaf.name]
            return _aligned(pack_state(layout, self._sample.states[leaf.name]))
        if leaf in self._function.inputs:
            return _aligned(self._sample.inputs[leaf.name])
        memory = aligned_bytes(leaf.type.max_bytes)
        memory[:] = 0xC5
        return memory

    def _packed(self, weight: Weight) -> Bytes:
        raw = np.frombuffer(self._sample.weights[weight.name], np.uint8)
        if weight.layout == RAW.name:
            return raw
        return pack_tensor(weight.type.dtype.name, raw, weight.type.max_shape)

    def _read(self, memory: Bytes, found: TensorType) -> Any:
        shape = [self._size(dim) for dim in found.shape]
        if found.dtype.name == "q8a":
            return _read_q8a(memory, shape, found.dtype.nbytes(shape[-1]))
        element = array_type(found.dtype)
        if found.dtype.name == "bf16a":
            table = memory.view(element).reshape(-1, found.dtype.nbytes(shape[-1]) // 2)
            return table[: int(np.prod(shape[:-1])), : shape[-1]].reshape(shape)
        return memory.view(element)[: int(np.prod(shape))].reshape(shape)


def _root(leaf: Leaf) -> Leaf:
    return view_root(leaf) if isinstance(leaf, Value) else leaf


def _aligned(array: npt.NDArray[Any]) -> Bytes:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    out = aligned_bytes(max(len(flat), 64))
    out[: len(flat)] = flat
    return out


def _read_q8a(memory: Bytes, shape: list[int], stride: int) -> Q8aArray:
    rows, width = int(np.prod(shape[:-1])), shape[-1]
    padded = -(-width // 256) * 256
    table = memory[: rows * stride].reshape(rows, stride)
    qs = table[:, :width].view(np.int8)
    scales = np.ascontiguousarray(table[:, padded : padded + padded // 8]).view(np.float32)
    at = 13 * padded // 8  # of the residuals, their sums, and which blocks have them
    refined = table[:, at + 5 * padded // 4 :][:, : width // 32]
    rs = table[:, at : at + width].view(np.int8) * np.repeat(refined, 32, axis=1).view(np.int8)
    d = scales[:, : width // 32].reshape(*shape[:-1], width // 32)
    return Q8aArray(qs.reshape(shape), d, rs.reshape(shape))
