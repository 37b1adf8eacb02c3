"""Split, normalise, rotate and store a layer's queries, keys and values in one sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ggufc.compiler.pass_manager import Pass
from ggufc.compiler.passes.matching import defining_op, erase_unused, rewrite_module
from ggufc.ir import Module, Op, RewritePattern, Rewriter, Value, Weight


class FuseRopeKvWrite(Pass):
    """The way from the columns of a joint projection to the cache becomes one op.

    before: %q = rope(reshape(slice(%qkv)), %table)     after: %q = rope_kv_write(%qkv, ...)
            %k = rope(reshape(slice(%qkv)), %table)
            %v = reshape(slice(%qkv))
            kv_write(%k, %v, %positions, %sequences, $k, $v)

    q and k may have a norm per head before the rotation.
    """

    name: ClassVar[str] = "fuse-rope-kv-write"

    def run(self, module: Module) -> None:
        """Apply the pattern of this file."""
        rewrite_module(module, HeadsIntoCache())


@dataclass(frozen=True)
class _Heads:
    """One third of a joint projection: its columns as heads, perhaps normalised and rotated."""

    source: Value
    start: int
    stop: int
    n_heads: int
    head_dim: int
    rope: Op | None
    norm: Op | None

    @property
    def norm_weight(self) -> Weight | None:
        """The weight of the norm per head, if there is one."""
        return None if self.norm is None else self.norm.weights()[0]


class HeadsIntoCache(RewritePattern):
    """kv_write of k and v from one value, with the q of their attention -> rope_kv_write."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        """See the class."""
        if op.name != "kv_write":
            return
        k, v = _heads(op.value("k")), _heads(op.value("v"))
        if k is None or v is None or k.rope is None or v.rope or v.norm:
            return
        for q_rope in _query_ropes(op, rewriter, k.rope):
            q = _heads(q_rope.result)
            if q is not None and _are_thirds(q, k, v) and _agree(q, k):
                _fuse(op, rewriter, q_rope, q, k)
                return


def _heads(value: Value) -> _Heads | None:
    """The columns that become these heads, or None if anything else happens to them."""
    rope = defining_op(value, "rope")
    value = rope.value("x") if rope is not None else value
    norm = defining_op(value, "rms_norm")
    value = norm.value("x") if norm is not None else value
    reshape = defining_op(value, "reshape")
    part = defining_op(reshape.value("x"), "slice") if reshape is not None else None
    if part is None or len(value.type.shape) != 3:
        return None
    _, n_heads, head_dim = value.type.max_shape
    start, stop = part.attributes["start"], part.attributes["stop"]
    return _Heads(part.value("x"), start, stop, n_heads, head_dim, rope, norm)


def _query_ropes(write: Op, rewriter: Rewriter, k_rope: Op) -> list[Op]:
    """Ropes like k's whose result the attention on the same caches reads, all of it afterwards."""
    ops = rewriter.function.ops
    written = ops.index(write)
    readers = [op for op in ops if op.name == "attention" and op.states() == write.states()]
    ropes = [defining_op(op.value("q"), "rope") for op in readers]
    return [
        rope
        for rope in dict.fromkeys(ropes)
        if rope is not None
        and rope.value("table") is k_rope.value("table")
        and rope.attributes == k_rope.attributes
        and all(ops.index(user) > written for user in rope.result.uses)
    ]


def _are_thirds(q: _Heads, k: _Heads, v: _Heads) -> bool:
    """Whether q, k and v are all columns of one value, in this order, in heads of one size."""
    bounds = (q.start, q.stop, k.stop, v.stop)
    wanted = (0, k.start, v.start, q.source.type.max_shape[1])
    return (
        q.source is k.source is v.source
        and bounds == wanted
        and q.head_dim == k.head_dim == v.head_dim
    )


def _agree(q: _Heads, k: _Heads) -> bool:
    """Norms of q and k, where both have one, add the same epsilon."""
    return q.norm is None or k.norm is None or q.norm.attributes == k.norm.attributes


def _fuse(write: Op, rewriter: Rewriter, q_rope: Op, q: _Heads, k: _Heads) -> None:
    norm = q.norm or k.norm
    rotated = rewriter.create(
        "rope_kv_write",
        q.source,
        q_rope.value("table"),
        *(write.operands[name] for name in ("positions", "sequences", "k_cache", "v_cache")),
        q_norm=q.norm_weight,
        k_norm=k.norm_weight,
        n_heads=q.n_heads,
        n_kv_heads=k.n_heads,
        head_dim=q.head_dim,
        pairing=q_rope.attributes["pairing"],
        eps=0.0 if norm is None else norm.attributes["eps"],
    )
    rewriter.replace(q_rope, rotated)
    unused = (q_rope.value("x"), write.value("k"), write.value("v"))
    rewriter.replace(write, ())
    for value in unused:
        erase_unused(rewriter, value)
