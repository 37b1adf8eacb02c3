"""Lifetimes: which values share storage, and from which op to which each storage is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ggufc.compiler.memory.intervals import Interval
from ggufc.ir import Elementwise, Function, InPlace, Op, Value, View

ARENA = "arena"
INPUT = "input"
OUTPUT = "logits"


@dataclass(eq=False)
class Storage:
    """Bytes that one or more values hold, at the same address, at different times or as views.

    `space` is where they lie: the arena, the caller's inputs or the caller's output. `first` is the
    op that writes them first (-1: the caller), `last` the op that reads them last.
    """

    values: list[Value] = field(default_factory=list)
    space: str = ARENA
    nbytes: int = 0
    first: int = 0
    last: int = 0

    def interval(self) -> Interval:
        """What the planner needs to know; the key is the name of the value written first."""
        return Interval(self.values[0].name, self.nbytes, self.first, self.last)


@dataclass(frozen=True)
class Lifetimes:
    """The storage of every value of a function, and the life of each value on its own.

    A value lives from the op that defines it to the last op that uses it or a view of it.
    """

    storages: tuple[Storage, ...]
    of_value: dict[Value, Storage]
    lives: dict[Value, tuple[int, int]]

    def arena_intervals(self) -> list[Interval]:
        """The intervals of the storages that the arena has to hold, in order of first write."""
        return [storage.interval() for storage in self.storages if storage.space == ARENA]


def lifetimes(function: Function) -> Lifetimes:
    """Lifetimes in the order of the function's ops.

    A view has its operand's storage. A result takes over the storage of an operand when its op
    declares so (`InPlace`), the types are equal and nothing reads the operand afterwards.
    """
    lives = _lives_of_values(function)
    of_value = _storages_of_views(function, lives)
    for position, op in enumerate(function.ops):
        for operand, result in _mergeable(op):
            old, new = of_value[operand], of_value[result]
            if old is not new and _may_merge(op, position, operand, of_value):
                _merge(old, new, of_value)
                break
    return Lifetimes(tuple(dict.fromkeys(of_value.values())), of_value, lives)


def _lives_of_values(function: Function) -> dict[Value, tuple[int, int]]:
    first = {value: -1 for value in function.inputs}
    last = dict(first)
    for position, op in enumerate(function.ops):
        for value in op.values():
            last[value] = position
        for result in op.results:
            first[result] = last[result] = position
    for value in function.outputs:
        last[value] = len(function.ops)
    for op in reversed(function.ops):
        for view, source in _views(op):
            last[source] = max(last[source], last[view])
    return {value: (first[value], last[value]) for value in first}


def _storages_of_views(
    function: Function, lives: dict[Value, tuple[int, int]]
) -> dict[Value, Storage]:
    """One storage for every value and its views, in order of definition."""
    sources = {view: source for op in function.ops for view, source in _views(op)}
    of_value: dict[Value, Storage] = {}
    for value in function.values():
        storage = of_value[sources[value]] if value in sources else Storage(first=lives[value][0])
        storage.values.append(value)
        storage.nbytes = max(storage.nbytes, value.type.max_bytes)
        storage.last = max(storage.last, lives[value][1])
        of_value[value] = storage
    for value in function.outputs:
        of_value[value].space = OUTPUT
    for value in function.inputs:
        of_value[value].space = INPUT
    return of_value


def _views(op: Op) -> Iterator[tuple[Value, Value]]:
    """The op's result and the operand whose bytes it is, for a view."""
    trait = op.definition.trait(View)
    if trait is not None:
        yield op.result, op.value(trait.operand)


def _mergeable(op: Op) -> Iterator[tuple[Value, Value]]:
    """Operands whose storage the op's result may take, as declared, and the result."""
    for trait in op.definition.traits:
        operand = op.operands[trait.operand] if isinstance(trait, InPlace) else None
        if isinstance(operand, Value) and operand.type == op.result.type:
            yield operand, op.result


def _may_merge(op: Op, position: int, operand: Value, of_value: dict[Value, Storage]) -> bool:
    storage = of_value[operand]
    if storage.space != ARENA or storage.last != position:
        return False
    # Unless an element depends on its own place only, others are read while the result is written.
    readers = [value for value in op.values() if of_value[value] is storage]
    return readers == [operand] or op.definition.has(Elementwise)


def _merge(old: Storage, new: Storage, of_value: dict[Value, Storage]) -> None:
    """Let the values of `new` live in `old`, which goes wherever `new` has to be."""
    old.values.extend(new.values)
    old.nbytes = max(old.nbytes, new.nbytes)
    old.last = new.last
    old.space = new.space
    for value in new.values:
        of_value[value] = old
