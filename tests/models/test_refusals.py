"""Files whose model cannot be compiled: one line names the key or tensor, the value and what is
allowed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggufc.compiler.errors import CompileError, ModelError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, architectures, build
from ggufc.compiler.sources import weight_bytes
from ggufc.ir import F32, Rows, TensorType, Weight, dtype
from tests.support.shared import require_shared
from tests.support.small_models import small_model
from tests.support.tiny_gguf import TinyModel, TinyTensor, tiny_model


def refusal(model: TinyModel, folder: Path) -> str:
    """The message with which a model is refused, without the file's name."""
    path = model.write(folder / "tiny.gguf")
    with pytest.raises(CompileError) as caught:
        build(GGUFFile.open(path), GraphOptions())
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_an_unknown_architecture_is_told_the_known_ones(tmp_path: Path) -> None:
    for name in ("frobnicate", "blocks", "__init__", "../llama", "Llama", ""):
        message = refusal(TinyModel({"general.architecture": name}), tmp_path)
        start, known = message.split("; supported are ")
        assert start == f"architecture '{name}' is not supported"
        assert known.split(", ") == sorted(architectures())
    assert (
        refusal(TinyModel(), tmp_path) == "key 'general.architecture' is missing (a string wanted)"
    )


def test_every_architecture_has_a_forward() -> None:
    assert {"llama", "gemma3", "qwen2", "qwen3"} <= set(architectures())
    assert architectures()["exaone"] == "qwen2"
    for module in set(architectures().values()):
        assert callable(import_module(f"ggufc.compiler.models.{module}").forward), module


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("block_count", 0, "is 0, allowed are 1 to 1024"),
        ("block_count", 2**32 - 1, "is 4294967295, allowed are 1 to 1024"),
        ("block_count", "2", "is of type string, wanted an integer"),
        ("embedding_length", 0, "is 0, allowed are 1 to 1048576"),
        ("attention.head_count", 0, "is 0, allowed are 1 to 16384"),
        ("attention.head_count", [4, 0], "is 0, allowed are 1 to 16384"),
        ("attention.head_count", [4, 4, 4], "has 3 values, wanted 2, one for each layer"),
        ("attention.head_count", [4.0, 4.0], "is of type array of f32, wanted an array of"),
        ("attention.head_count_kv", 3, "is 3, allowed are divisors of the 4 query heads"),
        ("attention.key_length", 0, "is 0, allowed are 1 to 16384"),
        ("rope.dimension_count", 7, "is 7, allowed are even numbers from 2 to 16"),
        ("rope.dimension_count", 18, "is 18, allowed are 2 to 16"),
        ("rope.freq_base", 0.0, "is 0.0, allowed are numbers above 1 up to 1e+12"),
        ("rope.freq_base", float("nan"), "is nan, allowed are numbers above 1"),
        ("rope.freq_base", float("inf"), "is inf, allowed are numbers above 1"),
        ("rope.freq_base", -1.0, "is -1.0, allowed are numbers above 1"),
        ("rope.scaling.type", "ntk", "is 'ntk', allowed are 'none', 'linear', 'yarn', 'longrope'"),
        ("rope.scaling.factor", -2.0, "is -2.0, allowed are numbers above 0.001"),
        ("attention.layer_norm_rms_epsilon", 0.0, "is 0.0, allowed are numbers above 0 up to 0.1"),
        ("attention.layer_norm_rms_epsilon", True, "is of type bool, wanted a number"),
        ("context_length", 0, "is 0, allowed are 1 to 1073741824"),
        ("feed_forward_length", 2**31, "is 2147483648, allowed are 1 to 16777216"),
        ("attention.sliding_window", (-1, "i32"), "is -1, allowed are 0 to"),
        ("attention.sliding_window_pattern", [True], "has 1 values, wanted 2, one for each layer"),
        ("pooling_type", 4, "is 4, allowed are 0 (none), 1 (mean), 2 (cls), 3 (last)"),
        ("expert_count", 5000, "is 5000, allowed are 0 to 4096"),
        ("logit_scale", 0.25, "is 0.25, allowed is only 1.0"),
        ("residual_scale", 0.22, "is 0.22"),
        ("use_parallel_residual", True, "is True, allowed is only False"),
        ("swiglu_clamp_exp", 7.0, "is 7.0, allowed is only 0.0"),
        ("swiglu_clamp_exp", ([0.0, 7.0], "f32"), "is 7.0, allowed is only 0.0"),
        ("swiglu_clamp_shexp", ([7.0, 0.0], "f32"), "is 7.0, allowed is only 0.0"),
        ("logit_scale", ([1.0, 0.5], "f32"), "is 0.5, allowed is only 1.0"),
        ("expert_count", ([0, 2], "i32"), "is of type array of i32, wanted an integer"),
        ("router_logit_softcapping", 30.0, "is 30.0, allowed is only 0.0"),
        ("attention.value_scale", 0.5, "is 0.5, allowed is only 1.0"),
    ],
)
def test_hyperparameters(name: str, value: Any, expected: str, tmp_path: Path) -> None:
    message = refusal(tiny_model(keys={name: value}), tmp_path)
    assert message.startswith(f"key 'llama.{name}' ")
    assert expected in message


