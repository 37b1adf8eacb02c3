"""Quantise a norm's result while it is at hand."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import create_like, rewrite_module, sole_op
from ggufc.ir import Module, Op, RewritePattern, Rewriter


class FuseRmsNormQuantize(Pass):
    """A norm that only a quantisation uses becomes one op with it.

    before: %n = rms_norm(%x, @w)          after: %q = rms_norm_quantize(%x, @w) {to = "q8a"}
            %q = quantize(%n) {to = "q8a"}
    """

    name: ClassVar[str] = "fuse-rms-norm-quantize"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, QuantizeOfRmsNorm())


class QuantizeOfRmsNorm(RewritePattern):
    """quantize(rms_norm(x, w) {eps}) {to} -> rms_norm_quantize(x, w) {eps, to}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        norm = sole_op(rewriter, op.operands["x"], "rms_norm") if op.name == "quantize" else None
        if norm is None:
            return
        how = {name: op.attributes[name] for name in ("to", "refine")}
        fused = create_like(rewriter, norm, "rms_norm_quantize", **how)
        rewriter.replace(op, fused)
        rewriter.erase(norm)
