"""What lies in the memory of states before their first use never reaches a result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.ir.numerics import F32Array
from ggufc.runtime.model import Model
from ggufc.runtime.session import decode_together
from tests.support.fixtures import model_fixture, scratch

CONTEXT, LENGTH = 64, 37
# Not a number in bf16, f16 and float32; the largest number of f16, and large ones of the others.
POISONS = (0x7FC0, 0x7BFF)
MODELS = [
    ("small/gpt-oss", "bf16"),
    ("small/bloom", "f16"),
    ("small/gemma2", "f32"),
    ("small/mamba2", "f32"),
    ("small/qwen35moe", "f32"),
]


def bundle(name: str, kv_type: str) -> Path:
    destination = scratch() / f"{name}-{kv_type}-poisoned.ggufc"
    destination.parent.mkdir(exist_ok=True)
    options = CompileOptions(target="native", kv_type=kv_type, context=CONTEXT)
    compile_model(model_fixture(name).path, destination, options)
    return destination


def conversation(model: Model, ids: list[int]) -> list[F32Array]:
    """Logits of a prompt whole and in pieces, by steps, and of two sequences together."""
    found = [model.logits(ids[:LENGTH], all=True)]
    found.append(model.logits(ids[:LENGTH], all=True, chunk=5))
    found.append(model.logits(ids[:LENGTH], all=True, step=True))
    with model.session() as first, model.session() as second:
        first.prefill(ids[:30])
        second.prefill(ids[:3])
        rows = np.empty((2, model.manifest.model.vocab_size), np.float32)
        for i in range(4):
            decode_together([first, second], [ids[30 + i], ids[3 + i]], rows)
            found.append(rows.copy())
    return found


@pytest.mark.parametrize(("name", "kv_type"), MODELS)
def test_unused_memory_changes_no_bit(name: str, kv_type: str) -> None:
    path = bundle(name, kv_type)
    ids = model_fixture(name).prompts["p130"].ids.tolist()
    with Model.load(path, threads=2, sequences=2) as model:
        clean = conversation(model, ids)
    assert all(np.isfinite(logits).all() for logits in clean)
    for poison in POISONS:
        with Model.load(path, threads=2, sequences=2) as model:
            for memory in model.engine.states._memory:
                memory.view(np.uint16)[:] = poison
            found = conversation(model, ids)
        for logits, wanted in zip(found, clean, strict=True):
            assert np.array_equal(logits, wanted)
