"""Feature bits, dispatch and the number of threads, on made-up machines."""

from pathlib import Path

import pytest

from ggufc.runtime import cpu
from ggufc.runtime.bundle import NativeObject
from ggufc.runtime.errors import MachineError

CPUINFO = """processor : 0
flags\t\t: fpu sse4_1 avx2 bmi1 avx512_vnni abm amx_tile
processor : 1
flags\t\t: fpu sse4_1 avx2 bmi1 avx512_vnni abm
"""

ARM = "processor : 0\nFeatures\t: fp asimd asimddp asimdhp\n"


def test_features_are_what_all_processors_have_by_one_spelling() -> None:
    found = cpu.parse_cpuinfo(CPUINFO)
    assert cpu.missing_features(["sse4.1", "avx512vnni", "bmi", "lzcnt"], found) == []
    assert cpu.missing_features(["avx2", "amx-tile", "avx512bf16"], found) == [
        "amx-tile",
        "avx512bf16",
    ]
    assert cpu.missing_features(["neon", "dotprod", "fullfp16"], cpu.parse_cpuinfo(ARM)) == []


@pytest.mark.parametrize("text", ["", "model name : x", "flags :", "flags\t: ,,"])
def test_odd_cpuinfo_offers_nothing(text: str) -> None:
    assert cpu.missing_features(["avx2"], cpu.parse_cpuinfo(text)) == ["avx2"]


def test_llvm_says_what_linux_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a list by Linux, LLVM's query agrees on everything that objects may need."""
    by_llvm = cpu.features_by_llvm()
    for feature in ("avx2", "fma", "avx512f", "avx512vnni", "dotprod"):
        assert (feature in by_llvm) == (feature in cpu.features())


OBJECTS = (
    NativeObject("x86-64-v4-vnni", "a.o", "x86_64", ("avx2", "avx512vnni"), 0),
    NativeObject("x86-64-v3", "b.o", "x86_64", ("avx2",), 0),
    NativeObject("aarch64", "c.o", "aarch64", ("neon",), 0),
)


def on(monkeypatch: pytest.MonkeyPatch, family: str, *features: str) -> None:
    """Pretend to be another machine."""
    monkeypatch.setattr(cpu, "machine", lambda: family)
    monkeypatch.setattr(cpu, "features", lambda: frozenset(map(cpu.canonical, features)))


@pytest.mark.parametrize(
    ("family", "features", "isa"),
    [
        ("x86_64", ["avx2", "avx512_vnni", "amx_tile"], "x86-64-v4-vnni"),
        ("x86_64", ["avx2", "avx512f"], "x86-64-v3"),
        ("aarch64", ["asimd"], "aarch64"),
    ],
)
def test_the_first_object_that_fits_is_taken(
    monkeypatch: pytest.MonkeyPatch, family: str, features: list[str], isa: str
) -> None:
    on(monkeypatch, family, *features)
    assert cpu.choose_object(OBJECTS).isa == isa


def test_a_named_object_has_to_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "x86_64", "avx2", "avx512_vnni")
    assert cpu.choose_object(OBJECTS, "x86-64-v3").isa == "x86-64-v3"
    with pytest.raises(MachineError, match="aarch64 is for aarch64, not x86_64"):
        cpu.choose_object(OBJECTS, "aarch64")
    with pytest.raises(MachineError, match="no code for z80; the bundle holds x86-64-v4-vnni, x86"):
        cpu.choose_object(OBJECTS, "z80")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "x86_64", "sse4_2")
    with pytest.raises(MachineError) as caught:
        cpu.choose_object(OBJECTS)
    message = str(caught.value)
    assert "x86-64-v4-vnni needs avx2, avx512vnni; x86-64-v3 needs avx2" in message
    assert "--target portable" in message


def write(root: Path, files: dict[str, str]) -> Path:
    """Make a file system with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n"
CGROUPS = {
    "v2": ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "765000 100000"}, 7.65),
    "v2 parent": (
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000"},
        0.5,
    ),
    "v2 mount": ({"proc/self/cgroup": "0::/host/x\n", "sys/fs/cgroup/cpu.max": "200000 100000"}, 2),
    "v2 none": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
    "v1": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        1.5,
    ),
    "v1 joined": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "300000",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
        },
        3,
    ),
    "v1 none": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        None,
    ),
    "no groups": ({}, None),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_quota(tmp_path: Path, case: str) -> None:
    files, quota = CGROUPS[case]
    assert cpu.cgroup_quota(write(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("quota", "processors", "threads"),
    [("765000", 16, 7), ("50000", 16, 1), ("max", 2, 2), ("800000", 2, 2)],
)
def test_threads_are_the_least_of_affinity_and_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, processors: int, threads: int
) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000"}
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    assert cpu.default_threads(write(tmp_path, files)) == threads
