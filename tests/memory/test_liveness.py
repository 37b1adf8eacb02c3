"""Which values share storage and how long each is needed, on programs written as text."""

from __future__ import annotations

import pytest

from ggufc.compiler.memory.liveness import Lifetimes, lifetimes
from ggufc.ir import Function, parse_module

PROGRAM = """module "m" {
  weight @w : f32[8, 8]
  weight @n : f32[8]

  func @decode(%%x: f32[B<=4, 8], %%y: f32[B, 8]) {
    %s
    return %s
  }
}
"""


def function_of(*lines: str, returns: str) -> Function:
    """A decode function over the inputs x and y with these ops."""
    return parse_module(PROGRAM % ("\n    ".join(lines), returns)).functions["decode"]


def together(found: Lifetimes) -> set[tuple[str, ...]]:
    """The names of the values of each storage."""
    return {tuple(value.name for value in storage.values) for storage in found.storages}


def test_lives_reach_from_definition_to_last_use() -> None:
    function = function_of(
        "%a = silu(%x) : f32[B, 8]",
        "%b = linear(%a, [@w]) : f32[B, 8]",
        "%unused = silu(%x) : f32[B, 8]",
        "%c = add(%b, %a) : f32[B, 8]",
        returns="%c",
    )
    lives = {value.name: life for value, life in lifetimes(function).lives.items()}
    expected = {"x": (-1, 2), "y": (-1, -1), "a": (0, 3), "b": (1, 3), "unused": (2, 2)}
    assert lives == {**expected, "c": (3, 4)}


def test_a_view_keeps_its_operand_alive() -> None:
    function = function_of(
        "%a = silu(%x) : f32[B, 8]",
        "%v = reshape(%a) {shape = [B, 2, 4]} : f32[B, 2, 4]",
        "%b = silu(%y) : f32[B, 8]",
        "%w = reshape(%v) {shape = [B, 8]} : f32[B, 8]",
        "%c = linear(%w, [@w]) : f32[B, 8]",
        returns="%c",
    )
    found = lifetimes(function)
    assert together(found) == {("x",), ("y",), ("a", "v", "w"), ("b",), ("c",)}
    storage = found.of_value[function.ops[0].result]
    assert (storage.first, storage.last) == (0, 4)
    assert found.lives[function.ops[0].result] == (0, 4)
    assert found.lives[function.ops[1].result] == (1, 4)


@pytest.mark.parametrize(
    ("line", "merges"),
    [
        ("%b = silu(%a) : f32[B, 8]", True),
        ("%b = add(%a, %y) : f32[B, 8]", True),
        ("%b = add(%y, %a) : f32[B, 8]", True),
        ("%b = mul(%a, %a) : f32[B, 8]", True),
        ("%b = rms_norm(%a, @n) {eps = 0.1} : f32[B, 8]", True),
        ("%b = linear(%y, [@w], residual=%a) : f32[B, 8]", True),
        # A row of the product needs all of its x, which another thread may already have replaced.
        ("%b = linear(%a, [@w], residual=%a) : f32[B, 8]", False),
        ("%b = linear(%a, [@w]) : f32[B, 8]", False),
        ("%b = slice(%a) {start = 0, stop = 8} : f32[B, 8]", False),
    ],
)
def test_a_result_takes_over_a_dying_operand(line: str, merges: bool) -> None:
    function = function_of(
        "%a = silu(%x) : f32[B, 8]", line, "%c = linear(%b, [@w]) : f32[B, 8]", returns="%c"
    )
    assert (("a", "b") in together(lifetimes(function))) is merges


def test_an_operand_that_is_needed_later_is_left_alone() -> None:
    function = function_of(
        "%a = silu(%x) : f32[B, 8]",
        "%b = silu(%a) : f32[B, 8]",
        "%c = add(%b, %a) : f32[B, 8]",
        "%d = linear(%c, [@w]) : f32[B, 8]",
        returns="%d",
    )
    assert together(lifetimes(function)) == {("x",), ("y",), ("a",), ("b", "c"), ("d",)}


def test_a_view_that_is_needed_later_protects_its_operand() -> None:
    function = function_of(
        "%a = silu(%x) : f32[B, 8]",
        "%v = reshape(%a) {shape = [B, 2, 4]} : f32[B, 2, 4]",
        "%b = silu(%a) : f32[B, 8]",
        "%u = silu(%v) : f32[B, 2, 4]",
        "%c = linear(%b, [@w]) : f32[B, 8]",
        returns="%c",
    )
    assert ("a", "v", "u") in together(lifetimes(function))


def test_inputs_are_never_written() -> None:
    function = function_of("%a = silu(%x) : f32[B, 8]", returns="%a")
    found = lifetimes(function)
    assert together(found) == {("x",), ("y",), ("a",)}
    assert found.arena_intervals() == []


def test_what_becomes_the_result_in_place_is_the_callers() -> None:
    function = function_of(
        "%a = linear(%x, [@w]) : f32[B, 8]",
        "%b = softcap(%a) {cap = 30.0} : f32[B, 8]",
        "%c = reshape(%b) {shape = [B, 2, 4]} : f32[B, 2, 4]",
        returns="%c",
    )
    found = lifetimes(function)
    assert found.of_value[function.ops[0].result].space == "logits"
    assert found.arena_intervals() == []
