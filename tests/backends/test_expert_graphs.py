"""Both graphs of a tiny quantised model with experts, as machine code, against the interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ggufc.backends.llvm import host_isas
from ggufc.compiler.models import GraphOptions
from tests.backends.test_graphs import conversation, native_conversation
from tests.support.planned_models import PlannedModel, plan_model
from tests.support.tiny_gguf import TinyTensor, random_matrix, tiny_model

COUNT, WIDTH, DIM = 6, 64, 256


@cache
def quantised_mixture() -> PlannedModel:
    """Layers of the architecture qwen2moe, experts in Q4_0 and Q8_0, the rest in Q4_0."""
    keys = {
        "expert_count": COUNT,
        "expert_used_count": 2,
        "expert_feed_forward_length": WIDTH,
        "expert_shared_feed_forward_length": DIM,
    }
    model = tiny_model(
        "qwen2moe", dim=DIM, hidden_dim=DIM, head_dim=64, type_name="q4_0", keys=keys
    )
    rng = np.random.default_rng(1)
    for layer in ("blk.0.", "blk.1."):
        for name in ("ffn_gate", "ffn_up", "ffn_down"):
            whole = model.tensors.pop(f"{layer}{name}.weight")
            model.tensors[f"{layer}{name}_shexp.weight"] = whole
            rows, columns = (DIM, WIDTH) if name == "ffn_down" else (WIDTH, DIM)
            type_name = "q8_0" if name == "ffn_up" else "q4_0"
            flat = random_matrix(type_name, COUNT * rows, columns, rng)
            stack = TinyTensor(type_name, (COUNT, rows, columns), flat.data)
            model.tensors[f"{layer}{name}_exps.weight"] = stack
        model.tensors[f"{layer}ffn_gate_inp.weight"] = random_matrix("f32", COUNT, DIM, rng)
        model.tensors[f"{layer}ffn_gate_inp_shexp.weight"] = random_matrix("f32", 1, DIM, rng)
    return plan_model(model, GraphOptions(max_tokens=32, kv_type="f32"))


@pytest.mark.parametrize("isa", host_isas())
def test_code_is_near_the_interpreter(isa: str) -> None:
    """An activation at a border may be rounded the other way: near, not equal."""
    model = quantised_mixture()
    expected = conversation(model.reference(context=64, sequences=3))
    found = native_conversation(model, isa, 1)
    for mine, wanted in zip(found, expected, strict=True):
        assert np.abs(mine - wanted).mean() < 0.005 * np.abs(wanted).max()
    again = native_conversation(model, isa, 3)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in found]
