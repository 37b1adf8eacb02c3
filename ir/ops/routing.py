"""Which experts see which tokens: routing, the order of rows by expert, and the way back.

Of T tokens with K experts each there are T K pairs, number t K + j for the j-th expert of token t.
Rows of pairs are kept in the order of their experts, so that each expert's lie side by side.
"""

from __future__ import annotations

import numpy as np

from ggufc.ir.errors import OperandError
from ggufc.ir.numerics import Array, F32Array, Q8aArray, Runtime
from ggufc.ir.opdef import Attribute, InPlace, Pure, ValueOperand, WeightOperand, defop
from ggufc.ir.types import F32, I32, Dim, TensorType, max_dim

GATINGS = ("softmax", "sigmoid", "softmax_chosen")
# What a sum of weights counts as, at least, when weights are divided by it.
SMALLEST_SUM = 1e-20
# Choices of groups that are out, below all others.
_EXCLUDED = -2e30


def _scores(logits: F32Array, gating: str) -> F32Array:
    """What each expert's weight is made of, before any is chosen."""
    wide = logits.astype(np.float64)
    if gating == "softmax_chosen":
        return logits
    if gating == "sigmoid":
        with np.errstate(over="ignore"):
            return (1.0 / (1.0 + np.exp(-wide))).astype(np.float32)
    return _softmax(wide).astype(np.float32)


def _softmax(wide: Array) -> Array:
    exponentials = np.exp(wide - wide.max(axis=-1, keepdims=True))
    found: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return found


def _best(values: Array, count: int) -> Array:
    """The indices of the largest `count` in each row, largest first, of equals the first one."""
    found: Array = np.argsort(-values, axis=-1, kind="stable")[:, :count]
    return found


def _without_groups(choice: Array, groups: int, groups_used: int, group_best: int) -> Array:
    """Choices with those of all but the best groups excluded."""
    by_group = choice.reshape(len(choice), groups, -1)
    marks = np.sort(by_group, axis=-1)[..., -group_best:].sum(axis=-1, dtype=np.float32)
    keep = np.zeros((len(choice), groups), bool)
    np.put_along_axis(keep, _best(marks, groups_used), True, axis=1)
    found: Array = np.where(keep[..., None], by_group, np.float32(_EXCLUDED))
    return found.reshape(choice.shape)


def check_routing(n: Dim, used: int, groups: int, groups_used: int, group_best: int) -> None:
    """As many experts as are used exist, in the groups that are used."""
    count = max_dim(n)
    if groups < 1 or count % groups or not 1 <= groups_used <= groups:
        raise OperandError(
            "attributes 'groups', 'groups_used'",
            f"expected equal groups of {count} experts and 1 or more of them used, "
            f"found {groups}, {groups_used}",
        )
    size = count // groups
    if not 1 <= used <= groups_used * size:
        raise OperandError(
            "attribute 'used'", f"expected 1 to {groups_used * size} experts, found {used}"
        )
    if not 1 <= group_best <= size:
        raise OperandError("attribute 'group_best'", f"expected 1 to {size}, found {group_best}")


@defop
class Route:
    """The `used` experts of each token, best first, and their weights.

    Scores are softmax or sigmoid of the logits, or the logits themselves (softmax_chosen). Chosen
    are the largest of score + bias, of equals the first; without bias and groups the largest
    logits, which is the same. Of several groups of experts only `groups_used` count, those with the
    largest sum of their `group_best` best. Weights are the scores of those chosen (their softmax
    for softmax_chosen), divided by their sum if `normalize`, times scale.
    """

    logits = ValueOperand("f32[T, E]")
    bias = WeightOperand("f32[E]", optional=True)
    used = Attribute("int")
    gating = Attribute("str", choices=GATINGS)
    normalize = Attribute("bool", False)
    scale = Attribute("float", 1.0)
    groups = Attribute("int", 1)
    groups_used = Attribute("int", 1)
    group_best = Attribute("int", 1)
    traits = (Pure(),)

    @staticmethod
    def infer(
        logits: TensorType,
        bias: TensorType | None,
        used: int,
        gating: str,
        normalize: bool,
        scale: float,
        groups: int,
        groups_used: int,
        group_best: int,
    ) -> tuple[TensorType, TensorType]:
        check_routing(logits.shape[1], used, groups, groups_used, group_best)
        shape = (logits.shape[0], used)
        return TensorType(shape, I32), TensorType(shape, F32)

    @staticmethod
    def reference(
        logits: F32Array,
        bias: F32Array | None,
        used: int,
        gating: str,
        normalize: bool,
        scale: float,
        groups: int,
        groups_used: int,
        group_best: int,
    ) -> tuple[Array, F32Array]:
        scores = _scores(logits, gating)
        choice = logits if bias is None and groups == 1 else scores
        choice = choice if bias is None else choice + bias
        if groups > 1:
            choice = _without_groups(choice, groups, groups_used, group_best)
        ids = _best(choice, used)
        weights = np.take_along_axis(scores, ids, axis=1).astype(np.float64)
        if gating == "softmax_chosen":
            weights = _softmax(weights)
        if normalize:
            weights /= np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST_SUM)
        return ids.astype(np.int32), (weights * scale).astype(np.float32)


