"""Compute once what is computed twice."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.ir import Function, Leaf, Module, Op, Pure, Weight


class EliminateCommonOps(Pass):
    """Pure ops with the same operands and attributes become one; equal computed weights too.

    before: %a = rope_table(%positions, @f)      after: %a = rope_table(%positions, @f)
            %b = rope_table(%positions, @f)             (uses of %b use %a)
    """

    name: ClassVar[str] = "eliminate-common-ops"

    def run(self, module: Module) -> None:
        """Weights first, so that ops on equal tables become equal."""
        _merge_weights(module)
        for function in module.functions.values():
            _merge_ops(function)


def _merge_weights(module: Module) -> None:
    first: dict[Hashable, Weight] = {}
    twins: dict[Leaf, Weight] = {}
    for weight in list(module.weights.values()):
        kept = first.setdefault((weight.type, weight.sources, weight.data), weight)
        if kept is not weight:
            twins[weight] = kept
            del module.weights[weight.name]
    for function in module.functions.values():
        for op in function.ops:
            _use_twins(op, twins)


def _use_twins(op: Op, twins: dict[Leaf, Weight]) -> None:
    for name, operand in list(op.operands.items()):
        if isinstance(operand, Weight) and operand in twins:
            op.set_operand(name, twins[operand])
        elif isinstance(operand, tuple) and any(leaf in twins for leaf in operand):
            op.set_operand(name, tuple(twins.get(leaf, leaf) for leaf in operand))  # type: ignore[arg-type]


def _merge_ops(function: Function) -> None:
    first: dict[Hashable, Op] = {}
    for op in list(function.ops):
        if not op.definition.has(Pure):
            continue
        kept = first.setdefault(_key(op), op)
        if kept is not op:
            for result, same in zip(op.results, kept.results, strict=True):
                function.replace_uses(result, same)
            function.erase(op)


def _key(op: Op) -> Hashable:
    return (op.name, tuple(op.operands.values()), tuple(op.attributes.items()))
