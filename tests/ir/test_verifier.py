"""Modules that break a rule: the message names function, op and operand and shows the op."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ggufc.ir import (
    F32,
    I32,
    OPS,
    Buffer,
    Function,
    GraphBuilder,
    IRError,
    Module,
    Op,
    Symbol,
    TensorType,
    Value,
    VerifyError,
    Weight,
    dtype,
    verify,
)
from tests.support.tiny_ir import TinyTransformer

T = Symbol("T", 4)
X = TensorType((T, 32), F32)


def small() -> tuple[Module, Function]:
    """norm -> silu -> reshape -> scale -> logits over one weight."""
    module = Module("m")
    b = GraphBuilder(module, "f")
    x = b.input("x", X)
    norm = b.rms_norm(x, module.weight("w", TensorType((32,), F32)), eps=0.5, name="norm")
    heads = b.reshape(b.silu(norm), shape=(T, 2, 16), name="heads")
    b.returns(b.scale(heads, factor=2.0, name="out"))
    return module, b.function


def op(function: Function, name: str) -> Op:
    return next(op for op in function.ops if op.name == name)


def swap_ops(module: Module, f: Function) -> None:
    f.ops[0], f.ops[1] = f.ops[1], f.ops[0]


def wrong_type(module: Module, f: Function) -> None:
    op(f, "silu").result.type = TensorType((T, 33), F32)


def other_weight(module: Module, f: Function) -> None:
    op(f, "rms_norm").set_operand("weight", Weight("w", TensorType((32,), F32)))


def value_of_another_function(module: Module, f: Function) -> None:
    stranger = GraphBuilder(module, "g").input("y", X)
    op(f, "silu").set_operand("x", stranger)


def two_equal_names(module: Module, f: Function) -> None:
    op(f, "silu").result.name = "norm"


def bad_attribute(module: Module, f: Function) -> None:
    op(f, "rms_norm").attributes["eps"] = "small"


def missing_attribute(module: Module, f: Function) -> None:
    del op(f, "rms_norm").attributes["eps"]


def lost_use(module: Module, f: Function) -> None:
    op(f, "silu").drop_uses()


def stale_use(module: Module, f: Function) -> None:
    norm = op(f, "rms_norm").result
    Op(OPS["silu"], {"x": norm}, {}, [Value("y", X)])


def undefined_output(module: Module, f: Function) -> None:
    f.outputs = [Value("y", X)]


def two_bounds(module: Module, f: Function) -> None:
    f.add_input("rows", TensorType((Symbol("T", 5),), I32))


def quantised_input(module: Module, f: Function) -> None:
    f.add_input("q", TensorType((T, 32), dtype("q8a")))


def renamed_key(module: Module, f: Function) -> None:
    module.weights["v"] = module.weights.pop("w")


def short_data(module: Module, f: Function) -> None:
    weight = module.weights["w"]
    weight.data, weight.sources = bytes(127), ()


def partial_block(module: Module, f: Function) -> None:
    module.weight("q", TensorType((4, 30), dtype("q4_0")))


def symbolic_weight(module: Module, f: Function) -> None:
    module.weight("q", TensorType((T,), F32))


def half_a_place(module: Module, f: Function) -> None:
    module.weights["w"].offset = 64


CASES: list[tuple[Callable[[Module, Function], None], str]] = [
    (
        swap_ops,
        "function 'f', op silu, operand 'x': %norm is not defined before its use; "
        "at: %silu = silu(%norm) : f32[T, 32]",
    ),
    (
        wrong_type,
        "function 'f', op silu, result %silu: expected f32[T<=4, 32], found f32[T<=4, 33]; at: ",
    ),
    (
        other_weight,
        "function 'f', op rms_norm, operand 'weight': @w is not declared in the module; at: ",
    ),
    (
        value_of_another_function,
        "function 'f', op silu, operand 'x': %y is not defined before its use; at: ",
    ),
    (
        two_equal_names,
        "function 'f', op silu, result %norm: another value has this name; at: ",
    ),
    (
        bad_attribute,
        "function 'f', op rms_norm, attribute 'eps': expected float, found 'small'; "
        'at: %norm = rms_norm(%x, @w) {eps = "small"} : f32[T, 32]',
    ),
    (
        missing_attribute,
        "function 'f', op rms_norm, attribute 'eps': missing; expected float; at: ",
    ),
    (
        lost_use,
        "function 'f', op silu, operand 'x': %norm does not list this op among its uses; at: ",
    ),
    (
        stale_use,
        "function 'f', op rms_norm, result %norm: used by <%y = silu>, not in the function; at: ",
    ),
    (undefined_output, "function 'f': returns %y, which it does not define"),
    (two_bounds, "function 'f': symbol T: expected one bound, found 4 and 5"),
    (
        quantised_input,
        "function 'f': input %q: q8a[T<=4, 32]: expected a plain tensor that no op defines",
    ),
    (renamed_key, "module 'm': 'w' is listed as 'v'"),
    (
        short_data,
        "weight @w: expected 128 bytes of data for f32[32] and no sources, "
        "found 127 bytes and 0 sources",
    ),
    (partial_block, "weight @q: q4_0: a row of 30 elements is not a multiple of the block of 32"),
    (symbolic_weight, "weight @q: expected fixed dimensions above 0, found f32[T<=4]"),
    (half_a_place, "weight @w: expected offset and nbytes together, found one of them"),
]


@pytest.mark.parametrize(("damage", "message"), CASES, ids=[c.__name__ for c, _ in CASES])
def test_broken_rule(damage: Callable[[Module, Function], None], message: str) -> None:
    module, function = small()
    verify(module)
    damage(module, function)
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        verify(module)
    assert "\n" not in str(caught.value)


def test_stage_graph_has_no_fused_ops() -> None:
    module, function = small()
    b = GraphBuilder(module, function)
    b.returns(b.quantize(op(function, "silu").result))
    verify(module, "fused")
    message = (
        r"op quantize, not allowed at stage graph; allowed at: fused, planned; at: %quantize ="
    )
    with pytest.raises(VerifyError, match=message):
        verify(module, "graph")
    with pytest.raises(IRError, match="unknown stage 'llvm'; known: graph, fused, planned"):
        verify(module, "llvm")


def planned() -> tuple[Module, Function]:
    module, function = small()
    module.weights["w"].layout, module.weights["w"].offset, module.weights["w"].nbytes = (
        "raw",
        0,
        128,
    )
    op(function, "rms_norm").result.buffer = Buffer("arena", 0, 512)
    for name in ("silu", "reshape"):
        op(function, name).result.buffer = Buffer("arena", 512, 512)
    return module, function


def set_buffer(name: str, buffer: Buffer | None) -> Callable[[Module, Function], None]:
    def damage(module: Module, function: Function) -> None:
        op(function, name).result.buffer = buffer

    return damage


def unplaced(module: Module, function: Function) -> None:
    module.weights["w"].layout = None


PLAN_CASES: list[tuple[Any, str]] = [
    (
        set_buffer("silu", None),
        "op silu, result %silu has no buffer; expected one at stage planned",
    ),
    (
        set_buffer("rms_norm", Buffer("arena", 0, 511)),
        "result %norm has buffer [0:511]; expected an offset of 0 or more and at least 512 bytes",
    ),
    (
        set_buffer("rms_norm", Buffer("arena", -64, 512)),
        "result %norm has buffer [-64:448]; expected an offset of 0 or more and at least 512 bytes",
    ),
    (
        set_buffer("reshape", Buffer("arena", 0, 512)),
        "op reshape, result %heads is a view of %silu; expected its buffer",
    ),
    (
        set_buffer("scale", Buffer("arena", 0, 512)),
        "op scale, result %out has a buffer; expected none outside the arena",
    ),
    (unplaced, "weight @w: expected a layout and a place at stage planned, found none"),
]


@pytest.mark.parametrize(("damage", "message"), PLAN_CASES, ids=range(len(PLAN_CASES)))
def test_plans(damage: Callable[[Module, Function], None], message: str) -> None:
    module, function = planned()
    verify(module, "planned")
    damage(module, function)
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(module, "planned")


def test_buffers_come_with_the_plan_only() -> None:
    with pytest.raises(
        VerifyError, match="result %norm has a buffer; expected none at stage fused"
    ):
        verify(planned()[0], "fused")


def test_views_of_inputs_and_outputs_lie_outside_the_arena() -> None:
    module = Module("m")
    b = GraphBuilder(module, "f")
    view = b.reshape(b.input("x", X), shape=(T, 2, 16))
    out = b.silu(view)
    b.returns(b.reshape(out, shape=(T, 32)))
    verify(module, "planned")
    out.buffer = Buffer("arena", 0, 512)
    with pytest.raises(VerifyError, match="result %silu has a buffer; expected none outside"):
        verify(module, "planned")


def test_the_definition_is_the_registered_one() -> None:
    module, function = small()
    first = function.ops[0]
    first.definition = type(first.definition)(**{**vars(first.definition), "doc": "another"})
    with pytest.raises(VerifyError, match="definition: expected the registered one of rms_norm"):
        verify(module)


def test_a_whole_model_is_valid_and_its_ops_know_their_parts() -> None:
    module = TinyTransformer().module()
    verify(module, "graph")
    function = module.functions["prefill"]
    attention = op(function, "attention")
    assert [s.name for s in attention.states()] == ["blk.0.k", "blk.0.v"]
    assert [v.name for v in attention.values()] == ["blk.0.rope", "positions", "sequences"]
    assert attention.value("q").op is not None
    assert op(function, "rms_norm").weights()[0].name == "blk.0.attn_norm.weight"
    assert function.input("tokens").uses == (function.ops[0],)
    for wrong in (
        lambda: attention.value("k_cache"),
        lambda: op(function, "kv_write").result,
        lambda: attention.set_operand("k", None),
        lambda: function.input("token"),
        lambda: function.erase(attention),
    ):
        with pytest.raises(IRError):
            wrong()
