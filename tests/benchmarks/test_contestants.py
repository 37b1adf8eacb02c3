"""Contestants without timing anything: what is run, what is taken from the answer, and failures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import compare
import contestants
import pytest
from bundles import compiler_digest
from contestants import ContestantError, Ours, PeerContestant, Settings, run
from peers import PEERS
from work import graph_work

SIZES = Settings(prompt=7, generate=5, long=20, depth=4, steps=3, sequences=2)


def test_the_last_line_counts() -> None:
    assert run([sys.executable, "-c", "print('hello'); print('{\"a\": 1}')"]) == {"a": 1}
    with pytest.raises(ContestantError, match=r"^what went wrong$"):
        run([sys.executable, "-c", "import sys; sys.exit('first\\nwhat went wrong')"])
    with pytest.raises(ContestantError, match="ended with 0"):
        run([sys.executable, "-c", ""])


def test_huge_pages_are_asked_for() -> None:
    assert PEERS["native-2m"].build == "native"
    assert "hugetlb=1" in PEERS["native-2m"].environment()["GLIBC_TUNABLES"]
    assert PEERS["native"].pages == "default"


def test_a_peer_is_run_by_its_own_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []

    def answer(command: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
        commands.append(command)
        return {"prefill": 9.0, "decode": 3.0, "huge_bytes": 7, "first_token_s": 1.5, "system": "x"}

    monkeypatch.setattr(contestants, "run", answer)
    python = tmp_path / "home" / "bin" / "python"
    peer = PeerContestant(PEERS["avx2"], python, SIZES)
    model = tmp_path / "m.gguf"
    assert peer.measure("speed", model) == {"prefill": 9.0, "decode": 3.0, "huge_bytes": 7.0}
    assert peer.measure("first", model) == {"first_token_s": 1.5}
    assert peer.measure("growth", model) == {}
    assert [command[0] for command in commands] == [str(python)] * 2
    assert "--first-token" in commands[1]


def test_ours_measures_everything(tiny: Path, tmp_path: Path) -> None:
    """Real processes on a tiny model; speeds are positive, no more is said about them."""
    from ggufc.backends.llvm.detect import host_isas

    model = tmp_path / "tiny.gguf"
    isa = host_isas()[0]
    ours = Ours("ggufc", isa, {model: tiny}, Settings(threads=1, **SMALL))
    figures: dict[str, float] = {}
    for task in contestants.TASKS:
        figures |= ours.measure(task, model)
    assert set(figures) == {
        "prefill",
        "decode",
        "python_greedy",
        "python_sampled",
        "load_s",
        "huge_weights",
        "first_token_s",
        "prefill_long",
        "decode_long",
        "decode_short",
        "together",
        "alone",
    }
    other = Ours("ggufc-other", isa, {model: tiny}, ours.settings, is_best=False)
    assert other.measure("growth", model) == other.measure("batch", model) == {}
    positive = set(figures) - {"python_greedy", "python_sampled", "huge_weights"}
    assert all(figures[name] > 0 for name in positive)
    work = graph_work(tiny, isa, ours.settings)
    assert work["decode_weight_bytes"] > 0
    assert work["kv_bytes_long"] > work["kv_bytes_short"] > 0


SMALL = {
    "prompt": 7,
    "generate": 5,
    "context": 64,
    "long": 20,
    "depth": 4,
    "steps": 3,
    "sequences": 2,
}


class Failing:
    """A contestant that cannot run anything."""

    name = "failing"
    calls = 0

    def describe(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def measure(self, task: str, model: Path) -> dict[str, float]:
        """Always an error."""
        self.calls += 1
        raise ContestantError("cannot")


def test_who_fails_is_left_out_from_then_on() -> None:
    failing, errors = Failing(), dict[str, str]()
    for _ in range(2):
        figures = compare.one_round(Path("m"), [failing], ["speed", "first"], errors)
        assert figures == {"failing": {}}
    assert errors == {"failing": "cannot"}
    assert failing.calls == 1


def test_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ["x86-64-amx", "x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v3", "x86-64"]
    monkeypatch.setattr(compare, "host_isas", lambda: here)
    assert compare.default_isas() == ["x86-64-amx", "x86-64-v4-bf16", "x86-64-v3"]
    assert compare.default_peers() == list(PEERS)
    monkeypatch.setattr(compare, "host_isas", lambda: here[1:])
    assert compare.default_isas() == ["x86-64-v4-bf16", "x86-64-v3"]
    monkeypatch.setattr(compare, "host_isas", lambda: ["aarch64"])
    assert compare.default_isas() == ["aarch64"]
    assert compare.default_peers() == ["native", "native-2m", "openvino"]


def test_bundles_are_made_again_for_another_compiler(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "a.py").write_text("1")
    first = compiler_digest(tmp_path)
    (tmp_path / "ir" / "notes.txt").write_text("no code")
    assert compiler_digest(tmp_path) == first
    (tmp_path / "ir" / "a.py").write_text("2")
    assert compiler_digest(tmp_path) != first
