"""Patterns: what they change, and the mistakes that the rewriter refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ggufc.ir import (
    F32,
    Function,
    GraphBuilder,
    IRError,
    Module,
    Op,
    RewriteError,
    RewritePattern,
    Rewriter,
    Symbol,
    TensorType,
    apply_patterns,
    parse_module,
    print_module,
    verify,
)
from tests.support.tiny_ir import TinyTransformer

T = Symbol("T", 4)
X = TensorType((T, 8), F32)


def parsed(body: str) -> tuple[Module, Function]:
    text = f"""module "m" {{
  weight @w : f32[8, 8]
  state $k : f32[S<=2, C<=8, 2, 4]
  state $v : f32[S, C, 2, 4]

  func @f(%x: f32[T<=4, 8], %h: f32[T, 2, 4], %p: i32[T]) {{
{body}
  }}
}}
"""
    module = parse_module(text)
    verify(module)
    return module, module.functions["f"]


def body(module: Module) -> list[str]:
    lines = print_module(module).splitlines()
    start = next(i for i, line in enumerate(lines) if "func" in line)
    return [line.strip() for line in lines[start + 1 : -2]]


class DoubleScale(RewritePattern):
    """scale(scale(x) {a}) {b} -> scale(x) {a b}."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        inner = op.value("x").op if op.name == "scale" else None
        if inner is None or inner.name != "scale":
            return
        factor = op.attributes["factor"] * inner.attributes["factor"]
        rewriter.replace(op, rewriter.create("scale", inner.value("x"), factor=factor))
        rewriter.erase_if_unused(inner)


class ResidualAdd(RewritePattern):
    """add(linear(x), r) -> linear(x, residual=r)."""

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        if op.name != "add":
            return
        product = op.value("a").op
        if (
            product is None
            or product.name != "linear"
            or rewriter.only_use(op.value("a")) is not op
        ):
            return
        x, weights = product.value("x"), product.operands["weights"]
        fused = rewriter.create("linear", x, weights, residual=op.value("b"))
        rewriter.replace(op, fused)
        rewriter.erase(product)


def test_a_pattern_applies_until_nothing_matches() -> None:
    module, function = parsed(
        """    %a = scale(%x) {factor = 2.0} : f32[T, 8]
    %b = scale(%a) {factor = 3.0} : f32[T, 8]
    %c = scale(%b) {factor = 4.0} : f32[T, 8]
    return %c"""
    )
    assert apply_patterns(function, [DoubleScale()])
    verify(module)
    assert body(module) == ["%c = scale(%x) {factor = 24.0} : f32[T, 8]", "return %c"]
    assert not apply_patterns(function, [DoubleScale()])


def test_a_value_with_another_use_is_kept() -> None:
    module, function = parsed(
        """    %a = scale(%x) {factor = 2.0} : f32[T, 8]
    %b = scale(%a) {factor = 3.0} : f32[T, 8]
    %c = add(%a, %b) : f32[T, 8]
    return %c"""
    )
    assert apply_patterns(function, [DoubleScale()])
    verify(module)
    assert body(module) == [
        "%a = scale(%x) {factor = 2.0} : f32[T, 8]",
        "%b = scale(%x) {factor = 6.0} : f32[T, 8]",
        "%c = add(%a, %b) : f32[T, 8]",
        "return %c",
    ]


def test_only_use_is_not_an_output() -> None:
    text = """    %a = linear(%x, [@w]) : f32[T, 8]
    %b = add(%a, %x) : f32[T, 8]
    return %b"""
    module, function = parsed(text)
    assert apply_patterns(function, [ResidualAdd()])
    verify(module)
    assert body(module) == ["%b = linear(%x, [@w], residual=%x) : f32[T, 8]", "return %b"]
    kept, function = parsed(text.replace("return %b", "return %b, %a"))
    assert not apply_patterns(function, [ResidualAdd()])
    assert body(kept)[-1] == "return %b, %a"


def test_residuals_of_a_whole_model() -> None:
    module = TinyTransformer().module()
    for function in module.functions.values():
        assert apply_patterns(function, [ResidualAdd()], module)
        assert not [op for op in function.ops if op.name == "add"]
    verify(module, "graph")


class Apply(RewritePattern):
    """Calls a function once, on the op of a given name."""

    def __init__(self, op_name: str, action: Callable[[Op, Rewriter], None]) -> None:
        self.op_name = op_name
        self.action = action
        self.done = False

    def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
        if op.name == self.op_name and not self.done:
            self.done = True
            self.action(op, rewriter)


