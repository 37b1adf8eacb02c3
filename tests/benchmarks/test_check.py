"""The check: what counts as lost, what as noise, and what cannot be compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from baseline import changes, judge, record, spread_of
from check import LOST, NOTHING, UNCLEAR, main, verdict

from tests.benchmarks.samples import MACHINE, results_of

THEN = results_of("m", [(100.0, 10.0)] * 5, [(20.0, 5.0)] * 5)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([5.0] * 5, "kept"),
        ([4.76] * 5, "kept"),
        ([4.74] * 5, "lost"),
        ([5.3] * 5, "gained"),
        # One slow round is no loss, one fast round no excuse.
        ([5.0, 5.0, 1.0, 5.0, 5.0], "kept"),
        ([4.5, 4.5, 4.6, 4.4, 9.0], "lost"),
        # The median is below, but so many rounds are not that it may be an accident.
        ([4.0, 4.2, 4.5, 5.0, 5.1], "unclear"),
        ([], "missing"),
    ],
)
def test_judge(values: list[float], state: str) -> None:
    assert judge(5.0, values) == state


def test_spread() -> None:
    assert spread_of([3.0]) == 0.0
    assert spread_of([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)


def test_only_measured_models_are_compared() -> None:
    baseline = record([THEN, results_of("other", [(1.0, 1.0)] * 3, [(1.0, 1.0)] * 3)])
    found = list(changes(baseline, [THEN]))
    assert {change.state for change in found} == {"kept"}
    assert all(change.name.startswith("m ") for change in found)
    new = results_of("new", [(1.0, 1.0)] * 3, [(1.0, 1.0)] * 3)
    assert {change.state for change in changes(baseline, [new])} == {"new"}


def test_the_same_loss_on_both_sides_is_none() -> None:
    baseline = record([THEN])
    slower = results_of("m", [(50.0, 5.0)] * 5, [(10.0, 2.5)] * 5)
    assert verdict(list(changes(baseline, [slower]))) == 0
    lost = results_of("m", [(90.0, 10.0)] * 5, [(20.0, 5.0)] * 5)
    found = list(changes(baseline, [lost]))
    assert verdict(found) == LOST
    assert {c.name.split()[1] for c in found if c.state == "lost"} == {"prefill,"}
    noisy = results_of("m", [(80.0 + 5 * i, 10.0) for i in range(5)], [(20.0, 5.0)] * 5)
    assert verdict(list(changes(baseline, [noisy]))) == UNCLEAR


def run(folder: Path, *flags: str) -> int:
    """The exit code of the check with a baseline in the same folder."""
    return main([str(folder / "results"), "--baseline", str(folder / "baseline.json"), *flags])


def test_record_then_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    assert run(tmp_path) == NOTHING
    assert "no results" in capsys.readouterr().err
    THEN.save(tmp_path / "results" / "m.json")
    assert run(tmp_path) == NOTHING
    assert run(tmp_path, "--record") == 0
    stored = json.loads((tmp_path / "baseline.json").read_text())
    assert stored["machine"] == MACHINE
    assert stored["ratios"]["m prefill, ggufc over native"]["median"] == 5.0
    assert run(tmp_path) == 0
    assert "kept     m prefill, ggufc over native: 5.000 -> 5.000 +0.0%" in capsys.readouterr().out
    results_of("m", [(90.0, 10.0)] * 5, [(20.0, 5.0)] * 5).save(tmp_path / "results" / "m.json")
    assert run(tmp_path) == LOST


def test_other_machines_and_few_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").mkdir()
    path = tmp_path / "results" / "m.json"
    THEN.save(path)
    assert run(tmp_path, "--record") == 0
    replace(THEN, machine={**MACHINE, "processor": "Other CPU"}).save(path)
    assert run(tmp_path) == NOTHING
    assert "measured on Other CPU, the baseline on Some CPU" in capsys.readouterr().err
    results_of("m", [(1.0, 1.0)] * 2, [(1.0, 1.0)] * 2).save(path)
    assert run(tmp_path, "--record") == NOTHING
    assert "m has 2 rounds, at least 3 count" in capsys.readouterr().err
    (tmp_path / "baseline.json").write_text("[]")
    assert run(tmp_path) == NOTHING
