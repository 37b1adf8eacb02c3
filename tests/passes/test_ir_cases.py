"""Before and after of every pass, as text: one case a file in tests/ir_cases/<pass>/.

A file is `pass: NAME [OPTION=VALUE ...]`, a module, a line of dashes, and the module that the pass
makes of it (or `unchanged`). The first module is also run before and after the pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ggufc.compiler.pass_manager import Pass, run_pipeline
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import fused_pipeline, pass_names, planned_pipeline
from ggufc.ir import Module, parse_module, print_module, verify
from tests.support.programs import RandomWeights, largest_difference, run

FOLDER = Path(__file__).parent.parent / "ir_cases"
CASES = sorted(FOLDER.glob("*/*.ir"))
SEPARATOR = "\n-----\n"
# Rounding of activations, relative to the largest value; all else only changes orders of sums.
TOLERANCE = {"quantize-activations": 0.05}


@dataclass(frozen=True)
class Case:
    """One file: the pass, what it is given, and what it is to make of it."""

    step: Pass
    before: Module
    expected: str


def read_case(path: Path) -> Case:
    """A case by its file."""
    header, _, rest = path.read_text(encoding="utf-8").partition("\n")
    kind, _, call = header.partition(": ")
    name, *options = call.split()
    assert kind == "pass", path
    before, _, after = rest.partition(SEPARATOR)
    module = parse_module(before)
    expected = module if after.strip() == "unchanged" else parse_module(after)
    return Case(pass_named(name, options), module, print_module(expected))


def pass_named(name: str, options: list[str]) -> Pass:
    """A pass of the pipelines by name; options are those of `Compute`."""
    compute = Compute(**dict(option.split("=") for option in options))
    steps = (*fused_pipeline(compute), *planned_pipeline())
    return next(step for step in steps if step.name == name)


def case_id(path: Path) -> str:
    """`pass/case`."""
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_pass_makes_the_expected_text(path: Path) -> None:
    case = read_case(path)
    verify(case.before)
    run_pipeline(case.before, [case.step])
    assert print_module(case.before) == case.expected


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_pass_keeps_the_meaning(path: Path) -> None:
    case = read_case(path)
    if not case.before.functions:
        pytest.skip("the case runs nothing")
    weights = RandomWeights(case.before)
    expected = run(case.before, weights)
    run_pipeline(case.before, [case.step])
    bound = TOLERANCE.get(case.step.name, 1e-5)
    assert largest_difference(expected, run(case.before, weights)) <= bound


@pytest.mark.parametrize("name", pass_names())
def test_every_pass_has_a_case_that_changes_something(name: str) -> None:
    folder = FOLDER / name.replace("-", "_")
    cases = [read_case(path) for path in folder.glob("*.ir")]
    assert any(print_module(case.before) != case.expected for case in cases)
    assert all(case.step.name == name for case in cases)
