"""Files that hold the same model in other tensors, as older and newer converters write it: the
logits stay those of transformers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggufc.compiler.errors import CompileError
from ggufc.compiler.gguf import GGUFFile
from tests.support.fixtures import model_fixture
from tests.support.interpreted import InterpretedModel
from tests.support.small_models import small_model
from tests.support.tiny_gguf import TinyModel, TinyTensor

TOLERANCE = 1e-3
HEADS_OF_KEYS = 2  # of qwen3next
Change = Callable[[TinyModel], None]


def layers(model: TinyModel, name: str) -> list[str]:
    """The prefixes of the layers that have the tensor `name`."""
    return [key.removesuffix(name) for key in list(model.tensors) if key.endswith("." + name)]


def take(model: TinyModel, name: str) -> np.ndarray:
    return model.tensors.pop(name).numpy()


def key_of(model: TinyModel, name: str) -> int:
    value = model.metadata[f"deepseek2.{name}"]
    return int(value[0] if isinstance(value, tuple) else value)


def join_gate_and_up(model: TinyModel) -> None:
    """The two matrices of each expert above each other."""
    for at in layers(model, "ffn_gate_exps.weight"):
        parts = [take(model, f"{at}ffn_{name}_exps.weight") for name in ("gate", "up")]
        joined = np.concatenate(parts, axis=1)
        model.tensors[f"{at}ffn_gate_up_exps.weight"] = TinyTensor.of(joined)


def one_matrix_of_keys_and_values(model: TinyModel) -> None:
    """`attn_kv_b` in place of the transposed `attn_k_b` and `attn_v_b`, keys as of heads."""
    for at in layers(model, "attn_k_b.weight"):
        k, v = (take(model, f"{at}attn_{name}_b.weight") for name in "kv")
        joined = np.concatenate((k.transpose(0, 2, 1), v), axis=1)
        model.tensors[f"{at}attn_kv_b.weight"] = TinyTensor.of(joined.reshape(-1, k.shape[1]))
    key, value = (key_of(model, f"attention.{name}_length_mla") for name in ("key", "value"))
    for name in ("key", "value"):
        del model.metadata[f"deepseek2.attention.{name}_length_mla"]
    model.metadata["deepseek2.attention.key_length"] = key
    model.metadata["deepseek2.attention.value_length"] = value
    heads = key_of(model, "attention.head_count")
    model.metadata["deepseek2.attention.head_count_kv"] = heads


def rows_of_each_key_head(model: TinyModel) -> None:
    """`ssm_in` with queries, keys, values and gates of each key head together."""
    for at in layers(model, "attn_gate.weight"):
        qkv, gate = take(model, f"{at}attn_qkv.weight"), take(model, f"{at}attn_gate.weight")
        keys, width = (len(qkv) - len(gate)) // 2, qkv.shape[1]
        parts = (*np.split(qkv, (keys, 2 * keys)), gate)
        each = [part.reshape(HEADS_OF_KEYS, -1, width) for part in parts]
        joined = np.concatenate(each, axis=1).reshape(-1, width)
        model.tensors[f"{at}ssm_in.weight"] = TinyTensor.of(joined)


def smooth(model: TinyModel) -> None:
    """The columns of `ffn_down` times scales that divide what comes in."""
    for at in layers(model, "ffn_down.weight"):
        down = model.tensors[f"{at}ffn_down.weight"].numpy()
        scales = np.exp2(np.arange(down.shape[1]) % 5 - 2).astype(np.float32)
        model.tensors[f"{at}ffn_down.weight"] = TinyTensor.of(down * scales)
        model.tensors[f"{at}ffn.act.scales"] = TinyTensor.of(scales)


def join_qkv_but_not_their_biases(model: TinyModel) -> None:
    for at in layers(model, "attn_q.weight"):
        parts = [take(model, f"{at}attn_{name}.weight") for name in "qkv"]
        model.tensors[f"{at}attn_qkv.weight"] = TinyTensor.of(np.concatenate(parts))


def scale_experts(model: TinyModel) -> None:
    """Every matrix of an expert divided by a factor that the file has beside it."""
    for name in ("gate", "up", "down"):
        for at in layers(model, f"ffn_{name}_exps.weight"):
            weight = model.tensors[f"{at}ffn_{name}_exps.weight"].numpy()
            factors = np.exp2(np.arange(len(weight)) % 3 - 1).astype(np.float32)
            own = weight / factors[:, None, None]
            model.tensors[f"{at}ffn_{name}_exps.weight"] = TinyTensor.of(own)
            model.tensors[f"{at}ffn_{name}_exps.scale"] = TinyTensor.of(factors)


def scale_output(model: TinyModel) -> None:
    """Matrices divided by a factor beside them, and scales that only other engines need."""
    for name in ("output", "blk.0.attn_q", "blk.1.ffn_down"):
        weight = model.tensors[f"{name}.weight"].numpy()
        model.tensors[f"{name}.weight"] = TinyTensor.of(weight / 4)
        model.tensors[f"{name}.scale"] = TinyTensor.of(np.full(1, 4))
        model.tensors[f"{name}.input_scale"] = TinyTensor.of(np.full(1, 3))


def one_dimension_more(model: TinyModel) -> None:
    """Vectors as matrices of one row."""
    for name, tensor in model.tensors.items():
        if len(tensor.shape) == 1:
            tensor.shape = (1, *tensor.shape)
            assert model.tensors[name].shape[0] == 1


def norms_without_suffix(model: TinyModel) -> None:
    for at in layers(model, "ffn_norm.weight"):
        model.tensors[f"{at}ffn_norm"] = model.tensors.pop(f"{at}ffn_norm.weight")


def width_of_all_experts(model: TinyModel) -> None:
    """Two experts of 16 are the width that the file gives."""
    del model.metadata["qwen2moe.expert_feed_forward_length"]
    model.metadata["qwen2moe.feed_forward_length"] = 32


def width_of_the_shared_expert(model: TinyModel) -> None:
    model.metadata["qwen2moe.feed_forward_length"] = 24
    del model.metadata["qwen2moe.expert_shared_feed_forward_length"]


VARIANTS: list[tuple[str, Change]] = [
    ("mixtral", join_gate_and_up),
    ("mixtral", scale_experts),
    ("deepseek2-groups", one_matrix_of_keys_and_values),
    ("deepseek2-yarn", one_matrix_of_keys_and_values),
    ("qwen2moe", width_of_all_experts),
    ("qwen2moe", width_of_the_shared_expert),
    ("qwen3next", rows_of_each_key_head),
    ("mpt", smooth),
    ("seed_oss", join_qkv_but_not_their_biases),
    ("xverse", scale_output),
    ("glm4moe", one_dimension_more),
    ("falcon-h1", norms_without_suffix),
]


@pytest.mark.parametrize(("name", "change"), VARIANTS)
def test_same_logits(name: str, change: Change, tmp_path: Path) -> None:
    model = small_model(name)
    before = {**model.metadata}, {**model.tensors}
    shapes = [tensor.shape for tensor in model.tensors.values()]
    change(model)
    after = [tensor.shape for tensor in model.tensors.values()]
    assert (model.metadata, model.tensors) != before or shapes != after
    prompt = model_fixture(f"small/{name}").prompts["p33"]
    with GGUFFile.open(model.write(tmp_path / "variant.gguf")) as gguf:
        found = InterpretedModel(gguf).prefill(prompt.ids)
    assert np.abs(found - prompt.logits).max() < TOLERANCE


@pytest.mark.parametrize(
    ("name", "tensor", "values", "message"),
    [
        ("mpt", "blk.0.ffn.act.scales", [0.0], "holds 0.0, allowed are numbers but 0"),
        ("xverse", "output.scale", [float("nan")], "holds nan, allowed are finite numbers"),
    ],
)
def test_scales_that_cannot_be(
    name: str, tensor: str, values: list[float], message: str, tmp_path: Path
) -> None:
    model = small_model(name)
    if tensor.endswith("scales"):
        smooth(model)
        values = values * model.tensors[tensor].shape[0]
    model.tensors[tensor] = TinyTensor.of(values)
    with (
        GGUFFile.open(model.write(tmp_path / "variant.gguf")) as gguf,
        pytest.raises(CompileError, match=re.escape(f"tensor '{tensor}' {message}")),
    ):
        InterpretedModel(gguf)
