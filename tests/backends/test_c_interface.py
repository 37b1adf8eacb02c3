"""Objects called from C: on this processor, and on the other family's where it can be emulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm import ISAS, host_isas
from ggufc.backends.llvm.isa import Isa
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.compiler.sources import weight_bytes
from tests.backends.test_graphs import conversation
from tests.support.c_backend import CBackend, tools
from tests.support.embeddings import cosine, embedding_fixture
from tests.support.planned_models import QUANTISED, PlannedModel, mixed_model, planned_model

# What qemu emulates of x86-64 depends on its version, so foreign means aarch64.
TRIED = [isa for isa in ISAS.values() if isa.machine == "aarch64" or isa.name == host_isas()[0]]


def need_tools(isa: Isa) -> None:
    if tools(isa.machine) is None:
        pytest.skip(f"no C compiler for {isa.machine}, or nothing to run its programs with")


def model_of(kind: str) -> PlannedModel:
    if kind == "gemma3 f32":
        return planned_model("gemma3")
    return planned_model("llama", "q4_k", **QUANTISED) if kind == "llama q4_k" else mixed_model()


def cases() -> list[object]:
    """Two models on every instruction set; many types where dot products are NEON's."""
    kinds = {isa: ["gemma3 f32", "llama q4_k"] for isa in TRIED}
    kinds[ISAS["aarch64-dotprod"]] = ["gemma3 f32", "llama mixed"]
    return [pytest.param(isa, k, id=f"{k}-{isa.name}") for isa in kinds for k in kinds[isa]]


@pytest.mark.parametrize(("isa", "kind"), cases())
def test_a_c_program_computes_the_same(isa: Isa, kind: str, tmp_path: Path) -> None:
    need_tools(isa)
    model = model_of(kind)
    expected = conversation(model.reference(context=64, sequences=3))
    runs = []
    for threads in (1, 3):
        with CBackend(model, model.compiled(isa.name), tmp_path, threads) as backend:
            runs.append(conversation(backend))
    tolerance = 1e-4 if kind == "gemma3 f32" else 0.05
    for found, again, wanted in zip(*runs, expected, strict=True):
        assert np.abs(found - wanted).max() < tolerance * np.abs(wanted).max()
        assert found.tobytes() == again.tobytes()


def encoder_model(name: str, isa: Isa) -> PlannedModel:
    """A stored model of embeddings, planned for an instruction set."""
    with GGUFFile.open(embedding_fixture(name).path) as gguf:
        graph = build(gguf, GraphOptions())
        planned = to_planned(to_fused(graph, Compute(prefill=isa.prefill_compute)))
        raw = {n: weight_bytes(gguf, w).copy() for n, w in planned.weights.items()}
    return PlannedModel(planned, raw)


@pytest.mark.parametrize("isa", TRIED, ids=lambda isa: isa.name)
@pytest.mark.parametrize("name", ["gemma-embedding", "bert-q8_0"])
def test_encoders_have_one_graph(name: str, isa: Isa, tmp_path: Path) -> None:
    need_tools(isa)
    model, texts = encoder_model(name, isa), embedding_fixture(name).texts[:4]
    sizes = [len(text.ids) for text in texts]
    positions = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])
    sequences = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    rows = np.arange(sum(sizes), dtype=np.int32)
    with CBackend(model, model.compiled(isa.name), tmp_path, 2) as backend:
        found = backend.embed(np.concatenate([t.ids for t in texts]), positions, sequences, rows)
    for text, own in zip(texts, np.split(found, np.cumsum(sizes)[:-1]), strict=True):
        assert cosine(own.mean(axis=0), text.mean) > 0.9995
        if name == "gemma-embedding":
            assert np.abs(text.kept(own) - text.hidden).max() < 1e-4
