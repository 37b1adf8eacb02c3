"""How fast an op could be on this machine: what it has to move, and what it has to compute, at the
machine's limits.

Weights and states come from memory, at the speed of their pages; other values pass through a
cache. An op cannot take less time than the slowest of the three.
"""

from dataclasses import dataclass

from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.compiler.costs import Cost, compute_type
from ggufc.ir import Op
from ggufc.profiling.limits import Limits

STATE_PAGES = "4k"


@dataclass(frozen=True)
class Bound:
    """The least seconds, and what decides them: `memory`, `cache` or a unit of `Limits`."""

    name: str
    seconds: float


def unit_of(op: Op, isa: Isa) -> str:
    """The unit that an op's products run on."""
    kind = compute_type(op)
    if kind == "bf16" and isa.tiles:
        return "bf16_tiles"
    if kind == "bf16" and isa.has_bf16_dot:
        return "bf16_dot"
    return "int8_dot" if kind == "int8" else "f32_fma"


def weight_pages(huge_part: float | None) -> str:
    """The kind of pages that weights lie on, by the part of them that lies on huge ones."""
    return "2m" if huge_part is not None and huge_part > 0.5 else "4k"


class Bounds:
    """The bounds of ops on a machine with these limits and weights on these pages."""

    def __init__(self, limits: Limits, pages: str) -> None:
        self.limits, self.pages = limits, pages
        self._isa = isa_named(limits.isa)

    def of(self, op: Op, cost: Cost) -> Bound:
        """The bound of an op that costs this much."""
        read, unit = self.limits.read, unit_of(op, self._isa)
        memory = cost.weight_bytes / read[self.pages] + cost.state_bytes / read[STATE_PAGES]
        candidates = (
            Bound("memory", memory),
            Bound("cache", cost.value_bytes / read["cache"]),
            Bound(unit, cost.flops / self.limits.operations[unit]),
        )
        return max(candidates, key=lambda bound: bound.seconds)
