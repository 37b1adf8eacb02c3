"""Rewriting functions by patterns: match an op, create others before it, replace it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ggufc.ir.builder import make_op
from ggufc.ir.core import Function, Module, Op, Source, State, Value, Weight
from ggufc.ir.errors import RewriteError
from ggufc.ir.opdef import op_definition
from ggufc.ir.types import TensorType

MAX_SWEEPS = 64


class RewritePattern(ABC):
    """One rewrite; its class says in its docstring what it matches and what it makes of it."""

    @abstractmethod
    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """Return at once unless `op` matches; otherwise change the function through `rewriter`."""


class Rewriter:
    """Changes a function around the matched op and keeps uses, names and state order right."""

    def __init__(self, function: Function, module: Module, op: Op) -> None:
        self.function = function
        self.module = module
        self.op = op
        self.changed = False
        self._created: list[Op] = []
        self._unnamed: set[Value] = set()

    def uses(self, value: Value) -> tuple[Op, ...]:
        """The ops that use a value."""
        return value.uses

    def is_output(self, value: Value) -> bool:
        """Whether the function returns the value."""
        return any(output is value for output in self.function.outputs)

    def only_use(self, value: Value) -> Op | None:
        """The op that alone uses a value that is not returned, else None."""
        if self.is_output(value) or len(value.uses) != 1:
            return None
        return value.uses[0]

    def create(
        self,
        op_name: str,
        *operands: Any,
        name: str | None = None,
        before: Op | None = None,
        **named: Any,
    ) -> Any:
        """Insert a new op before the matched one (or `before`); returns its result.

        None for an op without results, a tuple for several. Without `name` the result takes the
        name of the value that it comes to replace.
        """
        anchor = before or self.op
        base = name or (self.op.results[0].name if self.op.results else op_name)
        taken = {value.name for value in self.function.values()}

        def new_name(index: int) -> str:
            chosen = self.function.unique_name(base, taken)
            taken.add(chosen)
            return chosen

        op = make_op(op_definition(op_name), operands, named, new_name)
        self.insert_before(anchor, op)
        if name is None:
            self._unnamed.update(op.results)
        if len(op.results) == 1:
            return op.results[0]
        return op.results or None

    def insert_before(self, anchor: Op, op: Op) -> None:
        """Insert an op; its operands must be defined above the anchor."""
        index = self._index(anchor)
        for value in op.values():
            if value.op is not None and self._index(value.op) >= index:
                op.drop_uses()
                raise RewriteError(
                    f"function '{self.function.name}': {op} before {anchor} would use "
                    f"%{value.name} above its definition"
                )
        self.function.ops.insert(index, op)
        self._created.append(op)
        self.changed = True

    def replace(self, op: Op, new: Value | Sequence[Value] | Op) -> None:
        """Erase the op and let uses of its results use `new`: a value each, or an op's results."""
        values = new.results if isinstance(new, Op) else (new,) if isinstance(new, Value) else new
        if len(values) != len(op.results):
            raise RewriteError(f"{op} has {len(op.results)} results, {len(values)} given for them")
        renamed = []
        for old, value in zip(op.results, values, strict=True):
            self._replace_uses(old, value)
            if value in self._unnamed:
                renamed.append((value, old.name))
        self.erase(op)
        for value, name in renamed:
            value.name = name
            self._unnamed.discard(value)

    def _replace_uses(self, old: Value, new: Value) -> None:
        if old.type != new.type:
            raise RewriteError(f"%{old.name} is {old.type}, its replacement %{new.name} {new.type}")
        if new.op is not None:
            defined = self._index(new.op)
            for user in old.uses:
                if self._index(user) <= defined:
                    raise RewriteError(
                        f"function '{self.function.name}': {user} would use %{new.name} above its "
                        "definition"
                    )
        self.function.replace_uses(old, new)
        self.changed = True

    def erase(self, op: Op) -> None:
        """Remove an op that nothing uses; if it writes a state, a created op must do so instead."""
        if op.definition.touches_state:
            self._check_state_order(op)
        self.function.erase(op)
        self.changed = True

    def erase_if_unused(self, op: Op) -> bool:
        """Remove an op unless something uses its results or it writes a state."""
        if not op.definition.is_removable or any(self.function.is_used(r) for r in op.results):
            return False
        self.function.erase(op)
        self.changed = True
        return True

    def weight(
        self,
        name: str,
        type: TensorType,
        sources: Sequence[Source] = (),
        data: bytes | None = None,
    ) -> Weight:
        """Declare a weight in the module (see `Module.weight`)."""
        return self.module.weight(name, type, sources, data)

    def _index(self, op: Op) -> int:
        for index, candidate in enumerate(self.function.ops):
            if candidate is op:
                return index
        raise RewriteError(f"function '{self.function.name}' does not hold {op}")

    def _check_state_order(self, op: Op) -> None:
        """An erased op's effect moves to a created one; no other op on the state lies between."""
        for state in op.states():
            successors = [new for new in self._created if state in new.states()]
            if successors:
                self._check_between(op, successors[-1], state)
            elif not op.definition.is_removable:
                raise RewriteError(f"{op} writes ${state.name}; no created op takes its place")

    def _check_between(self, old: Op, new: Op, state: State) -> None:
        low, high = sorted((self._index(old), self._index(new)))
        for other in self.function.ops[low + 1 : high]:
            if state in other.states() and other not in self._created:
                raise RewriteError(
                    f"moving {old} to {new} passes {other}, which touches ${state.name}"
                )


def apply_patterns(
    function: Function, patterns: Sequence[RewritePattern], module: Module | None = None
) -> bool:
    """Apply patterns to every op, in order, until none matches; whether anything changed.

    `module` is where patterns declare weights. A RewriteError names the pattern that never ends.
    """
    owner = module if module is not None else Module("")
    changed = False
    for _ in range(MAX_SWEEPS):
        last = _sweep(function, patterns, owner)
        if last is None:
            return changed
        changed = True
    raise RewriteError(
        f"function '{function.name}': pattern {type(last).__name__} still matches after "
        f"{MAX_SWEEPS} sweeps"
    )


def _sweep(
    function: Function, patterns: Sequence[RewritePattern], module: Module
) -> RewritePattern | None:
    """Try each pattern once on each op; the last one that changed something."""
    last = None
    for op in list(function.ops):
        for pattern in patterns:
            if not any(op is present for present in function.ops):
                break
            rewriter = Rewriter(function, module, op)
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.changed:
                last = pattern
    return last
