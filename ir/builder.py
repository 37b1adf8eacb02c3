"""Building functions: `GraphBuilder` has a method per op, which infers types and names results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ggufc.ir.core import Function, Module, Op, Operand, Value
from ggufc.ir.errors import OperandError, VerifyError
from ggufc.ir.opdef import OPS, OpDef, op_definition
from ggufc.ir.types import TensorType


def bind_arguments(
    definition: OpDef, positional: Sequence[Any], named: dict[str, Any]
) -> tuple[dict[str, Operand], dict[str, Any]]:
    """Sort a call's arguments into complete operands and attributes; an OperandError otherwise."""
    specs = definition.operands
    if len(positional) > len(specs):
        raise OperandError("operands", f"expected at most {len(specs)}, found {len(positional)}")
    given = {spec.name: operand for spec, operand in zip(specs, positional, strict=False)}
    rest = dict(named)
    for spec in specs:
        if spec.name in rest:
            if spec.name in given:
                raise OperandError(f"operand '{spec.name}'", "given twice")
            given[spec.name] = rest.pop(spec.name)
    return definition.complete_operands(given), definition.complete_attributes(rest)


def make_op(
    definition: OpDef,
    positional: Sequence[Any],
    named: dict[str, Any],
    name_result: Callable[[int], str],
) -> Op:
    """A new op with inferred results; a VerifyError names the op and operand that do not fit."""
    try:
        operands, attributes = bind_arguments(definition, positional, named)
        types = definition.infer_types(operands, attributes)
    except OperandError as error:
        raise VerifyError(f"op {definition.name}, {error}") from None
    results = [Value(name_result(index), type) for index, type in enumerate(types)]
    return Op(definition, operands, attributes, results)


class GraphBuilder:
    """Appends ops to a function of a module.

    `b.rms_norm(x, w, eps=1e-5, name="attn_norm")` checks and appends the op and returns its result
    (None for an op without results, a tuple for several). Operands are positional or by name,
    attributes by name. Results are named `scope.name`, or after the op without `name`.
    """

    def __init__(self, module: Module, function: Function | str) -> None:
        self.module = module
        self.function = module.function(function) if isinstance(function, str) else function
        self._scopes: list[str] = []
        self._names = {value.name for value in self.function.values()}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of results inside start with `name` and a dot; scopes nest."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def input(self, name: str, type: TensorType) -> Value:
        """Append an input to the function."""
        value = self.function.add_input(name, type)
        self._names.add(name)
        return value

    def returns(self, *values: Value) -> None:
        """Set what the function returns."""
        self.function.outputs = list(values)

    def emit(self, op_name: str, *operands: Any, name: str | None = None, **named: Any) -> Any:
        """Append the op called `op_name`; the op's own method of this builder does the same."""
        definition = op_definition(op_name)
        base = ".".join([*self._scopes, name or op_name])
        op = make_op(definition, operands, named, lambda index: self._new_name(base))
        self.function.ops.append(op)
        if len(op.results) == 1:
            return op.results[0]
        return op.results or None

    def _new_name(self, base: str) -> str:
        name = self.function.unique_name(base, self._names)
        self._names.add(name)
        return name

    def __getattr__(self, op_name: str) -> Callable[..., Any]:
        if op_name not in OPS:
            raise AttributeError(f"no op {op_name!r}; known: {', '.join(sorted(OPS))}")
        return lambda *operands, **named: self.emit(op_name, *operands, **named)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *OPS]
