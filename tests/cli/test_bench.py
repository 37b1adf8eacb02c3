"""`ggufc bench`: what it measures, prints and refuses. No time is compared with another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ggufc.profiling import limits, measure
from tests.support.cli import Capture, assert_one_line, run_here

SIZES = ("-p", "7", "-n", "5", "-r", "2", "-t", "1", "--first-token", "0")


@pytest.fixture(autouse=True)
def _quick_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Limits of little work, kept apart from the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("MEMORY_BYTES", "LEAST_BYTES", "CACHE_BYTES"):
        monkeypatch.setattr(measure, name, 1 << 20)
    monkeypatch.setattr(measure, "UNIT_SECONDS", 1e-4)


def test_several_sequences_from_a_depth_on(alphabet: Path, capsys: Capture) -> None:
    options = ("--sequences", "3", "-d", "9")
    code, out, _ = run_here(capsys, "bench", alphabet, *SIZES, *options, "--json")
    report = json.loads(out)
    assert code == 0
    decode = report["decode"]
    assert (decode["tokens"], decode["sequences"], decode["depth"]) == (5, 3, 9)
    assert len(decode["tok_s"]) == 2
    assert all(0 <= share <= 1 for share in report["python_share"].values())
    assert "first_token_s" not in report
    _, out, _ = run_here(capsys, "bench", alphabet, *SIZES, *options)
    assert "of 5 each of 3 sequences after 9 (" in out


def test_profile_as_json(alphabet: Path, capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "bench", alphabet, *SIZES, "--profile", "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert report["limits"]["threads"] == 1
    assert set(report["limits"]["read"]) == {"2m", "4k", "cache"}
    assert set(report["profile"]) == {"prefill", "decode"}
    for graph, calls in (("prefill", 1), ("decode", 5)):
        found = report["profile"][graph]
        assert found["calls"] == calls
        assert 0 < found["total"]["seconds"] <= found["seconds"]
        assert {op["kernel"] for op in found["ops"]} == {k["name"] for k in found["kernels"]}
        assert sum(k["count"] for k in found["kernels"]) == len(found["ops"])
        assert all(op["bound_seconds"] > 0 for op in found["ops"] if op["flops"])
        assert found["reached"]["pages"] in ("2m", "4k")
    for key in ("prefill", "decode", "load_s", "peak_rss_bytes"):
        assert report[key]


def test_profile_as_text(alphabet: Path, capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "bench", alphabet, *SIZES, "--profile")
    assert code == 0
    lines = out.splitlines()
    kernels = [line for line in lines if line.startswith("linear f32")]
    assert "limits of this machine with 1 threads" in lines
    assert any(line.startswith("decode: 5 tokens in 5 calls, per call") for line in lines)
    assert sum(line.startswith("total ") for line in lines) == 2
    assert sum(line.startswith("weights ") for line in lines) == 2
    _, out, _ = run_here(capsys, "bench", alphabet, *SIZES, "--profile", "--each")
    assert len(out.splitlines()) > len(lines)
    assert kernels
    assert not any(line.startswith("linear f32") for line in out.splitlines())


def test_limits_are_kept_until_they_are_to_be_measured_again(
    alphabet: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, speeds = [], dict.fromkeys(("f32_fma", "int8_dot", "bf16_dot"), 1e15)

    def fake(isa: str, threads: int) -> tuple[dict[str, float], dict[str, float]]:
        made.append(isa)
        return {"2m": 3e15, "4k": 2e15, "cache": 9e15}, speeds

    monkeypatch.setattr(limits, "measure_limits", fake)
    for _ in range(2):
        run_here(capsys, "bench", alphabet, *SIZES, "--profile", "--json")
    assert len(made) == 1
    run_here(capsys, "bench", alphabet, *SIZES, "--profile", "--measure-again", "--json")
    assert len(made) == 2
    speeds["f32_fma"] = 1.0
    _, out, _ = run_here(capsys, "bench", alphabet, *SIZES, "--profile", "--measure-again")
    assert out.count("measured while the machine was busy: use --measure-again") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--each",), "--each is for --profile"),
        (("--measure-again",), "--measure-again is for --profile"),
        (("-d", "-1"), "depth -1: expected at least 0"),
        (("--sequences", "0"), "sequences 0: expected at least 1"),
        (("--first-token", "-1"), "first-token -1: expected at least 0"),
    ],
)
def test_usage(capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run_here(capsys, "bench", "x", *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, message)


def test_what_does_not_fit(alphabet: Path, capsys: Capture) -> None:
    code, _, err = run_here(capsys, "bench", alphabet, "-p", "1", "-n", "10", "-d", "60")
    assert code == 1
    assert_one_line(err, "70 tokens do not fit")
    code, _, err = run_here(capsys, "bench", alphabet, "-p", "1", "-n", "1", "--sequences", "99")
    assert code == 1
    assert_one_line(err, "sequences 99")
