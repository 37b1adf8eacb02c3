"""Compute only the rows whose logits are wanted, from as early on as each row is on its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.ir import F32, Elementwise, Function, Module, Op, Rewriter, Value

# Besides elementwise ops: those whose row t depends on row t of their values alone.
_ROW_WISE = (
    "rms_norm", "layer_norm", "linear", "bias_add", "scale_columns", "reshape", "slice",
)  # fmt: skip


class HoistTakeRows(Pass):
    """`take_rows` moves up past ops that work row by row: the last layer's tail, the final norm.

    before: %h = add(%x, %mlp)                   after: %a = take_rows(%x, %rows)
            %n = rms_norm(%h, @w)                       %b = take_rows(%mlp, %rows)
            %r = take_rows(%n, %rows)                   %h = add(%a, %b)
                                                        %n = rms_norm(%h, @w)
    """

    name: ClassVar[str] = "hoist-take-rows"
    stage: ClassVar[str] = "graph"

    def run(self, module: Module) -> None:
        """Every `take_rows` in turn; those that are moved take no further part."""
        for function in module.functions.values():
            for take in [op for op in function.ops if op.name == "take_rows"]:
                tail = _tail(function, take)
                if tail:
                    _compute_on_rows(module, function, take, tail)


def _tail(function: Function, take: Op) -> list[Op]:
    """The ops, in order, whose results are needed in the taken rows only.

    Each works row by row; what it reads is a matrix that rows can be taken of, or made by another.
    """
    kept = [op for op in function.ops if _is_row_wise(op, take.value("x").type.shape[0])]
    while True:
        fitting = [
            op for op in kept if _used_by(function, op, {take, *kept}) and _reads(op, set(kept))
        ]
        if len(fitting) == len(kept):
            return kept
        kept = fitting


def _is_row_wise(op: Op, rows: Any) -> bool:
    known = op.name in _ROW_WISE or op.definition.has(Elementwise)
    return known and all(v.type.shape[:1] == (rows,) for v in (*op.values(), *op.results))


def _used_by(function: Function, op: Op, users: set[Op]) -> bool:
    value = op.result
    return value not in function.outputs and bool(value.uses) and users.issuperset(value.uses)


def _reads(op: Op, tail: set[Op]) -> bool:
    return all(value.op in tail or _is_matrix(value) for value in op.values())


def _is_matrix(value: Value) -> bool:
    return value.type.dtype == F32 and len(value.type.shape) == 2


def _compute_on_rows(module: Module, function: Function, take: Op, tail: list[Op]) -> None:
    """Build the tail again before `take` on the rows taken; then erase the old one."""
    rewriter = Rewriter(function, module, take)
    rows = take.value("rows")
    twins: dict[Value, Value] = {}
    for value in _inputs_of(tail):
        taken = rewriter.create("take_rows", value, rows, name=f"{value.name}.rows")
        twins[value] = taken
    for op in tail:
        operands = {name: _twin(operand, twins) for name, operand in op.operands.items()}
        attributes = _on_rows(op, rows)
        twins[op.result] = rewriter.create(op.name, **operands, **attributes, name=op.result.name)
    rewriter.replace(take, twins[take.value("x")])
    for op in reversed(tail):
        rewriter.erase(op)
        twins[op.result].name = op.result.name


def _inputs_of(tail: Iterable[Op]) -> list[Value]:
    made = {op.result for op in tail}
    return list(dict.fromkeys(v for op in tail for v in op.values() if v not in made))


def _twin(operand: Any, twins: dict[Value, Value]) -> Any:
    return twins.get(operand, operand) if isinstance(operand, Value) else operand


def _on_rows(op: Op, rows: Value) -> dict[str, Any]:
    """The op's attributes; a shape gets the number of rows as its first dimension."""
    if op.name != "reshape":
        return op.attributes
    return {"shape": (rows.type.shape[0], *op.attributes["shape"][1:])}
