"""Cut the attention of a decode step into parts of the positions."""

from __future__ import annotations

from typing import Any, ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.ir import Module, Op, RewritePattern, Rewriter, apply_patterns, max_dim
from ggufc.ir.ops.split_attention import part_count
from ggufc.ir.types import round_up

# Positions of a part: enough that its start costs little, few enough to share among threads. Very
# long contexts get longer parts, so that their results do not need much memory.
MIN_SPLIT, MAX_PARTS = 128, 256


class SplitAttention(Pass):
    """Attention in the decode graph becomes two ops, each of which has work for all threads.

    before: %a = attention(%q, ...)        after: %p = attention_partial(%q, ...)
                                                  %a = attention_combine(%p, %positions)

    Prefill has many tokens to share. A context of one part is left alone.
    """

    name: ClassVar[str] = "split-attention"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file to the decode graph."""
        if "decode" in module.functions:
            apply_patterns(module.functions["decode"], (LongAttention(),), module)


class LongAttention(RewritePattern):
    """attention(q, positions, ...) -> attention_combine(attention_partial(...), positions)."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "attention":
            return
        context = max_dim(op.states()[0].type.shape[1])
        split = max(MIN_SPLIT, round_up(-(-context // MAX_PARTS), MIN_SPLIT))
        parts = part_count(context, split)
        if parts < 2:
            return
        name = f"{op.result.name}.parts"
        arguments: dict[str, Any] = {**op.operands, **op.attributes}
        sinks = arguments.pop("sinks")
        partial = rewriter.create(
            "attention_partial", **arguments, name=name, split=split, parts=parts
        )
        combined = rewriter.create(
            "attention_combine",
            partial,
            op.operands["positions"],
            sinks,
            window=op.attributes["window"],
            split=split,
        )
        rewriter.replace(op, combined)
