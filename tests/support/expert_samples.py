"""Samples of the ops that choose experts and multiply with theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ggufc.ir import I32, TensorType, Value
from ggufc.ir.ops.experts import GLUS
from tests.support.op_samples import FLOATS, QUANTIZED, OpSample, Sketch, T, samples_of

ROUTES: dict[str, tuple[int, bool, dict[str, Any]]] = {
    "softmax": (6, False, {"used": 2, "gating": "softmax"}),
    "normalized": (40, False, {"used": 5, "gating": "softmax", "normalize": True}),
    "chosen": (32, False, {"used": 4, "gating": "softmax_chosen"}),
    "chosen-bias": (17, True, {"used": 3, "gating": "softmax_chosen"}),
    "sigmoid": (16, True, {"used": 3, "gating": "sigmoid", "normalize": True, "scale": 2.5}),
    "all": (4, False, {"used": 4, "gating": "sigmoid"}),
    "groups": (
        32,
        True,
        {"used": 6, "gating": "sigmoid", "groups": 8, "groups_used": 3, "group_best": 2},
    ),
    "best-of-group": (
        20,
        False,
        {"used": 3, "gating": "softmax", "groups": 4, "groups_used": 2, "group_best": 1},
    ),
}


@samples_of("route")
def _route() -> Iterator[OpSample]:
    for label, (experts, has_bias, settings) in ROUTES.items():
        s = Sketch("route", label)
        logits = s.floats("logits", T, experts, spread=2.0)
        extra = {"bias": s.weight("bias", experts)} if has_bias else {}
        yield s.returns(*s.builder.route(logits, **extra, **settings))
    yield _ties()


def _ties() -> OpSample:
    """Equal logits, of any size: the first of equals is chosen."""
    s = Sketch("route", "ties", tokens=3)
    logits = s.floats("logits", T, 20)
    s.sample.inputs["logits"][...] = np.array([0.5, 200.0, -200.0], np.float32)[:, None]
    s.sample.inputs["logits"][0, [7, 18]] = 1.0
    return s.returns(*s.builder.route(logits, used=4, gating="softmax"))


def _ids(s: Sketch, used: int, experts: int) -> Value:
    """Distinct experts of each token; the last expert is never used, the first one often."""
    rows = [
        [0, *(1 + s.rng.permutation(experts - 2)[: used - 1])][:: 1 if t % 2 else -1]
        for t in range(s.tokens)
    ]
    s.sample.inputs["ids"] = np.array(rows, np.int32)
    return s.builder.input("ids", TensorType((T, used), I32))


@samples_of("group_experts")
def _group_experts() -> Iterator[OpSample]:
    for tokens in (1, 5):
        s = Sketch("group_experts", str(tokens), tokens)
        yield s.returns(*s.builder.group_experts(_ids(s, 3, 8), experts=8))


@samples_of("gather_rows")
def _gather_rows() -> Iterator[OpSample]:
    for label, width, to in (
        ("f32", 33, None), ("bf16a", 33, "bf16a"), ("q8a", 288, "q8a"), ("even", 64, None),
    ):  # fmt: skip
        s = Sketch("gather_rows", label)
        x = s.floats("x", T, width)
        x = x if to is None else s.builder.quantize(x, to=to)
        order, _, _ = s.builder.group_experts(_ids(s, 2, 6), experts=6)
        yield s.returns(s.builder.gather_rows(x, order))


@samples_of("group_heads")
def _group_heads() -> Iterator[OpSample]:
    s = Sketch("group_heads", "")
    positions = s.integers("positions", [3, 4, 5, 6, 7])
    yield s.returns(*s.builder.group_heads(positions, heads=3))


@samples_of("permute_rows")
def _permute_rows() -> Iterator[OpSample]:
    for label, width, to in (("f32", 33, None), ("bf16a", 34, "bf16a"), ("q8a", 64, "q8a")):
        s = Sketch("permute_rows", label)
        order, places, _ = s.builder.group_heads(s.integers("positions", [0, 1, 2, 3, 4]), heads=3)
        x = s.floats("x", T, 3, width)
        x = x if to is None else s.builder.quantize(x, to=to)
        moved = s.builder.permute_rows(x, order)
        yield s.returns(moved, s.builder.permute_rows(moved, places))


@samples_of("concat")
def _concat() -> Iterator[OpSample]:
    for label, inner in (("rows", ()), ("heads", (3,))):
        s = Sketch("concat", label)
        parts = [s.floats(f"x{i}", T, *inner, n) for i, n in enumerate((40, 7, 300))]
        yield s.returns(s.builder.concat(parts))


@samples_of("scale_experts")
def _scale_experts() -> Iterator[OpSample]:
    for experts, width in ((5, 16), (6, 300), (37, 33)):
        s = Sketch("scale_experts", f"{experts}x{width}", 11)
        x, starts = _rows(s, width, experts, None)
        yield s.returns(s.builder.scale_experts(x, starts, s.weight("factors", experts)))


@samples_of("combine_rows")
def _combine_rows() -> Iterator[OpSample]:
    for used, width in ((1, 16), (3, 300)):
        s = Sketch("combine_rows", f"{used}x{width}")
        _, places, _ = s.builder.group_experts(_ids(s, used, 6), experts=6)
        x, weights = s.floats("x", T, used, width), s.floats("weights", T, used)
        yield s.returns(s.builder.combine_rows(x, places, weights))


def _rows(s: Sketch, width: int, experts: int, to: str | None) -> tuple[Value, Value]:
    """Rows [T, 2, width] as activations of a type, and where each expert's start."""
    _, _, starts = s.builder.group_experts(_ids(s, 2, experts), experts=experts)
    x = s.floats("x", T, 2, width)
    return (x if to is None else s.builder.quantize(x, to=to)), starts


