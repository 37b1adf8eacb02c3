"""Which instruction sets run here, and that compiler and runtime see the same machine."""

from __future__ import annotations

import pytest

from ggufc.backends.llvm import ISAS, host_isas
from ggufc.backends.llvm.detect import has_features, listed_features
from ggufc.backends.llvm.isa import isa_named
from ggufc.ir import IRError
from ggufc.runtime.cpu import features, machine, missing_features

# From what Linux prints of a Sapphire Rapids, a Haswell and a Graviton 2.
SAPPHIRE_RAPIDS = (
    "processor\t: 0\nflags\t\t: fpu sse sse2 ht pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt avx "
    "f16c abm bmi1 avx2 bmi2 avx512f avx512dq avx512cd avx512bw avx512vl avx512_bf16 avx512_vnni "
    "amx_bf16 amx_tile amx_int8\n"
)
HASWELL = (
    "processor\t: 0\nflags\t\t: fpu sse sse2 pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt avx "
    "f16c abm bmi1 avx2 bmi2\n"
)
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 atomics fphp asimdhp asimddp\n"


def test_this_machine_runs_its_familys_baseline() -> None:
    names = host_isas()
    assert names
    assert names == [name for name in ISAS if name in names]  # best first
    assert {ISAS[name].machine for name in names} == {machine()}
    assert names[-1] == {"x86_64": "x86-64", "aarch64": "aarch64"}[machine()]


def test_runtime_and_backend_agree_about_this_machine() -> None:
    offered = features()
    for isa in ISAS.values():
        if isa.tiles:
            continue  # these need the kernel's permission too
        runs = isa.machine == machine() and not missing_features(isa.features, offered)
        assert runs == (isa.name in host_isas()), isa.name


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (
            SAPPHIRE_RAPIDS,
            ["x86-64-amx", "x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v3", "x86-64"],
        ),
        (HASWELL, ["x86-64-v3", "x86-64"]),
        (GRAVITON, ["aarch64-dotprod", "aarch64"]),
    ],
)
def test_linuxs_names_are_understood(cpuinfo: str, expected: list[str]) -> None:
    listed = listed_features(cpuinfo)
    family = ISAS[expected[0]].machine
    every = frozenset(name for isa in ISAS.values() for name in isa.features)
    found = [
        i.name for i in ISAS.values() if i.machine == family and has_features(i, every, listed)
    ]
    assert found == expected


def test_both_sources_must_agree() -> None:
    haswell = isa_named("x86-64-v3")
    enabled = frozenset(haswell.features)
    assert has_features(haswell, enabled, None)
    assert has_features(haswell, enabled, listed_features(HASWELL))
    assert not has_features(haswell, enabled - {"avx2"}, None)
    assert not has_features(haswell, enabled, listed_features(HASWELL.replace(" avx2", "")))


def test_processors_that_differ_offer_what_all_have() -> None:
    assert listed_features(HASWELL + HASWELL.replace(" avx2", "")) == listed_features(
        HASWELL.replace(" avx2", "")
    )
    assert listed_features("processor: 0\n") is None


def test_an_unknown_instruction_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(IRError, match="'x86-64-v9' is unknown; known: x86-64-amx, "):
        isa_named("x86-64-v9")