@defop
class GroupExperts:
    """Pairs (token, expert) in the order of their experts, and within one of their numbers.

    order[p] is the number of the pair that is p-th; places is its inverse; starts[e] is where the
    pairs of expert e begin, starts[experts] their number.
    """

    ids = ValueOperand("i32[T, K]")
    experts = Attribute("int")
    traits = (Pure(),)

    @staticmethod
    def infer(ids: TensorType, experts: int) -> tuple[TensorType, TensorType, TensorType]:
        if experts < 1:
            raise OperandError("attribute 'experts'", f"expected 1 or more, found {experts}")
        return ids, ids, TensorType((experts + 1,), I32)

    @staticmethod
    def reference(ids: Array, experts: int) -> tuple[Array, Array, Array]:
        flat = ids.reshape(-1)
        order = np.argsort(flat, kind="stable").astype(np.int32)
        places = np.empty_like(order)
        places[order] = np.arange(len(order), dtype=np.int32)
        starts = np.zeros(experts + 1, np.int32)
        starts[1:] = np.cumsum(np.bincount(flat, minlength=experts))
        return order.reshape(ids.shape), places.reshape(ids.shape), starts


@defop
class GroupHeads:
    """As `group_experts` where expert h has the rows of head h of every token."""

    positions = ValueOperand("i32[T]")
    heads = Attribute("int")
    traits = (Pure(),)

    @staticmethod
    def infer(positions: TensorType, heads: int) -> tuple[TensorType, TensorType, TensorType]:
        if heads < 1:
            raise OperandError("attribute 'heads'", f"expected 1 or more, found {heads}")
        pairs = positions.with_shape((positions.shape[0], heads))
        return pairs, pairs, TensorType((heads + 1,), I32)

    @staticmethod
    def reference(positions: Array, heads: int) -> tuple[Array, Array, Array]:
        tokens = len(positions)
        pairs = np.arange(tokens * heads, dtype=np.int32)
        order = pairs.reshape(tokens, heads).T.reshape(tokens, heads)
        places = pairs.reshape(heads, tokens).T
        return order, places, tokens * np.arange(heads + 1, dtype=np.int32)


@defop
class PermuteRows:
    """Row p of the result is row order[p] of x; rows are counted over both leading axes."""

    x = ValueOperand("f32|bf16a|q8a[T, K, D]")
    order = ValueOperand("i32[T, K]")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType, order: TensorType) -> TensorType:
        return x

    @staticmethod
    def reference(x: Runtime, order: Array) -> Runtime:
        first, second = np.divmod(order, order.shape[1])
        if isinstance(x, Q8aArray):
            return Q8aArray(x.qs[first, second], x.d[first, second])
        return x[first, second]


@defop
class GatherRows:
    """For each pair, in `order`, its token's row of x."""

    x = ValueOperand("f32|bf16a|q8a[T, D]")
    order = ValueOperand("i32[T, K]")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType, order: TensorType) -> TensorType:
        return x.with_shape((*order.shape, x.shape[1]))

    @staticmethod
    def reference(x: Runtime, order: Array) -> Runtime:
        tokens = order // order.shape[1]
        return Q8aArray(x.qs[tokens], x.d[tokens]) if isinstance(x, Q8aArray) else x[tokens]


@defop
class ScaleExperts:
    """x, rows in the order of their experts, times the factor of each row's expert.

    Rows starts[e] .. starts[e + 1] belong to expert e.
    """

    x = ValueOperand("f32[T, K, D]")
    starts = ValueOperand("i32[_]")
    factors = WeightOperand("f32[E]")
    traits = (Pure(), InPlace("x"))

    @staticmethod
    def infer(x: TensorType, starts: TensorType, factors: TensorType) -> TensorType:
        if max_dim(starts.shape[0]) != max_dim(factors.shape[0]) + 1:
            raise OperandError(
                "operand 'starts'", f"expected one more than in {factors}, found {starts}"
            )
        return x

    @staticmethod
    def reference(x: F32Array, starts: Array, factors: F32Array) -> F32Array:
        per_row = np.repeat(factors, np.diff(starts)).reshape(*x.shape[:2], 1)
        return x * per_row


@defop
class CombineRows:
    """For each token the sum of its pairs' rows of x, at `places`, times their weights."""

    x = ValueOperand("f32[T, K, D]")
    places = ValueOperand("i32[T, K]")
    weights = ValueOperand("f32[T, K]")
    traits = (Pure(),)

    @staticmethod
    def infer(x: TensorType, places: TensorType, weights: TensorType) -> TensorType:
        return x.with_shape((x.shape[0], x.shape[2]))

    @staticmethod
    def reference(x: F32Array, places: Array, weights: F32Array) -> F32Array:
        rows = x.reshape(-1, x.shape[2])[places].astype(np.float64)
        sums: Array = np.einsum("tkd,tk->td", rows, weights.astype(np.float64))
        return sums.astype(np.float32)
