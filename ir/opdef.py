"""Declaring an op once: operands, attributes, traits, type inference and meaning.

An op is a class with the decorator `defop`:

    @defop
    class Softcap:
        "cap * tanh(x / cap), elementwise."

        x = ValueOperand("f32")
        cap = Attribute("float")
        traits = (Pure(), Elementwise(), InPlace("x"))

        @staticmethod
        def infer(x: TensorType, cap: float) -> TensorType: ...

        @staticmethod
        def reference(x: F32Array, cap: float) -> F32Array: ...

The op's name is the class's in snake case. `infer` gets the operands' types and the attributes by
name and returns the type of the result (None for no result, a tuple for several); the declared type
patterns have been checked before. `reference` gets arrays by the same names, weights decoded to
float32, states as arrays that it may write, and returns arrays likewise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from ggufc.ir.core import Operand, State, Value, Weight, leaves
from ggufc.ir.errors import IRError, OperandError
from ggufc.ir.type_pattern import TypePattern
from ggufc.ir.types import Dim, Symbol, TensorType

Kind = Literal["value", "weight", "state"]
AttributeKind = Literal["int", "float", "bool", "str", "dims"]

_LEAF_CLASSES: dict[Kind, type] = {"value": Value, "weight": Weight, "state": State}


@dataclass(frozen=True)
class OperandSpec:
    """A declared operand: what kind of thing it is, its type, whether it may be absent or many."""

    kind: Kind
    pattern: TypePattern
    optional: bool
    variadic: bool
    name: str = ""


def ValueOperand(pattern: str, *, optional: bool = False, variadic: bool = False) -> OperandSpec:
    """Declare an operand that is a value of the function."""
    return OperandSpec("value", TypePattern.parse(pattern), optional, variadic)


def WeightOperand(pattern: str, *, optional: bool = False, variadic: bool = False) -> OperandSpec:
    """Declare an operand that is a weight of the module."""
    return OperandSpec("weight", TypePattern.parse(pattern), optional, variadic)


def StateOperand(pattern: str, *, optional: bool = False, variadic: bool = False) -> OperandSpec:
    """Declare an operand that is a state of the module."""
    return OperandSpec("state", TypePattern.parse(pattern), optional, variadic)


REQUIRED: Any = object()


@dataclass(frozen=True)
class AttributeSpec:
    """A declared attribute: its kind, default (REQUIRED: none) and, for text, allowed values."""

    kind: AttributeKind
    default: Any
    choices: tuple[str, ...]
    name: str = ""

    def check(self, value: Any) -> Any:
        """The value in canonical form; an OperandError says what is allowed."""
        canonical = _CANONICAL[self.kind](value)
        if canonical is None:
            raise OperandError(f"attribute '{self.name}'", f"expected {self.kind}, found {value!r}")
        if self.choices and canonical not in self.choices:
            allowed = " or ".join(repr(choice) for choice in self.choices)
            raise OperandError(f"attribute '{self.name}'", f"expected {allowed}, found {value!r}")
        return canonical


def Attribute(
    kind: AttributeKind, default: Any = REQUIRED, choices: tuple[str, ...] = ()
) -> AttributeSpec:
    """Declare an attribute; without a default it must be given."""
    return AttributeSpec(kind, default, choices)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _canonical_float(value: Any) -> float | None:
    return float(value) if isinstance(value, float) or _is_int(value) else None


def _canonical_dims(value: Any) -> tuple[Dim, ...] | None:
    if not isinstance(value, (tuple, list)):
        return None
    if not all(isinstance(dim, Symbol) or (_is_int(dim) and dim >= 0) for dim in value):
        return None
    return tuple(value)


_CANONICAL: dict[AttributeKind, Callable[[Any], Any]] = {
    "int": lambda value: value if _is_int(value) else None,
    "float": _canonical_float,
    "bool": lambda value: value if isinstance(value, bool) else None,
    "str": lambda value: value if isinstance(value, str) else None,
    "dims": _canonical_dims,
}


@dataclass(frozen=True)
class Pure:
    """Reads only its operands and changes nothing: may be merged, moved or removed."""


@dataclass(frozen=True)
class StateEffect:
    """Touches its state operands: never moved past another such op; kept if it writes."""

    writes: bool


@dataclass(frozen=True)
class View:
    """The result is the operand's own bytes under another shape; they share a buffer."""

    operand: str


@dataclass(frozen=True)
class InPlace:
    """The result may take the buffer of this operand when the operand is not used afterwards."""

    operand: str


@dataclass(frozen=True)
class Elementwise:
    """Each element of the result depends on the same element of the operands only."""


Trait = Pure | StateEffect | View | InPlace | Elementwise
_T = TypeVar("_T", bound=Trait)


