"""Compute queries, keys and values in one linear over three weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import (
    defining_op,
    joined_name,
    rewrite_module,
    take_one_input,
)
from ggufc.ir import F32, Module, Op, RewritePattern, Rewriter, TensorType, Value, Weight

# What may lie between a projection and the attention that it feeds.
_BETWEEN = (
    "reshape", "slice", "rms_norm", "layer_norm", "scale_columns", "rope", "scale", "clamp",
)  # fmt: skip


class FuseQkv(Pass):
    """Linears of one input that feed one attention become one linear; its columns are sliced.

    before: %q = linear(%x, [@q])      after: %qkv = linear(%x, [@q, @k, @v])
            %k = linear(%x, [@k])             %q = slice(%qkv) {start = 0, stop = 64}
            %v = linear(%x, [@v])             %k = slice(%qkv) {start = 64, stop = 96} ...

    Biases, if all have one, become one weight made of theirs.
    """

    name: ClassVar[str] = "fuse-qkv"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, ProjectionsOfOneAttention())


class ProjectionsOfOneAttention(RewritePattern):
    """The linears behind kv_write's k and v and behind the q of the attention on its caches."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "kv_write":
            return
        linears = _projections(op, rewriter)
        if len(linears) > 1 and _can_join(linears):
            _join(linears, rewriter)


def _projections(write: Op, rewriter: Rewriter) -> list[Op]:
    """The linears of q, k and v in this order: those that have the input of k's and no residual."""
    queries = [
        other.value("q")
        for other in rewriter.function.ops
        if other.name == "attention" and other.operands["k_cache"] is write.operands["k_cache"]
    ]
    found = [_linear_behind(v) for v in (*queries[:1], write.value("k"), write.value("v"))]
    linears = list(dict.fromkeys(op for op in found if op is not None))
    if not linears:
        return []
    source = linears[-1].value("x")
    return [op for op in linears if op.value("x") is source and op.operands["residual"] is None]


def _linear_behind(value: Value) -> Op | None:
    op = defining_op(value, "linear", *_BETWEEN)
    while op is not None and op.name != "linear":
        op = defining_op(op.value("x"), "linear", *_BETWEEN)
    return op


def _can_join(linears: Sequence[Op]) -> bool:
    """All weights take the same kind of input; all have a bias from the file, or none has."""
    biases = [op.operands["bias"] for op in linears]
    none = all(bias is None for bias in biases)
    stored = all(isinstance(bias, Weight) and bias.sources for bias in biases)
    return (none or stored) and take_one_input(tuple(w for op in linears for w in _matrices(op)))


def _matrices(linear: Op) -> tuple[Weight, ...]:
    bias = linear.operands["bias"]
    return tuple(weight for weight in linear.weights() if weight is not bias)


def _join(linears: Sequence[Op], rewriter: Rewriter) -> None:
    first = min(linears, key=rewriter.function.ops.index)
    joined = rewriter.create(
        "linear",
        linears[0].value("x"),
        tuple(weight for op in linears for weight in _matrices(op)),
        bias=_joined_bias(linears, rewriter),
        name=joined_name([op.result.name for op in linears]),
        before=first,
    )
    start = 0
    for op in linears:
        stop = start + op.result.type.max_shape[1]
        part = rewriter.create("slice", joined, start=start, stop=stop, before=op)
        rewriter.replace(op, part)
        start = stop


def _joined_bias(linears: Sequence[Op], rewriter: Rewriter) -> Weight | None:
    biases = [bias for op in linears if isinstance(bias := op.operands["bias"], Weight)]
    if not biases:
        return None
    name = joined_name([bias.name for bias in biases])
    size = sum(bias.type.max_shape[0] for bias in biases)
    sources = [source for bias in biases for source in bias.sources]
    return rewriter.weight(name, TensorType((size,), F32), sources)
