"""Add residuals where the sums are made, so that the planner can do it in place."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import create_like, rewrite_module, sole_op
from ggufc.ir import Module, Op, RewritePattern, Rewriter


class FuseResidual(Pass):
    """The sum of a linear and another value becomes the linear's residual.

    before: %l = linear(%x, [@w])          after: %y = linear(%x, [@w], residual=%r)
            %y = add(%l, %r)
    """

    name: ClassVar[str] = "fuse-residual"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, ResidualOfLinear())


class ResidualOfLinear(RewritePattern):
    """add(linear(x, ...), r) or add(r, linear(x, ...)) -> linear(x, ..., residual=r)."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class. Of two linears, the second operand takes the first as its residual."""
        if op.name != "add":
            return
        for term, residual in (("b", "a"), ("a", "b")):
            linear = sole_op(rewriter, op.operands[term], "linear")
            if linear is not None and linear.operands["residual"] is None:
                fused = create_like(rewriter, linear, residual=op.operands[residual])
                rewriter.replace(op, fused)
                rewriter.erase(linear)
                return