@dataclass(frozen=True, eq=False)
class OpDef:
    """The declaration of one op; `OPS` holds all of them by name."""

    name: str
    doc: str
    operands: tuple[OperandSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    traits: tuple[Trait, ...]
    stages: tuple[str, ...]
    infer: Callable[..., TensorType | tuple[TensorType, ...] | None]
    reference: Callable[..., Any]

    def has(self, trait: type[Trait]) -> bool:
        """Whether the op has a trait of this class."""
        return any(isinstance(candidate, trait) for candidate in self.traits)

    def trait(self, trait: type[_T]) -> _T | None:
        """The op's trait of this class, if it has one."""
        return next((found for found in self.traits if isinstance(found, trait)), None)

    @property
    def touches_state(self) -> bool:
        """Whether the op's place among other ops on states matters."""
        return self.has(StateEffect)

    @property
    def is_removable(self) -> bool:
        """Whether the op may go when nothing uses its results."""
        effect = self.trait(StateEffect)
        return effect is None or not effect.writes

    def operand(self, name: str) -> OperandSpec:
        """The declared operand of this name; an IRError lists them otherwise."""
        for spec in self.operands:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.operands)
        raise IRError(f"op {self.name} has no operand '{name}'; it has {known}")

    def complete_operands(self, given: Mapping[str, Operand]) -> dict[str, Operand]:
        """All operands in declared order, lists as tuples, absent optional ones as None."""
        _reject_unknown("operand", given, (spec.name for spec in self.operands))
        return {spec.name: _checked_operand(spec, given.get(spec.name)) for spec in self.operands}

    def complete_attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes in declared order and canonical form, defaults filled in."""
        _reject_unknown("attribute", given, (spec.name for spec in self.attributes))
        values = {}
        for spec in self.attributes:
            value = given.get(spec.name, spec.default)
            if value is REQUIRED:
                raise OperandError(f"attribute '{spec.name}'", f"missing; expected {spec.kind}")
            values[spec.name] = spec.check(value)
        return values

    def infer_types(
        self, operands: Mapping[str, Operand], attributes: Mapping[str, Any]
    ) -> tuple[TensorType, ...]:
        """Check complete operands and attributes and give the results' types."""
        bound: dict[str, Dim] = {}
        types: dict[str, Any] = {}
        for spec in self.operands:
            types[spec.name] = _match_operand(spec, operands[spec.name], bound)
        result = self.infer(**types, **attributes)
        if result is None:
            return ()
        return result if isinstance(result, tuple) else (result,)


def _reject_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            allowed = ", ".join(names) if names else "none"
            raise OperandError(f"{what} '{name}'", f"unknown; allowed: {allowed}")


def _checked_operand(spec: OperandSpec, operand: Any) -> Operand:
    part = f"operand '{spec.name}'"
    if operand is None:
        if spec.optional:
            return None
        raise OperandError(part, f"missing; expected a {spec.kind}")
    if spec.variadic != isinstance(operand, (tuple, list)):
        expected = f"a list of {spec.kind}s" if spec.variadic else f"one {spec.kind}"
        raise OperandError(part, f"expected {expected}, found {operand!r}")
    group = tuple(operand) if spec.variadic else (operand,)
    if not group:
        raise OperandError(part, f"expected at least one {spec.kind}, found none")
    for leaf in group:
        if not isinstance(leaf, _LEAF_CLASSES[spec.kind]):
            raise OperandError(part, f"expected a {spec.kind}, found {leaf!r}")
    return group if spec.variadic else group[0]


def _match_operand(spec: OperandSpec, operand: Operand, bound: dict[str, Dim]) -> Any:
    part = f"operand '{spec.name}'"
    group = leaves(operand)
    for leaf in group:
        spec.pattern.match(part, leaf.type, bound)
    if spec.variadic:
        return tuple(leaf.type for leaf in group)
    return group[0].type if group else None


OPS: dict[str, OpDef] = {}


def op_definition(name: str) -> OpDef:
    """The op of this name; an IRError lists the known ones otherwise."""
    if name not in OPS:
        raise IRError(f"unknown op {name!r}; known: {', '.join(sorted(OPS))}")
    return OPS[name]


def defop(cls: type) -> OpDef:
    """Class decorator: register the declaration in `OPS` and return it."""
    body = vars(cls)
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    specs = [replace(v, name=k) for k, v in body.items() if isinstance(v, OperandSpec)]
    attributes = [replace(v, name=k) for k, v in body.items() if isinstance(v, AttributeSpec)]
    definition = OpDef(
        name=name,
        doc=(cls.__doc__ or "").strip(),
        operands=tuple(specs),
        attributes=tuple(attributes),
        traits=tuple(body["traits"]),
        stages=tuple(body.get("stages", ("graph", "fused", "planned"))),
        infer=body["infer"].__func__,
        reference=body["reference"].__func__,
    )
    if name in OPS:
        raise IRError(f"op {name} is declared twice")
    OPS[name] = definition
    return definition
