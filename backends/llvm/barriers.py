"""Which ops of a function need a barrier before them.

Between two barriers every thread runs the same ops in order, but each at its own pace. That is safe
exactly where no op touches memory that another op of the same stretch writes. The plan says what
each op touches: ranges of the arena, states, the logits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ggufc.backends.llvm.placement import Place, state_place, value_place
from ggufc.ir import Function, Op, StateEffect, View


@dataclass(frozen=True)
class Access:
    """What ops read and write."""

    reads: frozenset[Place] = frozenset()
    writes: frozenset[Place] = frozenset()

    def conflicts(self, later: Access) -> bool:
        """Whether `later` may not run at the same time as this."""
        return _meet(later.writes, self.reads | self.writes) or _meet(later.reads, self.writes)

    def __or__(self, other: Access) -> Access:
        return Access(self.reads | other.reads, self.writes | other.writes)


def _meet(some: Iterable[Place], others: Iterable[Place]) -> bool:
    others = list(others)
    return any(a.overlaps(b) for a in some for b in others)


def access(function: Function, op: Op) -> Access:
    """What one op reads and writes; a view touches nothing."""
    if op.definition.has(View):
        return Access()
    effect = op.definition.trait(StateEffect)
    states = frozenset(state_place(state) for state in op.states())
    reads = frozenset(value_place(function, value) for value in op.values()) | states
    writes = frozenset(value_place(function, result) for result in op.results)
    # An op that does not say what it does to a state may write it.
    return Access(reads, writes | states if effect is None or effect.writes else writes)


def barriers(function: Function) -> frozenset[int]:
    """Indices of the ops that need a barrier before them."""
    needed = set()
    stretch = Access()
    for index, op in enumerate(function.ops):
        own = access(function, op)
        if stretch.conflicts(own):
            needed.add(index)
            stretch = Access()
        stretch |= own
    return frozenset(needed)
