"""Print -> parse -> print gives the same text, for every op and all that a module can hold."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.ir import (
    F32,
    I32,
    Buffer,
    GraphBuilder,
    Module,
    Rows,
    Symbol,
    TensorType,
    parse_module,
    print_module,
    verify,
)
from tests.support.op_samples import OpSample, all_samples, sample_ids
from tests.support.tiny_ir import TinyTransformer

SAMPLES = all_samples()
TEXT = st.text(max_size=12)
SCALARS = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), TEXT)


def assert_round_trip(module: Module) -> Module:
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    return again


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_ids(SAMPLES))
def test_every_op(sample: OpSample) -> None:
    again = assert_round_trip(sample.module)
    verify(again)
    for op, twin in zip(
        sample.module.functions["main"].ops, again.functions["main"].ops, strict=True
    ):
        assert twin.definition is op.definition
        assert twin.attributes == op.attributes
        assert [r.type for r in twin.results] == [r.type for r in op.results]


def test_a_whole_module() -> None:
    module = TinyTransformer().module()
    verify(module, "graph")
    again = assert_round_trip(module)
    verify(again, "graph")
    assert again.attributes == module.attributes
    assert again.weights["rope.freqs"].data == module.weights["rope.freqs"].data


def test_a_copy_shares_nothing_that_changes() -> None:
    module = TinyTransformer().module()
    text = print_module(module)
    for twin in (module.clone(), copy.deepcopy(module)):
        verify(twin, "graph")
        assert print_module(twin) == text
        twin.functions["prefill"].ops[0].attributes["scale"] = 2.0
        twin.functions["prefill"].ops[0].results[0].name = "other"
        twin.weights["token_embd.weight"].layout = "raw"
        twin.states.clear()
        assert print_module(module) == text


def test_plans_weights_and_odd_names() -> None:
    module = Module('quo"te', {"a": [1, 2.5, "x"], "b": True, "c": -0.0, "d": math.inf, "e": "\n"})
    module.weight("two words", TensorType((4, 8), F32), sources=("a b", 'c"d'))
    rows = (Rows('a "b"', 4, 6), "c", Rows("d", 0, 1))
    module.weight("rows", TensorType((4, 8), F32), sources=rows)
    placed = module.weight("w", TensorType((2,), F32), data=b"\0\0\x80?\0\0\0\0")
    placed.layout, placed.offset, placed.nbytes = "r16.q4_1", 64, 128
    builder = GraphBuilder(module, "f")
    x = builder.input("x", TensorType((Symbol("T", 4), 2), F32))
    y = builder.rms_norm(x, placed, eps=5e-324, name="näme")
    y.buffer = Buffer("arena", 0, 64)
    builder.returns(y, x)
    text = print_module(assert_round_trip(module))
    assert '%"n\\u00e4me" = rms_norm(%x, @w) {eps = 5e-324} : f32[T, 2] in arena[0:64]' in text
    assert 'weight @"two words" : f32[4, 8] from ["a b", "c\\"d"]' in text
    assert 'weight @rows : f32[4, 8] from ["a \\"b\\""[4:6], "c", "d"[0:1]]' in text
    assert 'weight @w : f32[2] = hex"0000803f00000000" layout r16.q4_1 at 64:192' in text


def test_a_symbol_with_another_bound_shows_it_again() -> None:
    module = Module("m")
    for name, bound in (("f", 4), ("g", 4), ("h", 8)):
        GraphBuilder(module, name).input("x", TensorType((Symbol("T", bound),), I32))
    text = print_module(assert_round_trip(module))
    assert [line.strip() for line in text.splitlines() if "func" in line] == [
        "func @f(%x: i32[T<=4]) {",
        "func @g(%x: i32[T]) {",
        "func @h(%x: i32[T<=8]) {",
    ]


def test_comments_and_spaces_do_not_matter() -> None:
    module = parse_module(
        'module "m" // a comment\n{ func @f ( %x : i32 [ T<=4 ] ) {\nreturn %x } }'
    )
    assert print_module(module) == (
        'module "m" {\n\n  func @f(%x: i32[T<=4]) {\n    return %x\n  }\n}\n'
    )


@settings(max_examples=60, deadline=None)
@given(
    name=TEXT,
    attributes=st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True),
        SCALARS | st.lists(SCALARS, max_size=3),
        max_size=4,
    ),
    weight=st.text(min_size=1, max_size=12),
    factor=st.floats(allow_nan=False),
    data=st.binary(min_size=8, max_size=8),
)
def test_any_names_numbers_and_bytes(
    name: str, attributes: dict[str, object], weight: str, factor: float, data: bytes
) -> None:
    module = Module(name, attributes)
    module.weight(weight, TensorType((2,), F32), data=data)
    builder = GraphBuilder(module, "f")
    x = builder.input("x", TensorType((3,), F32))
    builder.returns(builder.scale(x, factor=factor, name=weight))
    again = assert_round_trip(module)
    assert again.attributes == attributes
    assert again.functions["f"].ops[0].attributes == {"factor": factor}
    assert again.weights[weight].data == data
