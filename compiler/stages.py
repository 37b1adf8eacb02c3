"""One model at all stages of a compile."""

from dataclasses import dataclass, field

from ggufc.backends.base import CompiledObject
from ggufc.ir import Module


@dataclass
class Stages:
    """The program as `graph`, and the later stages by instruction set, best first."""

    graph: Module
    fused: dict[str, Module] = field(default_factory=dict)
    planned: dict[str, Module] = field(default_factory=dict)
    objects: dict[str, CompiledObject] = field(default_factory=dict)

    @property
    def any_planned(self) -> Module:
        """One planned module: weights have the same places in all of them."""
        return next(iter(self.planned.values()))