def test_arrays_of_what_changes_nothing_are_accepted(tmp_path: Path) -> None:
    keys = {"swiglu_clamp_exp": ([0.0, 0.0], "f32"), "expert_group_scale": 1.0}
    path = tiny_model(keys=keys).write(tmp_path / "tiny.gguf")
    build(GGUFFile.open(path), GraphOptions())


@pytest.mark.parametrize(
    "name",
    ["block_count", "embedding_length", "attention.head_count", "feed_forward_length",
     "context_length", "attention.layer_norm_rms_epsilon"],
)  # fmt: skip
def test_required_hyperparameters(name: str, tmp_path: Path) -> None:
    model = tiny_model()
    del model.metadata[f"llama.{name}"]
    assert refusal(model, tmp_path).startswith(f"key 'llama.{name}' is missing")


def test_heads_that_do_not_share_the_width(tmp_path: Path) -> None:
    model = tiny_model(n_heads=6, n_kv_heads=6)
    for name in ("attention.key_length", "attention.value_length"):
        del model.metadata[f"llama.{name}"]
    assert refusal(model, tmp_path) == (
        "key 'llama.attention.head_count' is 6, allowed are divisors of the width 64"
    )


@pytest.mark.parametrize(
    "name",
    ["token_embd.weight", "output_norm.weight", "blk.1.attn_q.weight", "blk.0.ffn_norm.weight"],
)
def test_missing_tensors_are_named(name: str, tmp_path: Path) -> None:
    model = tiny_model()
    del model.tensors[name]
    assert refusal(model, tmp_path).startswith(f"tensor '{name}' is missing, wanted with shape [")


