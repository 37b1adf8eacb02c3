"""Checks that a module keeps the rules of the IR; run after every pass."""

from __future__ import annotations

from collections.abc import Iterator

from ggufc.ir import stages
from ggufc.ir.core import Function, Leaf, Module, Op, State, Value, Weight
from ggufc.ir.errors import IRError, VerifyError
from ggufc.ir.opdef import OPS
from ggufc.ir.printer import format_name, format_op
from ggufc.ir.types import Symbol, TensorType


def verify(module: Module, stage: str | None = None) -> None:
    """Raise a VerifyError that names function, op and operand if the module breaks a rule.

    Checked: names, definition before use, operand kinds and types, inferred result types,
    attributes, use lists, symbols with one bound each; with a `stage`, allowed ops and buffers.
    """
    if stage is not None:
        stages.check_stage_name(stage)
    for weight in module.weights.values():
        _verify_weight(weight)
    _verify_names(module)
    for function in module.functions.values():
        _FunctionVerifier(module, function, stage).verify()
    if stage == stages.PLANNED:
        stages.check_weights_placed(module)


def _verify_names(module: Module) -> None:
    tables: tuple[dict[str, Weight] | dict[str, State] | dict[str, Function], ...]
    tables = (module.weights, module.states, module.functions)
    for table in tables:
        for key, item in table.items():
            if key != item.name:
                raise VerifyError(f"module '{module.name}': '{item.name}' is listed as '{key}'")


def _verify_weight(weight: Weight) -> None:
    where = f"weight @{weight.name}"
    if any(isinstance(dim, Symbol) or dim < 1 for dim in weight.type.shape):
        raise VerifyError(f"{where}: expected fixed dimensions above 0, found {weight.type}")
    try:
        nbytes = weight.type.max_bytes
    except IRError as error:
        raise VerifyError(f"{where}: {error}") from None
    if weight.data is not None and (weight.sources or len(weight.data) != nbytes):
        raise VerifyError(
            f"{where}: expected {nbytes} bytes of data for {weight.type} and no sources, "
            f"found {len(weight.data)} bytes and {len(weight.sources)} sources"
        )
    if (weight.offset is None) != (weight.nbytes is None):
        raise VerifyError(f"{where}: expected offset and nbytes together, found one of them")


class _FunctionVerifier:
    """Walks one function in order, knowing which values are defined so far."""

    def __init__(self, module: Module, function: Function, stage: str | None) -> None:
        self._module = module
        self._function = function
        self._stage = stage
        self._names: set[str] = set()
        self._defined: set[Value] = set()
        self._bounds: dict[str, int] = {}
        self._outside = stages.outside_arena(function) if stage == stages.PLANNED else set()

    def verify(self) -> None:
        where = f"function '{self._function.name}'"
        try:
            for state in self._module.states.values():
                self._check_symbols(state.type)
            for value in self._function.inputs:
                self._check_input(value)
        except VerifyError as error:
            raise VerifyError(f"{where}: {error}") from None
        ops = set(self._function.ops)
        for op in self._function.ops:
            try:
                self._check_op(op, ops)
            except VerifyError as error:
                raise VerifyError(f"{where}, op {op.name}, {error}; at: {format_op(op)}") from None
        for output in self._function.outputs:
            if output not in self._defined:
                raise VerifyError(f"{where}: returns %{output.name}, which it does not define")

    def _check_input(self, value: Value) -> None:
        if value.op is not None or value.type.dtype.is_quantized:
            raise VerifyError(f"input {value!r}: expected a plain tensor that no op defines")
        if self._stage is not None:
            stages.check_buffer(value, self._stage, self._outside)
        self._define(value)

    def _check_op(self, op: Op, ops: set[Op]) -> None:
        if OPS.get(op.name) is not op.definition:
            raise VerifyError(
                f"definition: expected the registered one of {op.name}, found another"
            )
        definition = op.definition
        operands = definition.complete_operands(op.operands)
        attributes = definition.complete_attributes(op.attributes)
        for leaf in op.leaves():
            self._check_leaf(op, leaf)
        self._check_results(op, definition.infer_types(operands, attributes))
        if self._stage is not None:
            stages.check_op_allowed(op, self._stage)
        for result in op.results:
            if self._stage is not None:
                stages.check_buffer(result, self._stage, self._outside)
            self._define(result)
            for user in result.uses:
                if user not in ops:
                    raise VerifyError(f"result %{result.name}: used by {user}, not in the function")

    def _check_leaf(self, op: Op, leaf: Leaf) -> None:
        part = f"operand '{_operand_name(op, leaf)}'"
        if isinstance(leaf, Value):
            if leaf not in self._defined:
                raise VerifyError(f"{part}: %{leaf.name} is not defined before its use")
            if op not in leaf.uses:
                raise VerifyError(f"{part}: %{leaf.name} does not list this op among its uses")
            return
        table = self._module.weights if isinstance(leaf, Weight) else self._module.states
        if table.get(leaf.name) is not leaf:
            raise VerifyError(f"{part}: {format_name(leaf)} is not declared in the module")

    def _check_results(self, op: Op, inferred: tuple[TensorType, ...]) -> None:
        if len(inferred) != len(op.results):
            raise VerifyError(f"results: expected {len(inferred)}, found {len(op.results)}")
        for result, expected in zip(op.results, inferred, strict=True):
            if result.type != expected:
                raise VerifyError(
                    f"result %{result.name}: expected {expected}, found {result.type}"
                )
            if result.op is not op:
                raise VerifyError(f"result %{result.name}: another op claims to define it")

    def _define(self, value: Value) -> None:
        if value.name in self._names:
            raise VerifyError(f"result %{value.name}: another value has this name")
        self._names.add(value.name)
        self._defined.add(value)
        self._check_symbols(value.type)

    def _check_symbols(self, type: TensorType) -> None:
        for symbol in type.symbols():
            bound = self._bounds.setdefault(symbol.name, symbol.max)
            if bound != symbol.max:
                raise VerifyError(
                    f"symbol {symbol.name}: expected one bound, found {bound} and {symbol.max}"
                )


def _operand_name(op: Op, leaf: Leaf) -> str:
    return next(_names_of(op, leaf))


def _names_of(op: Op, leaf: Leaf) -> Iterator[str]:
    for name, operand in op.operands.items():
        group = operand if isinstance(operand, tuple) else (operand,)
        if any(candidate is leaf for candidate in group):
            yield name
