"""Module -> text. Printing what `parse_module` read gives the same text, byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any

from ggufc.ir.core import (
    Buffer,
    Function,
    Leaf,
    Module,
    Op,
    Operand,
    Rows,
    Source,
    State,
    Value,
    Weight,
)
from ggufc.ir.opdef import OperandSpec
from ggufc.ir.types import Dim, Symbol, TensorType

_BARE_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_SIGILS: dict[type, str] = {Value: "%", Weight: "@", State: "$"}


def print_module(module: Module) -> str:
    """The text of a module, ending in a newline; symbols show their bound at first appearance."""
    return _Printer().module(module)


def format_op(op: Op) -> str:
    """One op as one line, without the bounds of symbols (for messages)."""
    return _Printer(with_bounds=False).op(op)


def format_name(leaf: Leaf) -> str:
    """A value, weight or state by name: `%x`, `@x`, `$x`, quoted where the name needs it."""
    bare = _BARE_NAME.fullmatch(leaf.name)
    return _SIGILS[type(leaf)] + (leaf.name if bare else json.dumps(leaf.name))


class _Printer:
    """Holds the bounds of the symbols shown so far."""

    def __init__(self, with_bounds: bool = True) -> None:
        self._with_bounds = with_bounds
        self._shown: dict[str, int] = {}

    def module(self, module: Module) -> str:
        attributes = self.attributes(module.attributes)
        lines = [f"module {json.dumps(module.name)}{attributes} {{"]
        lines += [f"  {self.weight(weight)}" for weight in module.weights.values()]
        lines += [
            f"  state {format_name(state)} : {self.type(state.type)}"
            for state in module.states.values()
        ]
        for function in module.functions.values():
            lines += ["", *(f"  {line}" for line in self.function(function))]
        return "\n".join([*lines, "}", ""])

    def weight(self, weight: Weight) -> str:
        text = f"weight {format_name(weight)} : {self.type(weight.type)}"
        if weight.data is not None:
            text += f' = hex"{weight.data.hex()}"'
        elif weight.sources != (weight.name,):
            text += f" from [{', '.join(map(source_text, weight.sources))}]"
        if weight.layout is not None:
            text += f" layout {weight.layout}"
        if weight.offset is not None and weight.nbytes is not None:
            text += f" at {weight.offset}:{weight.offset + weight.nbytes}"
        return text

    def function(self, function: Function) -> list[str]:
        inputs = ", ".join(
            f"{format_name(v)}: {self.type(v.type)}{buffer_text(v.buffer)}" for v in function.inputs
        )
        lines = [f"func @{function.name}({inputs}) {{"]
        lines += [f"  {self.op(op)}" for op in function.ops]
        outputs = ", ".join(format_name(value) for value in function.outputs)
        return [*lines, f"  return {outputs}".rstrip(), "}"]

    def op(self, op: Op) -> str:
        results = ", ".join(format_name(result) for result in op.results)
        parts = [self._operand(spec, op.operands[spec.name]) for spec in op.definition.operands]
        text = f"{op.name}({', '.join(part for part in parts if part)})"
        text += self.attributes(op.attributes)
        if not op.results:
            return text
        types = ", ".join(self.type(r.type) + buffer_text(r.buffer) for r in op.results)
        return f"{results} = {text} : {types}"

    def _operand(self, spec: OperandSpec, operand: Operand) -> str:
        if operand is None:
            return ""
        if isinstance(operand, tuple):
            text = f"[{', '.join(format_name(leaf) for leaf in operand)}]"
        else:
            text = format_name(operand)
        return f"{spec.name}={text}" if spec.optional else text

    def attributes(self, attributes: dict[str, Any]) -> str:
        if not attributes:
            return ""
        pairs = (f"{name} = {self.attribute(value)}" for name, value in attributes.items())
        return f" {{{', '.join(pairs)}}}"

    def attribute(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return self.dim(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.attribute(item) for item in value)}]"
        if isinstance(value, float):
            return repr(float(value))
        return json.dumps(value)

    def type(self, type: TensorType) -> str:
        return f"{type.dtype.name}[{', '.join(self.dim(dim) for dim in type.shape)}]"

    def dim(self, dim: Dim) -> str:
        if not isinstance(dim, Symbol):
            return str(dim)
        if not self._with_bounds or self._shown.get(dim.name) == dim.max:
            return dim.name
        self._shown[dim.name] = dim.max
        return str(dim)


def source_text(source: Source) -> str:
    """A tensor's name in quotes, with the rows where they are not all."""
    if isinstance(source, Rows):
        return f"{json.dumps(source.tensor)}[{source.start}:{source.stop}]"
    return json.dumps(source)


def buffer_text(buffer: Buffer | None) -> str:
    """` in space[offset:end]`, or nothing."""
    return "" if buffer is None else f" in {buffer.space}[{buffer.offset}:{buffer.end}]"
