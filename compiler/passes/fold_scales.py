"""Multiply constants into the ops that scale anyway."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import create_like, rewrite_module, sole_op
from ggufc.ir import Module, Op, RewritePattern, Rewriter, Value

# Ops that are linear in x: scaling before or after is the same.
_LINEAR_IN_X = ("rope", "reshape", "slice")


class FoldScales(Pass):
    """A `scale` goes into the embedding's, the attention's or another one; by 1, it vanishes.

    before: %e = embed(%tokens, @t) {scale = 1.0}   after: %x = embed(%tokens, @t) {scale = 25.3}
            %x = scale(%e) {factor = 25.3}
    """

    name: ClassVar[str] = "fold-scales"

    def run(self, module: Module) -> None:
        """Apply the patterns of this file."""
        rewrite_module(module, ScaleByOne(), ScaleOfEmbed(), ScaleOfScale(), AttentionOfScale())


class ScaleByOne(RewritePattern):
    """scale(x) {factor = 1.0} -> x."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "scale" or op.attributes["factor"] != 1.0:
            return
        rewriter.replace(op, op.value("x"))


class ScaleOfEmbed(RewritePattern):
    """scale(embed(tokens, table) {scale}) {factor} -> embed(tokens, table) {scale * factor}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        embed = sole_op(rewriter, op.operands.get("x"), "embed") if op.name == "scale" else None
        if embed is None:
            return
        factor = embed.attributes["scale"] * op.attributes["factor"]
        rewriter.replace(op, create_like(rewriter, embed, scale=factor))
        rewriter.erase(embed)


class ScaleOfScale(RewritePattern):
    """scale(scale(x) {a}) {b} -> scale(x) {a * b}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        inner = sole_op(rewriter, op.operands.get("x"), "scale") if op.name == "scale" else None
        if inner is None:
            return
        factor = inner.attributes["factor"] * op.attributes["factor"]
        rewriter.replace(op, create_like(rewriter, inner, factor=factor))
        rewriter.erase(inner)


class AttentionOfScale(RewritePattern):
    """attention(rope(scale(q) {a}) ...) {scale = b} -> attention(rope(q) ...) {scale = a * b}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "attention":
            return
        scale = _scale_behind(rewriter, op.value("q"))
        if scale is None:
            return
        factor = scale.attributes["factor"] * op.attributes["scale"]
        rewriter.replace(scale, scale.value("x"))
        rewriter.replace(op, create_like(rewriter, op, scale=factor))


def _scale_behind(rewriter: Rewriter, value: Value) -> Op | None:
    """The scale that makes this value, perhaps through ops that scaling commutes with."""
    op = sole_op(rewriter, value, "scale", *_LINEAR_IN_X)
    while op is not None and op.name != "scale":
        op = sole_op(rewriter, op.value("x"), "scale", *_LINEAR_IN_X)
    return op
