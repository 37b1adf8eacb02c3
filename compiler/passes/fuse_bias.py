"""Add biases where the sums are made."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import create_like, is_plain_linear, rewrite_module, sole_op
from ggufc.ir import Module, Op, RewritePattern, Rewriter


class FuseBias(Pass):
    """A `bias_add` becomes the bias of the linear before it.

    before: %l = linear(%x, [@w])          after: %y = linear(%x, [@w], bias=@b)
            %y = bias_add(%l, @b)
    """

    name: ClassVar[str] = "fuse-bias"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, BiasOfLinear())


class BiasOfLinear(RewritePattern):
    """bias_add(linear(x, weights), b) -> linear(x, weights, bias=b)."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        linear = sole_op(rewriter, op.operands["x"], "linear") if op.name == "bias_add" else None
        if linear is None or not is_plain_linear(linear):
            return
        rewriter.replace(op, create_like(rewriter, linear, bias=op.operands["bias"]))
        rewriter.erase(linear)
