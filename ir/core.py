"""The objects of a program: module, weights, states, functions, ops and the values between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ggufc.ir.errors import IRError
from ggufc.ir.types import TensorType

if TYPE_CHECKING:
    from ggufc.ir.opdef import OpDef


@dataclass(frozen=True)
class Buffer:
    """Where a value lives after planning: `nbytes` from byte `offset` of a memory space."""

    space: str
    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The first byte after the buffer."""
        return self.offset + self.nbytes


class Value:
    """One tensor of a function: an input or the result of the op that defines it."""

    def __init__(self, name: str, type: TensorType, buffer: Buffer | None = None) -> None:
        self.name = name
        self.type = type
        self.buffer = buffer
        self.op: Op | None = None
        self._users: dict[Op, None] = {}

    @property
    def uses(self) -> tuple[Op, ...]:
        """The ops that have this value as an operand, each once, in the order they were made."""
        return tuple(self._users)

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True)
class Rows:
    """Rows start (included) to stop (excluded) of a GGUF tensor, over all axes but the last;
    elements, where it has one axis."""

    tensor: str
    start: int
    stop: int


Source = str | Rows


@dataclass(eq=False)
class Weight:
    """Read-only data: from GGUF tensors (`sources`, joined along axis 0) or computed (`data`).

    A source is the name of a whole tensor, or some of the rows of one.

    `data` is little-endian. `layout`, `offset` and `nbytes` give its place in the packed weights.
    """

    name: str
    type: TensorType
    sources: tuple[Source, ...] = ()
    data: bytes | None = None
    layout: str | None = None
    offset: int | None = None
    nbytes: int | None = None

    def __post_init__(self) -> None:
        if not self.sources and self.data is None:
            self.sources = (self.name,)


@dataclass(eq=False)
class State:
    """Mutable data that lives between calls, such as one layer's keys."""

    name: str
    type: TensorType


Operand = Value | Weight | State | tuple[Value, ...] | tuple[Weight, ...] | tuple[State, ...] | None
Leaf = Value | Weight | State


def leaves(operand: Operand) -> tuple[Leaf, ...]:
    """The values, weights or states of one operand: none, one, or those of a variadic group."""
    if operand is None:
        return ()
    return operand if isinstance(operand, tuple) else (operand,)


class Op:
    """One step of a function: an op definition applied to operands, with attributes and results.

    Making an op registers it with the values that it uses; `Function.erase` takes it back.
    """

    def __init__(
        self,
        definition: OpDef,
        operands: Mapping[str, Operand],
        attributes: Mapping[str, Any],
        results: Sequence[Value],
    ) -> None:
        self.definition = definition
        self._operands: dict[str, Operand] = dict(operands)
        self.attributes: dict[str, Any] = dict(attributes)
        self.results: tuple[Value, ...] = tuple(results)
        for result in self.results:
            result.op = self
        self._register()

    @property
    def name(self) -> str:
        """The name of the op's definition, such as `rms_norm`."""
        return self.definition.name

    @property
    def operands(self) -> Mapping[str, Operand]:
        """Operands by declared name; optional ones that are absent are None."""
        return MappingProxyType(self._operands)

    @property
    def result(self) -> Value:
        """The only result; an IRError for ops with none or several."""
        if len(self.results) != 1:
            raise IRError(f"op {self.name} has {len(self.results)} results, not one")
        return self.results[0]

    def value(self, name: str) -> Value:
        """The operand of this name, which must be a single present value."""
        operand = self._operands[name]
        if not isinstance(operand, Value):
            raise IRError(f"op {self.name}: operand '{name}' is not a value")
        return operand

    def leaves(self) -> Iterator[Leaf]:
        """All values, weights and states that the op uses, in declared order."""
        for operand in self._operands.values():
            yield from leaves(operand)

    def values(self) -> tuple[Value, ...]:
        """The values that the op uses, in declared order."""
        return tuple(leaf for leaf in self.leaves() if isinstance(leaf, Value))

    def weights(self) -> tuple[Weight, ...]:
        """The weights that the op uses, in declared order."""
        return tuple(leaf for leaf in self.leaves() if isinstance(leaf, Weight))

    def states(self) -> tuple[State, ...]:
        """The states that the op touches, in declared order."""
        return tuple(leaf for leaf in self.leaves() if isinstance(leaf, State))

    def set_operand(self, name: str, operand: Operand) -> None:
        """Replace one operand and keep the values' lists of uses right."""
        if name not in self._operands:
            raise IRError(f"op {self.name} has no operand '{name}'; it has {list(self._operands)}")
        self.drop_uses()
        self._operands[name] = operand
        self._register()

    def replace_operand(self, old: Value, new: Value) -> None:
        """Use `new` wherever `old` is an operand."""
        self.drop_uses()
        self._operands = {name: _replaced(o, old, new) for name, o in self._operands.items()}
        self._register()

    def drop_uses(self) -> None:
        """Take this op out of the lists of uses of its operands (before it is thrown away)."""
        for value in self.values():
            value._users.pop(self, None)

    def _register(self) -> None:
        for value in self.values():
            value._users[self] = None

    def __repr__(self) -> str:
        results = ", ".join(f"%{result.name}" for result in self.results)
        return f"<{results} = {self.name}>" if results else f"<{self.name}>"