@pytest.mark.parametrize(
    ("name", "shape"), [("blk.1.attn_v.weight", (64, 32)), ("blk.0.attn_norm.weight", (65,))]
)
def test_wrong_shapes_are_named(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = tiny_model()
    wanted = list(model.tensors[name].shape)
    model.tensors[name] = TinyTensor.of(np.zeros(shape))
    assert refusal(model, tmp_path) == f"tensor '{name}' has shape {list(shape)}, wanted {wanted}"


def test_a_bias_of_the_wrong_length(tmp_path: Path) -> None:
    model = tiny_model("qwen2")
    model.tensors["blk.0.attn_k.bias"] = TinyTensor.of(np.zeros(31))
    assert refusal(model, tmp_path) == "tensor 'blk.0.attn_k.bias' has shape [31], wanted [32]"


def test_unused_tensors_are_listed(tmp_path: Path) -> None:
    model = tiny_model()
    model.tensors["blk.0.foo.weight"] = TinyTensor.of(np.zeros(3))
    model.tensors["blk.7.attn_norm.weight"] = TinyTensor.of(np.zeros(3))
    assert refusal(model, tmp_path) == (
        "2 tensors are not part of the graph of architecture 'llama':"
        " blk.0.foo.weight, blk.7.attn_norm.weight"
    )


def test_known_extras_are_no_fault(tmp_path: Path) -> None:
    model = tiny_model()
    model.tensors["blk.0.attn_rot_embd.weight"] = TinyTensor.of(np.zeros(8))
    build(GGUFFile.open(model.write(tmp_path / "tiny.gguf")), GraphOptions())


def test_types_that_cannot_be_packed_are_named(tmp_path: Path) -> None:
    model = tiny_model(dim=256, head_dim=64, hidden_dim=256, type_name="i8")
    message = refusal(model, tmp_path)
    assert message.startswith("tensor 'token_embd.weight': element type 'i8'")
    assert "q4_k" in message
    model = tiny_model()
    model.tensors["blk.0.attn_norm.weight"] = TinyTensor("i32", (64,), bytes(256))
    assert refusal(model, tmp_path) == (
        "tensor 'blk.0.attn_norm.weight' is a vector of type i32, allowed are f32, f16, bf16"
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("scores", ([0.0] * 3, "f32"), "has 3 values, wanted 64, one for each token"),
        ("scores", ([0] * 64, "i32"), "is of type array of i32, wanted an array of f32"),
        ("token_type", ([1] * 64, "u8"), "is of type array of u8, wanted an array of i32 or u32"),
        ("token_type", ([1] * 65, "i32"), "has 65 values, wanted 64"),
        ("eos_token_id", 4294967295, "is 4294967295, allowed are 0 to 63"),
        ("bos_token_id", 64, "is 64, allowed are 0 to 63"),
        ("padding_token_id", (-1, "i32"), "is -1, allowed are 0 to 63"),
        ("eot_token_id", "2", "is of type string, wanted an integer"),
        ("merges", [1, 2], "is of type array of u32, wanted an array of string"),
        ("tokens", 7, "is of type u32, wanted an array of string"),
    ],
)
def test_vocabularies(key: str, value: Any, expected: str, tmp_path: Path) -> None:
    model = tiny_model()
    model.metadata[f"tokenizer.ggml.{key}"] = value
    message = refusal(model, tmp_path)
    assert message.startswith(f"key 'tokenizer.ggml.{key}' ")
    assert expected in message


def test_optional_arrays_and_odd_tokens_are_no_fault(tmp_path: Path) -> None:
    model = tiny_model()
    del model.metadata["tokenizer.ggml.token_type"]
    model.metadata["tokenizer.ggml.tokens"][9] = b"\xff\xfe"
    build(GGUFFile.open(model.write(tmp_path / "tiny.gguf")), GraphOptions())


def test_a_vocabulary_of_another_size_than_the_embedding(tmp_path: Path) -> None:
    model = tiny_model()
    model.metadata["tokenizer.ggml.tokens"].append("one more")
    model.metadata["tokenizer.ggml.token_type"] = ([1] * 65, "i32")
    assert refusal(model, tmp_path) == (
        "tensor 'token_embd.weight' has shape [64, 64], wanted [65, 64]"
    )


def test_names_from_the_file_stay_on_one_line(tmp_path: Path) -> None:
    model = tiny_model()
    model.metadata["general.name"] = 'A "model"\n\x1b[31m' + "x" * 100
    module = build(GGUFFile.open(model.write(tmp_path / "tiny.gguf")), GraphOptions())
    assert re.fullmatch(r"[a-z0-9._-]{1,64}", module.name)


def test_models_of_other_architectures_are_refused_by_name(tmp_path: Path) -> None:
    folder = require_shared("models/models")
    for path in sorted(folder.iterdir()):
        gguf = GGUFFile.open(path / "model.gguf")
        if gguf.metadata.get_str("general.architecture") not in architectures():
            with pytest.raises(ModelError, match="is not supported; supported are"):
                build(gguf, GraphOptions())


