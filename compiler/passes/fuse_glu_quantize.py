"""Round a gated linear unit's result while it is at hand."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import create_like, rewrite_module, sole_op
from ggufc.ir import Module, Op, RewritePattern, Rewriter


class FuseGluQuantize(Pass):
    """A gated linear unit that is only wanted in bf16 writes it.

    before: %y = linear_glu(%x, @gate, @up)    after: %q = linear_glu(%x, @gate, @up)
            %q = quantize(%y) {to = "bf16a"}                  {to = "bf16a"}

    Each element is rounded by itself; blocks of q8a span the work of several threads.
    """

    name: ClassVar[str] = "fuse-glu-quantize"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, RoundedGlu())


class RoundedGlu(RewritePattern):
    """quantize(linear_glu(x, gate, up)) {to = bf16a} -> linear_glu(x, gate, up) {to = bf16a}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "quantize" or op.attributes["to"] != "bf16a":
            return
        glu = sole_op(rewriter, op.operands["x"], "linear_glu")
        if glu is not None:
            rewriter.replace(op, create_like(rewriter, glu, to="bf16a"))
            rewriter.erase(glu)
