"""Experts in one tensor, and in one each as old files have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.compiler.errors import ModelError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from tests.support.interpreted import InterpretedModel
from tests.support.tiny_gguf import TinyModel, TinyTensor, random_matrix, tiny_model

COUNT, DIM, HIDDEN = 3, 64, 96
SHAPES = {"ffn_gate": (HIDDEN, DIM), "ffn_up": (HIDDEN, DIM), "ffn_down": (DIM, HIDDEN)}


def mixture(split: bool) -> TinyModel:
    """Mixtral in small."""
    model = tiny_model(keys={"expert_count": COUNT, "expert_used_count": 2})
    rng = np.random.default_rng(5)
    for layer in ("blk.0.", "blk.1."):
        model.tensors[f"{layer}ffn_gate_inp.weight"] = random_matrix("f32", COUNT, DIM, rng)
        for name, shape in SHAPES.items():
            del model.tensors[f"{layer}{name}.weight"]
            parts = [random_matrix("f32", *shape, rng).numpy() for _ in range(COUNT)]
            if not split:
                model.tensors[f"{layer}{name}_exps.weight"] = TinyTensor.of(np.stack(parts))
                continue
            for i, part in enumerate(parts):
                model.tensors[f"{layer}{name}.{i}.weight"] = TinyTensor.of(part)
    return model


def test_a_tensor_for_each_expert_means_the_same(tmp_path: Path) -> None:
    ids = np.arange(3, 20, dtype=np.int32)
    whole, split = (
        InterpretedModel(GGUFFile.open(mixture(is_split).write(tmp_path / f"{is_split}.gguf")))
        for is_split in (False, True)
    )
    np.testing.assert_array_equal(whole.prefill(ids), split.prefill(ids))


def test_experts_of_different_types_are_refused(tmp_path: Path) -> None:
    model = mixture(split=True)
    rng = np.random.default_rng(6)
    model.tensors["blk.0.ffn_up.1.weight"] = random_matrix("f16", *SHAPES["ffn_up"], rng)
    path = model.write(tmp_path / "tiny.gguf")
    with pytest.raises(ModelError, match=r"'blk.0.ffn_up.1.weight' is of type f16, wanted f32"):
        build(GGUFFile.open(path), GraphOptions())


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    model = mixture(split=True)
    del model.tensors["blk.1.ffn_down.2.weight"]
    path = model.write(tmp_path / "tiny.gguf")
    with pytest.raises(ModelError, match=r"'blk.1.ffn_down.2.weight' is missing"):
        build(GGUFFile.open(path), GraphOptions())
