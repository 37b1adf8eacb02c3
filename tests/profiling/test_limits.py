"""Limits of a machine: where they are kept, and when they are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggufc.profiling import limits as module
from ggufc.profiling import measure
from ggufc.profiling.limits import (
    Limits,
    limits_path,
    machine_limits,
    processor,
    read_limits,
    write_limits,
)

READ = {"2m": 30e9, "4k": 20e9, "cache": 100e9}
KNOWN = Limits("x86-64-v3", 2, READ, {"int8_dot": 1e12})


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, int]]:
    """Every measurement that is made, in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[tuple[str, int]] = []

    def fake(isa: str, threads: int) -> tuple[dict[str, float], dict[str, float]]:
        made.append((isa, threads))
        return READ, {"int8_dot": float(len(made))}

    monkeypatch.setattr(module, "measure_limits", fake)
    return made


def test_a_machine_is_measured_once(counted: list[tuple[str, int]]) -> None:
    first = machine_limits("x86-64-v3", 2)
    assert machine_limits("x86-64-v3", 2) == first
    assert counted == [("x86-64-v3", 2)]
    again = machine_limits("x86-64-v3", 2, again=True)
    assert again.operations == {"int8_dot": 2.0}
    assert machine_limits("x86-64-v3", 2) == again
    machine_limits("x86-64-v3", 1)
    machine_limits("x86-64", 2)
    assert len(counted) == 4


def test_limits_are_of_a_processor_and_a_version(
    counted: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = limits_path("x86-64", 1)
    monkeypatch.setattr(module, "processor", lambda: "another one")
    other = limits_path("x86-64", 1)
    monkeypatch.setattr(module, "__version__", "999")
    assert len({before, other, limits_path("x86-64", 1)}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"isa": "x", "threads": 1, "read": {}, "operations": {}}',
        '{"isa": "x", "threads": 1, "read": {"2m": 0}, "operations": {}}',
        '{"isa": "x", "threads": 1, "read": {"2m": "fast"}, "operations": {}}',
        '{"isa": "x", "threads": 1, "read": {"2m": true}, "operations": {}}',
        '{"isa": "x", "threads": 1, "read": 7, "operations": {}}',
    ],
)
def test_a_damaged_file_is_measured_again(
    counted: list[tuple[str, int]], tmp_path: Path, text: str
) -> None:
    path = limits_path("x86-64-v3", 2)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_limits(path) is None
    machine_limits("x86-64-v3", 2)
    assert len(counted) == 1


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_limits(tmp_path / "file" / "x.json", KNOWN)
    write_limits(tmp_path / "new" / "x.json", KNOWN)
    assert read_limits(tmp_path / "new" / "x.json") == KNOWN
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_the_name_of_the_processor(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    assert processor(path) == ""
    path.write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n")
    assert processor(path) == "Some CPU @ 2 GHz"


def test_how_much_is_read(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    assert measure.memory_bytes(path) == 1 << 30
    path.write_text("MemTotal: 999999999 kB\nMemAvailable:   2097152 kB\n")
    assert measure.memory_bytes(path) == 512 << 20
    path.write_text("MemAvailable: 4 kB\n")
    assert measure.memory_bytes(path) == 64 << 20


def test_measuring_gives_a_speed_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little of each, on two threads: what is measured is none of this test's business."""
    from ggufc.backends.llvm.detect import host_isas

    for name, value in (
        ("MEMORY_BYTES", 8 << 20),
        ("LEAST_BYTES", 1 << 20),
        ("CACHE_PASSES", 1),
        ("UNIT_SECONDS", 1e-4),
    ):
        monkeypatch.setattr(measure, name, value)
    read, operations = measure.measure_limits(host_isas()[0], 2)
    assert set(read) == {"2m", "4k", "cache"}
    assert {"f32_fma", "int8_dot"} <= set(operations)
    assert all(value > 0 for value in (*read.values(), *operations.values()))