def _replaced(operand: Operand, old: Value, new: Value) -> Operand:
    if isinstance(operand, tuple):
        return tuple(new if leaf is old else leaf for leaf in operand)  # type: ignore[return-value]
    return new if operand is old else operand


PREFILL, DECODE, EMBED = "prefill", "decode", "embed"


class Function:
    """A list of ops in the order of execution, over inputs, returning `outputs`."""

    def __init__(
        self,
        name: str,
        inputs: Iterable[Value] = (),
        ops: Iterable[Op] = (),
        outputs: Iterable[Value] = (),
    ) -> None:
        self.name = name
        self.inputs: list[Value] = list(inputs)
        self.ops: list[Op] = list(ops)
        self.outputs: list[Value] = list(outputs)

    def add_input(self, name: str, type: TensorType) -> Value:
        """Append an input; its name must be new in the function."""
        if name in {value.name for value in self.values()}:
            raise IRError(f"function '{self.name}' has a value %{name} already")
        self.inputs.append(Value(name, type))
        return self.inputs[-1]

    def input(self, name: str) -> Value:
        """The input of this name; an IRError lists the inputs otherwise."""
        for value in self.inputs:
            if value.name == name:
                return value
        known = ", ".join(value.name for value in self.inputs)
        raise IRError(f"function '{self.name}' has no input '{name}'; it has {known}")

    def values(self) -> Iterator[Value]:
        """Inputs and results, in the order of definition."""
        yield from self.inputs
        for op in self.ops:
            yield from op.results

    def unique_name(self, base: str, taken: set[str] | None = None) -> str:
        """`base`, or `base.1`, `base.2` ...: the first name no value of the function has."""
        names = {value.name for value in self.values()} if taken is None else taken
        if base not in names:
            return base
        number = 1
        while f"{base}.{number}" in names:
            number += 1
        return f"{base}.{number}"

    def is_used(self, value: Value) -> bool:
        """Whether an op or the return of the function uses the value."""
        return bool(value.uses) or any(output is value for output in self.outputs)

    def replace_uses(self, old: Value, new: Value) -> None:
        """Let every op and the return use `new` instead of `old`."""
        for user in old.uses:
            user.replace_operand(old, new)
        self.outputs = [new if output is old else output for output in self.outputs]

    def erase(self, op: Op) -> None:
        """Remove an op whose results nothing uses."""
        for result in op.results:
            if self.is_used(result):
                raise IRError(f"function '{self.name}': %{result.name} is used, cannot erase {op}")
        self.ops.remove(op)
        op.drop_uses()


@dataclass(eq=False)
class Module:
    """A program: weights, states and functions by name, with attributes such as `arch`."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)

    def weight(
        self,
        name: str,
        type: TensorType,
        sources: Sequence[Source] = (),
        data: bytes | None = None,
    ) -> Weight:
        """Declare a weight, or get the one that is declared with the same type and origin."""
        wanted = Weight(name, type, tuple(sources), data)
        found = self.weights.setdefault(name, wanted)
        if (found.type, found.sources, found.data) != (wanted.type, wanted.sources, wanted.data):
            raise IRError(
                f"weight @{name} is declared already as {found.type} from {list(found.sources)}; "
                f"asked for {type} from {list(wanted.sources)}"
            )
        return found

    def state(self, name: str, type: TensorType) -> State:
        """Declare a state, or get the one that is declared with the same type."""
        found = self.states.setdefault(name, State(name, type))
        if found.type != type:
            raise IRError(f"state ${name} is declared already as {found.type}; asked for {type}")
        return found

    def function(self, name: str) -> Function:
        """The function of this name, made empty if it is new."""
        return self.functions.setdefault(name, Function(name))

    def clone(self) -> Module:
        """A deep copy: new values, ops, weights and states; the weights' bytes are shared."""
        from ggufc.ir.clone import clone_module

        return clone_module(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return self.clone()
