"""Graphs of further architectures with quantised matrices, as machine code against the
interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm import host_isas
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.ir import Module
from tests.backends.test_graphs import conversation
from tests.support.planned_models import PlannedModel, plan_model
from tests.support.small_models import in_blocks, small_model

# Layer norms and biases; slopes; halves of one matrix; embeddings per layer and shared caches;
# an MLP without a gate; limits of q, k and v.
MODELS = ("gpt2", "bloom", "phi3", "gemma4", "apertus", "mpt")


def activations(module: Module, function: str) -> set[str]:
    """The element types that linears with quantised weights take."""
    ops = module.functions[function].ops
    linears = [op for op in ops if op.name in ("linear", "linear_glu")]
    return {
        op.value("x").type.dtype.name
        for op in linears
        if all(w.type.dtype.is_quantized for w in op.weights() if len(w.type.shape) == 2)
    }


def quantised(name: str, compute: Compute | None = None) -> PlannedModel:
    return plan_model(in_blocks(small_model(name)), compute=compute)


@pytest.mark.parametrize("name", MODELS)
def test_quantised_models_are_near_the_interpreter(name: str) -> None:
    """An activation at a border may be rounded the other way: near, not equal."""
    model = quantised(name)
    assert activations(model.planned, "prefill") == {"q8a"}
    expected = conversation(model.reference(context=64, sequences=3))
    with model.native(host_isas()[0], threads=2, context=64, sequences=3) as backend:
        found = conversation(backend)
    for logits, wanted in zip(found, expected, strict=True):
        assert np.abs(logits - wanted).max() < 0.1 * np.abs(wanted).max()
        assert np.abs(logits - wanted).mean() < 0.01 * np.abs(wanted).max()


@pytest.mark.parametrize("name", MODELS)
def test_targets_with_tiles_get_bf16_activations(name: str) -> None:
    model = quantised(name, Compute(prefill="bf16"))
    # Rows whose logits are wanted are multiplied as integers.
    assert activations(model.planned, "prefill") == {"bf16a", "q8a"}
    assert activations(model.planned, "decode") == {"q8a"}
    expected = conversation(quantised(name).reference(context=64, sequences=3))
    found = conversation(model.reference(context=64, sequences=3))
    for logits, wanted in zip(found, expected, strict=True):
        assert np.abs(logits - wanted).mean() < 0.05 * np.abs(wanted).max()
