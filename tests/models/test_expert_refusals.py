"""Files with experts, or with latent attention, that cannot be: each refused on one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ggufc.compiler.errors import ModelError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from tests.support.tiny_gguf import tiny_model

EXPERTS = {"expert_count": 8, "expert_used_count": 2}
LATENT = {
    **EXPERTS,
    "attention.kv_lora_rank": 32,
    "attention.key_length": 40,
    "attention.value_length": 32,
    "attention.key_length_mla": 24,
    "attention.value_length_mla": 16,
    "attention.head_count_kv": 1,
    "rope.dimension_count": 8,
}


def refusal(architecture: str, keys: dict[str, Any], folder: Path) -> str:
    """The message with which a model is refused, without the file's name."""
    path = tiny_model(architecture, keys=keys).write(folder / "tiny.gguf")
    with pytest.raises(ModelError) as caught:
        build(GGUFFile.open(path), GraphOptions())
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"expert_used_count": 9}, "key 'glm4moe.expert_used_count' is 9, allowed are 1 to 8"),
        ({"expert_used_count": 0}, "key 'glm4moe.expert_used_count' is 0, allowed are 1 to 8"),
        ({"expert_gating_func": 4}, "key 'glm4moe.expert_gating_func' is 4, allowed are 1 to 3"),
        (
            {"expert_group_count": 3},
            "key 'glm4moe.expert_group_count' is 3, allowed are divisors of the 8 experts",
        ),
        (
            {"expert_used_count": 5, "expert_group_count": 4, "expert_group_used_count": 2},
            "key 'glm4moe.expert_group_used_count' is 2, allowed are 3 to 4",
        ),
        (
            {"expert_feed_forward_length": -1},
            "key 'glm4moe.expert_feed_forward_length' is -1, allowed are 1 to",
        ),
        ({"leading_dense_block_count": 3}, "key 'glm4moe.leading_dense_block_count' is 3, allowed"),
        ({"nextn_predict_layers": 2}, "key 'glm4moe.block_count' is 2, allowed are 3 to"),
        ({}, "tensor 'blk.0.post_attention_norm.weight' is missing, wanted with shape [64]"),
    ],
)
def test_experts(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert refusal("glm4moe", {**EXPERTS, **changes}, tmp_path).startswith(expected)


def test_experts_without_tensors(tmp_path: Path) -> None:
    expected = "tensor 'blk.0.ffn_gate_inp.weight' is missing, wanted with shape [8, 64]"
    assert refusal("qwen2moe", EXPERTS, tmp_path).startswith(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"attention.kv_lora_rank": 0}, "key 'attention.kv_lora_rank' is missing or 0"),
        (
            {"attention.head_count_kv": 4},
            "layer 0 caches 4 heads of 40 and 32 elements, allowed are 1 of 40 and 32",
        ),
        (
            {"attention.key_length_mla": 8},
            "key 'deepseek2.attention.key_length_mla' is 8, allowed are 9 to",
        ),
        (
            {"attention.value_length_mla": 0},
            "key 'deepseek2.attention.value_length_mla' is 0, allowed are 1 to",
        ),
        ({}, "tensor 'blk.0.attn_q.weight' has shape [64, 64], wanted [96, 64]"),
    ],
)
def test_latent_attention(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert refusal("deepseek2", {**LATENT, **changes}, tmp_path).startswith(expected)