@samples_of("expert_linear")
def _expert_linear() -> Iterator[OpSample]:
    for type_name in FLOATS:
        s = Sketch("expert_linear", type_name)
        x, starts = _rows(s, 41, 5, None)
        weight = s.weight("w", 5, 19, 41, type_name=type_name)
        yield s.returns(s.builder.expert_linear(x, starts, weight, s.weight("bias", 5, 19)))
    for type_name in QUANTIZED:
        for to, tokens in (("q8a", 1), ("q8a", 12), ("bf16a", 12)):
            s = Sketch("expert_linear", f"{type_name}-{to}-{tokens}", tokens)
            x, starts = _rows(s, 256, 6, to)
            weight = s.weight("w", 6, 37, 256, type_name=type_name)
            yield s.returns(s.builder.expert_linear(x, starts, weight))

    floats = (("mxfp4", 96), ("q5_1", 32), ("nvfp4", 64), ("q5_k", 256), ("q6_k", 256))
    for type_name, width in floats:
        s = Sketch("expert_linear", f"{type_name}-float", 11)
        x, starts = _rows(s, width, 6, None)
        weight = s.weight("w", 6, 37, width, type_name=type_name)
        yield s.returns(s.builder.expert_linear(x, starts, weight))


@samples_of("expert_glu")
def _expert_glu() -> Iterator[OpSample]:
    for activation in GLUS:
        for types, to in (
            (("f32", "f16"), None), (("q4_0", "q8_0"), "q8a"), (("q5_k", "q6_k"), "bf16a"),
        ):  # fmt: skip
            s = Sketch("expert_glu", f"{activation}-{types[0]}", 9)
            x, starts = _rows(s, 256, 5, to)
            gate, up = (
                s.weight(name, 5, 35, 256, type_name=type_name)
                for name, type_name in zip(("gate", "up"), types, strict=True)
            )
            names = ("gate_bias", "up_bias") if activation == "clamped_swiglu" else ()
            biases = {name: s.weight(name, 5, 35) for name in names}
            yield s.returns(
                s.builder.expert_glu(x, starts, gate, up, **biases, activation=activation)
            )


@samples_of("scale_rows")
def _scale_rows() -> Iterator[OpSample]:
    s = Sketch("scale_rows", "")
    yield s.returns(s.builder.scale_rows(s.floats("x", T, 300), s.floats("factors", T, 1)))


@samples_of("sigmoid")
def _sigmoid() -> Iterator[OpSample]:
    s = Sketch("sigmoid", "")
    yield s.returns(s.builder.sigmoid(s.floats("x", T, 70, spread=30.0)))
