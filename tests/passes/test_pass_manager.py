"""Running passes: order, verification, instruments, and what is said when something fails."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ggufc.compiler.errors import CompileError
from ggufc.compiler.memory.planner import Plan
from ggufc.compiler.memory.verify_plan import PlanError
from ggufc.compiler.pass_manager import Dump, KeepAfter, Pass, PassError, Time, run_pipeline
from ggufc.compiler.passes import plan_memory
from ggufc.compiler.passes.eliminate_dead_ops import EliminateDeadOps
from ggufc.compiler.passes.fuse_bias import FuseBias
from ggufc.compiler.passes.layout_weights import LayoutWeights
from ggufc.ir import F32, IRError, Module, TensorType, parse_module, print_module
from tests.support.programs import SHAPES, tiny

PROGRAM = """module "m" {
  weight @w : f32[8, 8]
  weight @b : f32[8]

  func @decode(%x: f32[B<=4, 8]) {
    %l = linear(%x, [@w]) : f32[B, 8]
    %y = bias_add(%l, @b) : f32[B, 8]
    return %y
  }
}
"""


class ForgetResultType(Pass):
    """Leaves a module that does not verify."""

    name: ClassVar[str] = "forget-result-type"

    def run(self, module: Module) -> None:
        """Give the first result a type that its op does not have."""
        module.functions["decode"].ops[0].result.type = TensorType((1, 2), F32)


class GiveUp(Pass):
    """Cannot do its work."""

    name: ClassVar[str] = "give-up"

    def run(self, module: Module) -> None:
        """Raise as the IR does."""
        raise IRError("no way")


def test_a_broken_module_is_caught_after_the_pass() -> None:
    with pytest.raises(
        PassError, match=r"^after pass forget-result-type: function 'decode', op lin"
    ):
        run_pipeline(parse_module(PROGRAM), [ForgetResultType(), FuseBias()])


def test_a_failing_pass_is_named() -> None:
    with pytest.raises(PassError, match=r"^pass give-up: no way$") as caught:
        run_pipeline(parse_module(PROGRAM), [GiveUp()])
    assert isinstance(caught.value, CompileError)


def test_ops_of_a_later_stage_are_refused() -> None:
    class StillGraph(EliminateDeadOps):
        """A pass that promises stage graph."""

        stage: ClassVar[str] = "graph"

    text = PROGRAM.replace(
        "bias_add(%l, @b) : f32[B, 8]", 'quantize(%l) {to = "bf16a"} : bf16a[B, 8]'
    )
    with pytest.raises(
        PassError, match=r"after pass eliminate-dead-ops: .*not allowed at stage graph"
    ):
        run_pipeline(parse_module(text), [StillGraph()])


def test_dumps_are_numbered(tmp_path: Path) -> None:
    module = parse_module(PROGRAM)
    run_pipeline(module, [FuseBias(), EliminateDeadOps()], [Dump(tmp_path / "new")])
    run_pipeline(module, [LayoutWeights()], [Dump(tmp_path / "new", first=3)])
    names = ["00-input.ir", "01-fuse-bias.ir", "02-eliminate-dead-ops.ir", "03-layout-weights.ir"]
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == names
    assert files[0].read_text() == PROGRAM
    assert files[-1].read_text() == print_module(module)


def test_time_is_kept_per_pass() -> None:
    clock = Time()
    run_pipeline(parse_module(PROGRAM), [FuseBias(), EliminateDeadOps(), FuseBias()], [clock])
    assert list(clock.seconds) == ["fuse-bias", "eliminate-dead-ops"]
    assert all(seconds >= 0 for seconds in clock.seconds.values())


def test_a_copy_is_kept_after_one_pass() -> None:
    module = parse_module(PROGRAM)
    keep = KeepAfter("fuse-bias")
    run_pipeline(module, [FuseBias(), LayoutWeights()], [keep])
    assert keep.module is not None
    assert keep.stage == "fused"
    assert "layout" in print_module(module)
    assert "layout" not in print_module(keep.module)
    assert "bias=@b" in print_module(keep.module)


def test_a_type_without_layout_is_refused_by_name() -> None:
    module = parse_module(
        PROGRAM.replace("@w : f32[8, 8]", "@w : i8[8, 256]").replace(", 8]) {", ", 256]) {")
    )
    with pytest.raises(PassError, match="weight @w: element type 'i8' has no packed layout; types"):
        run_pipeline(module, [LayoutWeights()])


def test_plans_are_checked_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that puts everything at the start is found out by the pass itself."""
    monkeypatch.setattr(
        plan_memory, "plan", lambda intervals: Plan({it.key: 0 for it in intervals}, 1 << 20)
    )
    module = tiny(SHAPES["llama"])
    with pytest.raises(PlanError, match=r"^plan of 'prefill': op \d+ \(\w+\)"):
        run_pipeline(module, [LayoutWeights(), plan_memory.PlanMemory()])
