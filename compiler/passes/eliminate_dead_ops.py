"""Drop what nothing needs."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.ir import Function, Module


class EliminateDeadOps(Pass):
    """Ops whose results nothing uses and that write no state go, then weights that no op uses.

    before: %a = silu(%x)                        after: %b = scale(%x) {factor = 2.0}
            %b = scale(%x) {factor = 2.0}               return %b
            return %b
    """

    name: ClassVar[str] = "eliminate-dead-ops"

    def run(self, module: Module) -> None:
        """Ops from the last to the first, so that what feeds a dead op is dead in turn."""
        for function in module.functions.values():
            _drop_ops(function)
        used = {w for f in module.functions.values() for op in f.ops for w in op.weights()}
        for weight in [w for w in module.weights.values() if w not in used]:
            del module.weights[weight.name]


def _drop_ops(function: Function) -> None:
    for op in reversed(list(function.ops)):
        if op.definition.is_removable and not any(function.is_used(r) for r in op.results):
            function.erase(op)
