"""Compute gate and up projections together, with the activation on the way out."""

from __future__ import annotations

from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import (
    is_plain_linear,
    rewrite_module,
    sole_op,
    take_one_input,
)
from ggufc.ir import Module, Op, RewritePattern, Rewriter, Weight

_ACTIVATIONS = ("silu", "gelu_tanh")


class FuseGlu(Pass):
    """A gated linear unit becomes one op over both weights.

    before: %g = linear(%x, [@gate])     after: %y = linear_glu(%x, @gate, @up)
            %u = linear(%x, [@up])                       {activation = "silu"}
            %a = silu(%g)
            %y = mul(%a, %u)
    """

    name: ClassVar[str] = "fuse-glu"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, ActivatedGateTimesUp())


class ActivatedGateTimesUp(RewritePattern):
    """mul(activation(linear(x, [gate])), linear(x, [up])), in either order -> linear_glu."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "mul":
            return
        for gated, other in (("a", "b"), ("b", "a")):
            activation = sole_op(rewriter, op.operands[gated], *_ACTIVATIONS)
            gate = activation and _single_linear(rewriter, activation, "x")
            up = _single_linear(rewriter, op, other)
            if activation and gate and up and _are_alike(gate, up):
                _fuse(op, rewriter, activation, gate, up)
                return


def _single_linear(rewriter: Rewriter, op: Op, operand: str) -> Op | None:
    """The linear over one weight that alone makes this operand."""
    linear = sole_op(rewriter, op.operands[operand], "linear")
    return linear if is_plain_linear(linear) and linear and len(linear.weights()) == 1 else None


def _are_alike(gate: Op, up: Op) -> bool:
    weights: tuple[Weight, ...] = (*gate.weights(), *up.weights())
    return gate.value("x") is up.value("x") and take_one_input(weights)


def _fuse(op: Op, rewriter: Rewriter, activation: Op, gate: Op, up: Op) -> None:
    operands = (gate.value("x"), *gate.weights(), *up.weights())
    rewriter.replace(op, rewriter.create("linear_glu", *operands, activation=activation.name))
    for unused in (activation, gate, up):
        rewriter.erase(unused)
