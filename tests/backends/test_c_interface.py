"""Objects called from C: on this processor, and on the other family's where it can be emulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm import ISAS, host_isas
from ggufc.backends.llvm.isa import Isa
from tests.backends.test_graphs import conversation
from tests.support.c_backend import CBackend, tools
from tests.support.planned_models import QUANTISED, planned_model

# What qemu emulates of x86-64 depends on its version, so foreign means aarch64.
ISA = pytest.mark.parametrize(
    "isa",
    [isa for isa in ISAS.values() if isa.machine == "aarch64" or isa.name == host_isas()[0]],
    ids=lambda isa: isa.name,
)


def need_tools(isa: Isa) -> None:
    if tools(isa.machine) is None:
        pytest.skip(f"no C compiler for {isa.machine}, or nothing to run its programs with")


@ISA
@pytest.mark.parametrize(("architecture", "type_name"), [("gemma3", "f32"), ("llama", "q4_k")])
def test_a_c_program_computes_the_same(
    isa: Isa, architecture: str, type_name: str, tmp_path: Path
) -> None:
    need_tools(isa)
    model = planned_model(architecture, type_name, **({} if type_name == "f32" else QUANTISED))
    expected = conversation(model.reference(context=64, sequences=3))
    runs = []
    for threads in (1, 3):
        with CBackend(model, model.compiled(isa.name), tmp_path, threads) as backend:
            runs.append(conversation(backend))
    tolerance = 1e-4 if type_name == "f32" else 0.05
    for found, again, wanted in zip(*runs, expected, strict=True):
        assert np.abs(found - wanted).max() < tolerance * np.abs(wanted).max()
        assert found.tobytes() == again.tobytes()
