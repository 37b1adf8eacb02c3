"""Models with every kind of state, for tests of sessions and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from tests.support.fixtures import model_fixture, scratch

# Full attention, sliding windows, long ropes; experts; the recurrent kinds, most beside attention.
ATTENTION = ("llama", "small/gemma2", "small/phi3-longrope")
EXPERTS = ("small/gpt-oss",)
RECURRENT = ("small/mamba", "small/falcon-h1", "small/lfm2moe", "small/qwen35moe")
ALL = (*ATTENTION, *EXPERTS, *RECURRENT)


def bundle(name: str, kv_type: str = "bf16") -> Path:
    """The bundle of a small model with 4 sequences, compiled once a run."""
    destination = scratch() / f"{name.replace('/', '-')}-{kv_type}-sequences.ggufc"
    if not destination.exists():
        options = CompileOptions(kv_type=kv_type, max_batch=4)
        compile_model(model_fixture(name).path, destination, options)
    return destination


def random_ids(model: Model, seed: int, count: int) -> list[int]:
    """Token ids of a model's vocabulary."""
    top = model.engine.vocab_size
    return [int(i) for i in np.random.default_rng(seed).integers(3, top, count)]