STATEFUL = """    %a = silu(%x) : f32[T, 8]
    kv_write(%h, %h, %p, %p, $k, $v)
    %b = attention(%h, %p, %p, $k, $v) {scale = 1.0, window = 0, softcap = 0.0} : f32[T, 2, 4]
    %c = scale(%b) {factor = 2.0} : f32[T, 2, 4]
    kv_write(%c, %c, %p, %p, $k, $v)
    return %c"""


def refused(text: str, op_name: str, action: Callable[[Op, Rewriter], None], message: str) -> None:
    module, function = parsed(text)
    with pytest.raises(IRError, match=message):
        apply_patterns(function, [Apply(op_name, action)], module)


def test_new_weights_and_names() -> None:
    module, function = parsed(STATEFUL)

    def add_norm(op: Op, rewriter: Rewriter) -> None:
        weight = rewriter.weight("ones", TensorType((8,), F32), data=bytes(32))
        assert rewriter.create("rms_norm", op.value("x"), weight, eps=0.5, name="n").name == "n"
        assert rewriter.create("rms_norm", op.value("x"), weight, eps=0.5).name == "a.1"

    assert apply_patterns(function, [Apply("silu", add_norm)], module)
    assert module.weights["ones"].data == bytes(32)
    verify(module)
    assert body(module)[:3] == [
        "%n = rms_norm(%x, @ones) {eps = 0.5} : f32[T, 8]",
        "%a.1 = rms_norm(%x, @ones) {eps = 0.5} : f32[T, 8]",
        "%a = silu(%x) : f32[T, 8]",
    ]


def test_an_effect_can_be_replaced_in_place() -> None:
    module, function = parsed(STATEFUL)

    def again(op: Op, rewriter: Rewriter) -> None:
        rewriter.create("kv_write", *op.operands.values())
        rewriter.erase(op)

    assert apply_patterns(function, [Apply("kv_write", again)], module)
    verify(module)
    assert [op.name for op in function.ops] == [
        "silu", "kv_write", "attention", "scale", "kv_write",
    ]  # fmt: skip


def test_an_effect_does_not_pass_another() -> None:
    def move_down(op: Op, rewriter: Rewriter) -> None:
        last = rewriter.function.ops[-1]
        rewriter.create("kv_write", *op.operands.values(), before=last)
        rewriter.erase(op)

    refused(
        STATEFUL, "kv_write", move_down, r"moving .* passes <%b = attention>, which touches \$k"
    )


def test_a_write_is_not_dropped() -> None:
    refused(
        STATEFUL,
        "kv_write",
        lambda op, r: r.erase(op),
        r"writes \$k; no created op takes its place",
    )
    module, function = parsed(STATEFUL)
    rewriter = Rewriter(function, module, function.ops[1])
    assert not rewriter.erase_if_unused(function.ops[1])


def test_values_are_not_used_above_their_definition() -> None:
    def above(op: Op, rewriter: Rewriter) -> None:
        rewriter.create("silu", rewriter.function.ops[3].result)

    refused(STATEFUL, "silu", above, "would use %c above its definition")

    def late(op: Op, rewriter: Rewriter) -> None:
        new = rewriter.create("silu", op.value("q"), before=rewriter.function.ops[-1])
        rewriter.replace(op, new)

    refused(STATEFUL, "attention", late, "would use %b.1 above its definition")


def test_other_refusals() -> None:
    refused(STATEFUL, "attention", lambda op, r: r.erase(op), "%b is used, cannot erase")
    refused(
        STATEFUL,
        "scale",
        lambda op, r: r.replace(op, r.create("reshape", op.value("x"), shape=(T, 8))),
        r"%c is f32\[T<=4, 2, 4\], its replacement %c.1 f32\[T<=4, 8\]",
    )
    refused(STATEFUL, "scale", lambda op, r: r.replace(op, []), "has 1 results, 0 given for them")
    module, function = parsed(STATEFUL)
    stranger = GraphBuilder(Module("n"), "g")
    stranger.silu(stranger.input("x", X))
    rewriter = Rewriter(function, module, stranger.function.ops[0])
    with pytest.raises(RewriteError, match="function 'f' does not hold <%silu = silu>"):
        rewriter.create("silu", function.input("x"))


def test_a_pattern_that_never_ends_is_named() -> None:
    class Flip(RewritePattern):
        """add(a, b) -> add(b, a), for ever."""

        def match_and_rewrite(self, op: Op, rewriter: Rewriter) -> None:
            if op.name == "add":
                rewriter.replace(op, rewriter.create("add", op.value("b"), op.value("a")))

    _, function = parsed("    %a = add(%x, %x) : f32[T, 8]\n    return %a")
    with pytest.raises(RewriteError, match="pattern Flip still matches after 64 sweeps"):
        apply_patterns(function, [Flip()])