def test_bytes_of_weights(tmp_path: Path) -> None:
    model = tiny_model()
    gguf = GGUFFile.open(model.write(tmp_path / "tiny.gguf"))
    names = [f"blk.0.attn_{name}.weight" for name in "qkv"]
    joined = Weight("qkv", TensorType((128, 64), F32), tuple(names))
    expected = b"".join(model.tensors[name].data for name in names)
    assert weight_bytes(gguf, joined).tobytes() == expected
    single = weight_bytes(gguf, Weight(names[0], TensorType((64, 64), F32)))
    assert not single.flags.owndata
    part = Weight("part", TensorType((16, 64), F32), (Rows(names[1], 4, 20),))
    assert weight_bytes(gguf, part).tobytes() == model.tensors[names[1]].data[4 * 256 : 20 * 256]
    computed = Weight("c", TensorType((2,), F32), data=b"12345678")
    assert weight_bytes(gguf, computed).tobytes() == b"12345678"
    with pytest.raises(ModelError, match="takes 16384 bytes, its tensors hold 32768"):
        weight_bytes(gguf, Weight("qkv", TensorType((64, 64), F32), tuple(names)))
    with pytest.raises(ModelError, match="is of type f32, weight 'x' is of type f16"):
        weight_bytes(gguf, Weight("x", TensorType((64, 64), dtype("f16")), (names[0],)))


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        ("general.type", "adapter", "an adapter to a model's weights (LoRA)"),
        ("general.type", "imatrix", "statistics for quantising a model"),
        ("general.type", "mmproj", "a projector of images or sound"),
        ("general.architecture", "clip", "a projector of images or sound"),
        ("general.architecture", "controlvector", "directions to steer a model with"),
    ],
)
def test_what_goes_with_a_model_is_no_model(
    key: str, value: str, holds: str, tmp_path: Path
) -> None:
    model = tiny_model()
    model.metadata[key] = value
    assert refusal(model, tmp_path) == (
        f"{key} is '{value}': the file holds {holds}; supported are models of language alone"
    )


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    model = tiny_model()
    model.tensors.clear()
    assert refusal(model, tmp_path) == "the file has no tensors, only metadata"


@pytest.mark.parametrize("length", ["short", "long"])
def test_divisors_of_one_length_need_those_of_the_other(length: str, tmp_path: Path) -> None:
    model = small_model("phi3-longrope")
    name = f"rope_factors_{length}.weight"
    size = model.tensors.pop(name).shape[0]
    assert refusal(model, tmp_path) == f"tensor '{name}' is missing, wanted with shape [{size}]"


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("mixtral", {"llama.expert_gating_func": 9}, "is 9, allowed are 1 to 3"),
        ("mixtral", {"llama.expert_used_count": 99}, "is 99, allowed are 1 to 4"),
        ("lfm2", {"lfm2.shortconv.l_cache": 1}, "is 1, allowed are 2 to 64"),
        ("exaone4", {"exaone4.rope.scaling.type": "ntk"}, "is 'ntk', allowed are 'none', 'linear'"),
        (
            "deepseek2-yarn",
            {"deepseek2.attention.temperature_scale": 0.1},
            "is 0.1, allowed is only 0.0: nothing else is supported",
        ),
        (
            "hunyuan-dense",
            {"hunyuan-dense.rope.scaling.alpha": 3.0},
            "is 3.0, allowed is only 1.0: nothing else is supported",
        ),
        (
            "apertus",
            {"apertus.attn_logit_softcapping": -1.0},
            "is -1.0, allowed are numbers above 0 up to 1e+06",
        ),
    ],
)
def test_keys_of_other_architectures(
    name: str, changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    model = small_model(name)
    model.metadata |= changes
    (key,) = changes
    assert refusal(model, tmp_path).startswith(f"key '{key}' {expected}")
