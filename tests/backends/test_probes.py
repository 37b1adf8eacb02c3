"""The probes: what is in their loops, and that they do what they say where they run here."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import ISAS, isa_named
from ggufc.backends.llvm.object_code import emit_assembly, symbols
from ggufc.backends.llvm.optimize import parse, run_passes, target_machine
from ggufc.backends.llvm.probes import (
    DATA_BYTES,
    READS,
    SINK_BYTES,
    compile_probes,
    probe_module,
    units_of,
)
from ggufc.profiling.measure import ProbeLibrary, unit_data

# The instruction of a unit, its operations, and how many of them a round has.
INSTRUCTIONS = {
    ("x86-64-amx", "int8_tiles"): ("tdpbssd", 2 * 16 * 16 * 64, 4),
    ("x86-64-amx", "bf16_tiles"): ("tdpbf16ps", 2 * 16 * 16 * 32, 4),
    ("x86-64-v4-bf16", "bf16_dot"): ("vdpbf16ps", 2 * 32, 12),
    ("x86-64-v4-vnni", "int8_dot"): ("vpdpbusd", 2 * 64, 12),
    ("x86-64-v4-vnni", "f32_fma"): ("vfm[a-z]+213ps|vfm[a-z]+231ps|vfm[a-z]+132ps", 2 * 16, 12),
    ("x86-64-v3", "int8_dot"): ("vpmaddubsw", 2 * 32, 96),
    ("x86-64-v3", "f32_fma"): ("vfm[a-z]+213ps|vfm[a-z]+231ps|vfm[a-z]+132ps", 2 * 8, 12),
    ("aarch64-dotprod", "int8_dot"): ("sdot", 2 * 16, 12),
}


def loop_of(isa_name: str, unit: str) -> str:
    """The assembly of a probe from the head of its loop to the jump back."""
    isa = isa_named(isa_name)
    parsed, machine = parse(probe_module(isa).text()), target_machine(isa)
    run_passes(parsed, machine)
    text = emit_assembly(parsed, machine)
    body = re.search(rf"^probe_{unit}:\n(.*?)^\.Lfunc_end", text, re.M | re.S)
    assert body is not None
    start, end = None, 0
    for label in re.finditer(r"^(\.LBB\w+):", body[1], re.M):
        jump = list(re.finditer(rf"\s(?:j\w+|b\.\w+|cbn?z\s.*?,)\s+{label[1]}\s", body[1]))
        if jump and jump[-1].start() > label.start() and start is None:
            start, end = label.end(), jump[-1].end()
    assert start is not None
    return body[1][start:end]


@pytest.mark.parametrize(("isa", "unit"), INSTRUCTIONS)
def test_a_round_has_all_products_and_touches_little_else(isa: str, unit: str) -> None:
    pattern, operations, count = INSTRUCTIONS[isa, unit]
    loop = loop_of(isa, unit)
    assert len(re.findall(rf"\s(?:{pattern})\s", loop)) == count
    assert compile_probes(isa_named(isa)).units[unit] == operations * count
    # Sums stay in registers: no more instructions than the products and what widens them need.
    assert loop.count("\n") <= 2.5 * count + 40


@pytest.mark.parametrize("name", ISAS)
def test_objects_stand_alone(name: str) -> None:
    isa = isa_named(name)
    probes = compile_probes(isa)
    assert set(probes.symbols) <= set(symbols(probes.object).defined)
    assert [*probes.units] == [unit.name for unit in units_of(isa)]
    assert ("bf16_tiles" in probes.units) is isa.tiles


@pytest.fixture(scope="module", params=host_isas())
def library(request: pytest.FixtureRequest) -> ProbeLibrary:
    """The probes of every instruction set that runs here."""
    return ProbeLibrary(request.param)


@pytest.mark.parametrize("name", READS)
def test_reads_see_every_line(library: ProbeLibrary, name: str) -> None:
    """A bit anywhere is in the result."""
    probe, size = library.function(name), 4 * 4096
    raw = np.zeros(size + 64, np.uint8)
    area = raw[-raw.ctypes.data % 64 :][:size]
    sink = np.zeros(SINK_BYTES, np.uint8)
    for at in range(0, size, 64):
        area[:] = 0
        area[at + at // 64 % 16 * 4] = 8
        probe(area.ctypes.data, size, sink.ctypes.data)
        assert sink.any()
    area[:] = 0
    probe(area.ctypes.data, size, sink.ctypes.data)
    assert not sink[:16].any()


def test_units_compute(library: ProbeLibrary) -> None:
    for unit in library.units:
        data, sink = unit_data(unit), np.zeros(SINK_BYTES, np.uint8)
        assert len(data) == DATA_BYTES
        library.function(unit)(data.ctypes.data, 3, sink.ctypes.data)
        assert sink.any()
        if unit.startswith(("f32", "bf16_dot")):
            assert np.isfinite(sink[:16].view(np.float32)).all()


def test_the_clock_counts_on(library: ProbeLibrary) -> None:
    first, second = library.clock(), library.clock()
    assert 0 < first <= second
