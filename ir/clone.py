"""Deep copies of modules: values, ops, weights and states are new, definitions and bytes shared."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from ggufc.ir.core import Function, Leaf, Module, Op, Operand, Value


def clone_module(module: Module) -> Module:
    """A copy that shares nothing mutable with `module`."""
    weights = {name: copy.copy(weight) for name, weight in module.weights.items()}
    states = {name: copy.copy(state) for name, state in module.states.items()}
    twins: dict[Leaf, Leaf] = {}
    twins.update({module.weights[name]: weight for name, weight in weights.items()})
    twins.update({module.states[name]: state for name, state in states.items()})
    functions = {name: clone_function(f, twins) for name, f in module.functions.items()}
    attributes = copy.deepcopy(module.attributes)
    return Module(module.name, attributes, weights, states, functions)


def clone_function(function: Function, twins: Mapping[Leaf, Leaf] | None = None) -> Function:
    """A copy of one function; weights and states are replaced by their `twins`, or else shared."""
    mapping: dict[Leaf, Leaf] = dict(twins or {})
    inputs = [_clone_value(value, mapping) for value in function.inputs]
    ops = [_clone_op(op, mapping) for op in function.ops]
    outputs = [mapping.get(value, value) for value in function.outputs]
    return Function(function.name, inputs, ops, [v for v in outputs if isinstance(v, Value)])


def _clone_value(value: Value, mapping: dict[Leaf, Leaf]) -> Value:
    twin = Value(value.name, value.type, value.buffer)
    mapping[value] = twin
    return twin


def _clone_op(op: Op, mapping: dict[Leaf, Leaf]) -> Op:
    operands = {name: _clone_operand(operand, mapping) for name, operand in op.operands.items()}
    results = [_clone_value(result, mapping) for result in op.results]
    return Op(op.definition, operands, op.attributes, results)


def _clone_operand(operand: Operand, mapping: Mapping[Leaf, Leaf]) -> Operand:
    if operand is None:
        return None
    if isinstance(operand, tuple):
        return tuple(mapping.get(leaf, leaf) for leaf in operand)  # type: ignore[return-value]
    return mapping.get(operand, operand)
