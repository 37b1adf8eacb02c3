"""The checker of plans: it accepts what the planner makes, and refuses every kind of damage."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.memory.verify_plan import PlanError, verify_plan
from ggufc.ir import Buffer, Function, Module, Value, parse_module

PROGRAM = """module "m" {
  weight @w : f32[16, 16]

  func @decode(%x: f32[B<=4, 16], %y: f32[B, 16]) {
    %a = silu(%x) : f32[B, 16] in arena[0:256]
    %b = silu(%y) : f32[B, 16] in arena[256:512]
    %v = reshape(%a) {shape = [B, 2, 8]} : f32[B, 2, 8] in arena[0:256]
    %c = linear(%b, [@w], residual=%a) : f32[B, 16] in arena[0:256]
    %d = linear(%c, [@w]) : f32[B, 16] in arena[256:512]
    %e = linear(%d, [@w]) : f32[B, 16] in logits[0:256]
    %f = softcap(%e) {cap = 30.0} : f32[B, 16]
    return %f
  }
}
"""


def planned() -> tuple[Module, dict[str, Value]]:
    """The program above and its values by name."""
    module = parse_module(PROGRAM)
    return module, {value.name: value for value in module.functions["decode"].values()}


def check(function: Function, arena: int = 512) -> None:
    """Run the checker."""
    verify_plan(function, arena)


def test_a_sound_plan_passes() -> None:
    module, _ = planned()
    function = module.functions["decode"]
    check(function)
    assert arena_bytes(function) == arena_bytes(module) == 512


def moved(name: str, buffer: Buffer | None) -> Callable[[dict[str, Value]], None]:
    """Damage: give the value another buffer."""

    def damage(values: dict[str, Value]) -> None:
        values[name].buffer = buffer

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (moved("b", Buffer("arena", 0, 256)), "op 2 (reshape) reads %a, which <%b = silu>"),
        (moved("b", Buffer("arena", 192, 256)), "op 2 (reshape) reads %a, which <%b = silu>"),
        (moved("c", Buffer("arena", 256, 256)), "%c overlaps %b, which the op reads"),
        (moved("c", Buffer("arena", 64, 256)), "%c overlaps %a, which the op reads"),
        (moved("d", Buffer("arena", 0, 256)), "%d overlaps %c, which the op reads"),
        (moved("b", Buffer("arena", 288, 256)), "%b is at 288, not a multiple of 64"),
        (moved("b", Buffer("arena", -64, 256)), "%b is at -64, not a multiple of 64"),
        (moved("b", Buffer("arena", 256, 192)), "%b has 192 bytes; 256 are needed"),
        (moved("b", Buffer("arena", 320, 256)), "%b ends at 576, beyond the arena of 512 bytes"),
        (moved("b", None), "%b has no buffer"),
        (moved("v", Buffer("arena", 256, 256)), "%v is a view but not in the buffer of %a"),
        (moved("v", None), "%v is a view but not in the buffer of %a"),
        (moved("b", Buffer("stack", 0, 256)), "%b is in 'stack', where only what is returned"),
        (moved("f", Buffer("arena", 0, 256)), "%f is the caller's but has a buffer"),
        (moved("x", Buffer("arena", 0, 256)), "%x is the caller's but has a buffer"),
    ],
)
def test_damage_is_refused(damage: Callable[[dict[str, Value]], None], message: str) -> None:
    module, values = planned()
    damage(values)
    with pytest.raises(PlanError, match=re.escape(message)):
        check(module.functions["decode"])


def test_the_arena_may_not_be_smaller_than_the_plan() -> None:
    module, _ = planned()
    with pytest.raises(PlanError, match="beyond the arena of 448 bytes"):
        check(module.functions["decode"], 448)


def test_what_is_returned_may_not_be_overwritten() -> None:
    text = PROGRAM.replace("%d = linear(%c, [@w]) : f32[B, 16] in arena[256:512]", "").replace(
        "%e = linear(%d", "%e = linear(%c"
    )
    text = text.replace("return %f", "%g = silu(%c) : f32[B, 16] in logits[0:256]\n    return %f")
    with pytest.raises(PlanError, match=r"the return reads %f, which <%g = silu>"):
        check(parse_module(text).functions["decode"])


def test_only_the_returned_type_lies_in_the_callers_memory() -> None:
    module, values = planned()
    values["e"].type = replace(values["e"].type, shape=(4, 16))
    with pytest.raises(PlanError, match="%e is in 'logits', where only what is returned may be"):
        check(module.functions["decode"])


def test_reading_in_full_forbids_writing_in_place() -> None:
    text = PROGRAM.replace("linear(%b, [@w], residual=%a)", "linear(%a, [@w], residual=%a)")
    with pytest.raises(PlanError, match="%c overlaps %a, which the op reads"):
        check(parse_module(text).functions["decode"])
