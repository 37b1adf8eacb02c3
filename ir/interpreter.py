"""Runs a module with the ops' NumPy references: the definition of what a program means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ggufc.ir.core import Function, Leaf, Module, Op, Operand, State, Value, Weight
from ggufc.ir.errors import IRError
from ggufc.ir.numerics import Array, F32Array, Runtime, array_type
from ggufc.ir.quant_reference import decode
from ggufc.ir.types import Symbol, TensorType

WeightSource = Callable[[Weight], F32Array]
Listener = Callable[[Op, Sequence[Runtime]], None]


@dataclass
class States:
    """The mutable arrays of a module by name, and the sizes that their symbols were given."""

    arrays: dict[str, Array]
    sizes: dict[str, int]


class Interpreter:
    """Runs a module's functions on arrays.

    `weights` gives the float32 array of a weight that comes from a file (computed weights are
    decoded here); `listener` is called after each op with its results.
    """

    def __init__(
        self, module: Module, weights: WeightSource, listener: Listener | None = None
    ) -> None:
        self.module = module
        self.listener = listener
        self._weights = weights
        self._computed: dict[str, F32Array] = {}

    def new_states(self, context: int, sequences: int) -> States:
        """Zeroed states for `sequences` sequences (S) of `context` positions (C)."""
        sizes = {"C": context, "S": sequences}
        arrays = {}
        for state in self.module.states.values():
            shape = _concrete(state.type, sizes, f"state ${state.name}")
            arrays[state.name] = np.zeros(shape, array_type(state.type.dtype))
        return States(arrays, sizes)

    def run(self, function_name: str, inputs: Mapping[str, Array], states: States) -> list[Runtime]:
        """Run a function on arrays by input name; `states` is changed in place.

        Symbols get their sizes from the inputs' shapes; an IRError names an input that is wrong.
        """
        if function_name not in self.module.functions:
            known = ", ".join(self.module.functions)
            raise IRError(f"no function '{function_name}'; the module has {known}")
        function = self.module.functions[function_name]
        sizes = dict(states.sizes)
        values = _bind_inputs(function, _complete(function, inputs), sizes)
        for op in function.ops:
            self._run_op(op, values, states, sizes)
        return [values[output] for output in function.outputs]

    def _run_op(
        self, op: Op, values: dict[Value, Runtime], states: States, sizes: Mapping[str, int]
    ) -> None:
        arguments = {
            name: self._argument(operand, values, states) for name, operand in op.operands.items()
        }
        try:
            output = op.definition.reference(**arguments, **op.attributes)
        except IndexError as error:
            raise IRError(f"op {op.name} (%{_label(op)}): index out of range: {error}") from None
        results = () if output is None else output if isinstance(output, tuple) else (output,)
        for value, array in zip(op.results, results, strict=True):
            expected = _concrete(value.type, sizes, f"%{value.name}")
            if array.shape != expected:
                raise IRError(f"%{value.name}: expected shape {expected}, computed {array.shape}")
            values[value] = array
        if self.listener is not None:
            self.listener(op, results)

    def _argument(self, operand: Operand, values: Mapping[Value, Runtime], states: States) -> Any:
        if operand is None:
            return None
        if isinstance(operand, tuple):
            return tuple(self._array(leaf, values, states) for leaf in operand)
        return self._array(operand, values, states)

    def _array(self, leaf: Leaf, values: Mapping[Value, Runtime], states: States) -> Runtime:
        if isinstance(leaf, Value):
            return values[leaf]
        if isinstance(leaf, State):
            return states.arrays[leaf.name]
        return self._weight(leaf)

    def _weight(self, weight: Weight) -> F32Array:
        if weight.data is None:
            return self._weights(weight)
        if weight.name not in self._computed:
            shape = weight.type.max_shape
            self._computed[weight.name] = decode(weight.type.dtype.name, weight.data, shape)
        return self._computed[weight.name]


def sequence_lengths(positions: Array, sequences: Array) -> Array:
    """How long each token's sequence is once all of these tokens are in it: int32 [T]."""
    same = sequences[:, None] == sequences[None]
    lengths: Array = np.where(same, positions[None] + 1, 0).max(axis=1, initial=0)
    return lengths.astype(np.int32)


def _complete(function: Function, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Inputs with `lengths`, where a function wants them and the caller leaves them out."""
    wanted = any(value.name == "lengths" for value in function.inputs)
    if not wanted or "lengths" in inputs or not {"positions", "sequences"} <= set(inputs):
        return inputs
    return {**inputs, "lengths": sequence_lengths(inputs["positions"], inputs["sequences"])}


def _label(op: Op) -> str:
    return ", %".join(result.name for result in op.results)


def _bind_inputs(
    function: Function, inputs: Mapping[str, Array], sizes: dict[str, int]
) -> dict[Value, Runtime]:
    names = [value.name for value in function.inputs]
    if set(names) != set(inputs):
        raise IRError(f"function '{function.name}' takes {names}, found {list(inputs)}")
    values: dict[Value, Runtime] = {}
    for value in function.inputs:
        array = np.asarray(inputs[value.name])
        _bind_input(value, array, sizes)
        values[value] = array
    return values


def _bind_input(value: Value, array: Array, sizes: dict[str, int]) -> None:
    where = f"input %{value.name}"
    if array.dtype != array_type(value.type.dtype) or array.ndim != len(value.type.shape):
        raise IRError(f"{where}: expected {value.type}, found {array.dtype}{list(array.shape)}")
    for dim, size in zip(value.type.shape, array.shape, strict=True):
        if isinstance(dim, Symbol):
            sizes.setdefault(dim.name, size)
    if array.shape != _concrete(value.type, sizes, where):
        raise IRError(f"{where}: expected {value.type} with {sizes}, found {list(array.shape)}")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise IRError(f"{where}: expected indices of 0 or more, found {array.min()}")


def _concrete(type: TensorType, sizes: Mapping[str, int], where: str) -> tuple[int, ...]:
    """The shape with symbols replaced by their sizes, which must be known and within bounds."""
    shape = []
    for dim in type.shape:
        if not isinstance(dim, Symbol):
            shape.append(dim)
            continue
        if dim.name not in sizes:
            raise IRError(f"{where}: symbol {dim.name} has no size; known: {sorted(sizes)}")
        if not 0 <= sizes[dim.name] <= dim.max:
            raise IRError(
                f"{where}: expected {dim.name} between 0 and {dim.max}, found {sizes[dim.name]}"
            )
        shape.append(sizes[dim.name])
    return tuple(shape)
