"""`ggufc inspect`: what it says about files that are supported, are not, or cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggufc.cli import main, run_command
from tests.support.fake_bundle import write_fake_bundle
from tests.support.random_weights import random_weight_bytes
from tests.support.small_models import small_model
from tests.support.tiny_gguf import TinyModel, TinyTensor, tiny_model

Capture = pytest.CaptureFixture[str]


def as_json(path: Path, capsys: Capture) -> dict[str, Any]:
    assert run_command(["inspect", "--json", str(path)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def as_text(path: Path, capsys: Capture) -> str:
    assert run_command(["inspect", "--tensors", str(path)]) == 0
    return capsys.readouterr().out


def test_a_supported_model(tmp_path: Path, capsys: Capture) -> None:
    path = tiny_model(type_name="q4_1", keys={"note": float("nan")}).write(tmp_path / "tiny.gguf")
    found = as_json(path, capsys)
    assert (found["architecture"], found["model_problem"], found["tokenizer_problem"]) == (
        "llama", None, None,
    )  # fmt: skip
    assert found["bytes"] == path.stat().st_size
    assert found["hparams"]["n_layers"] == 2
    assert found["hparams"]["rope_theta"] == 10000.0
    assert found["types"][0]["type"] == "q4_1"
    assert found["types"][0]["layout"] == "r16.q4_1"
    assert sum(use["bytes"] for use in found["types"]) == sum(t["bytes"] for t in found["tensors"])
    assert found["tensors"][0] == {
        "name": "token_embd.weight",
        "type": "q4_1",
        "shape": [64, 64],
        "bytes": 64 * 64 // 32 * 20,
        "layout": "r16.q4_1",
        "kernel": "embed",
        "product": "float32",
        "reason": "own layout; rows are decoded as they are looked up",
    }
    assert found["metadata"]["llama.attention.layer_norm_rms_epsilon"] == {
        "type": "f32",
        "value": 1e-5,
    }
    assert found["metadata"]["tokenizer.ggml.tokens"]["length"] == 64
    assert found["metadata"]["llama.note"]["value"] == "nan"
    assert found["tokenizer"] == {"model": "gpt2", "pre": "gpt-2", "tokens": 64, "templates": []}
    text = as_text(path, capsys)
    assert "model      llama: supported" in text
    assert "tokenizer  gpt2/gpt-2, 64 tokens, 0 chat templates: supported" in text
    assert "blk.1.ffn_down.weight" in text


def test_layouts_and_products_are_shown_with_the_reason(tmp_path: Path, capsys: Capture) -> None:
    model = tiny_model(dim=256, head_dim=64, hidden_dim=256, type_name="iq2_xxs")
    text = as_text(model.write(tmp_path / "tiny.gguf"), capsys)
    assert "r16.iq2_s    int8     exact repack, signed grid values as 3-bit codes" in text
    assert "rms_norm         raw          float32  read as it is, number by number" in text
    assert "linear           r16.iq2_s    int8     exact repack, signed grid" in text


def uses_of(name: str, path: Path, capsys: Capture) -> dict[str, tuple[str, ...]]:
    """Kernel, layout, product and reason of every tensor of a small model."""
    found = as_json(small_model(name).write(path), capsys)
    keys = ("kernel", "layout", "product", "reason")
    return {tensor["name"]: tuple(tensor[key] for key in keys) for tensor in found["tensors"]}


def test_the_kernel_of_every_tensor_is_shown(tmp_path: Path, capsys: Capture) -> None:
    """Of experts, of a convolution, of halves of one tensor, of factors of the frequencies."""
    path = tmp_path / "small.gguf"
    uses = uses_of("gemma4-moe", path, capsys)
    assert uses["blk.0.ffn_gate_up_exps.weight"][:3] == ("expert_glu", "r16.f32", "float32")
    assert uses["blk.0.ffn_down_exps.scale"][:3] == ("scale_experts", "raw", "float32")
    assert uses["rope_freqs.weight"][-1] == "taken into account when compiling"
    uses = uses_of("lfm2", path, capsys)
    assert uses["blk.0.shortconv.conv.weight"][:2] == ("short_conv", "raw")
    assert not [name for name, use in uses.items() if use[0] == "none"]


def test_experts_of_a_float32_model_are_decoded(tmp_path: Path, capsys: Capture) -> None:
    model = small_model("mixtral")
    shape = model.tensors["blk.0.ffn_up_exps.weight"].shape
    content = random_weight_bytes(np.random.default_rng(1), "mxfp4", shape)
    model.tensors["blk.0.ffn_up_exps.weight"] = TinyTensor("mxfp4", shape, content)
    text = as_text(model.write(tmp_path / "small.gguf"), capsys)
    assert "r16.mxfp4    float32  own layout; decoded on the way, since the model is" in text


def test_what_is_not_supported_is_named(tmp_path: Path, capsys: Capture) -> None:
    model = tiny_model(dim=256, head_dim=64, hidden_dim=256, type_name="i8")
    model.metadata["tokenizer.ggml.pre"] = "no-such-rule"
    text = as_text(model.write(tmp_path / "tiny.gguf"), capsys)
    assert "llama: NOT SUPPORTED: tensor 'token_embd.weight': element type 'i8'" in text
    assert "NOT SUPPORTED: tokenizer.ggml.pre is 'no-such-rule'" in text
    model.metadata["general.architecture"] = "frobnicate"
    model.metadata["tokenizer.ggml.model"] = "rwkv"
    found = as_json(model.write(tmp_path / "tiny.gguf"), capsys)
    assert found["model_problem"].startswith("architecture 'frobnicate' is not supported")
    assert found["tokenizer_problem"].startswith("tokenizer.ggml.model is 'rwkv', supported are")
    assert found["hparams"] is None
    assert {use["layout"] for use in found["types"]} == {None, "r16.f32"}


def test_a_vocabulary_alone_and_a_file_without_anything(tmp_path: Path, capsys: Capture) -> None:
    model = tiny_model()
    model.tensors.clear()
    found = as_json(model.write(tmp_path / "vocabulary.gguf"), capsys)
    assert (found["model_problem"], found["tokenizer_problem"], found["tensors"]) == (
        None,
        None,
        [],
    )
    found = as_json(TinyModel().write(tmp_path / "empty.gguf"), capsys)
    assert found["tokenizer"] is None
    assert "key 'general.architecture' is missing" in found["model_problem"]


def test_a_model_in_parts(tmp_path: Path, capsys: Capture) -> None:
    paths = tiny_model().write_split(tmp_path, 2)
    assert as_json(paths[1], capsys)["paths"] == [str(path) for path in paths]


def test_hostile_text_stays_on_its_line(tmp_path: Path, capsys: Capture) -> None:
    model = tiny_model()
    model.metadata["evil\n\x1b[2J"] = "a\nb\x1b" + "x" * 5000
    model.metadata["general.name"] = b"\xff\xfe"
    text = as_text(model.write(tmp_path / "tiny.gguf"), capsys)
    assert "\x1b" not in text
    assert r"evil\n\x1b[2J: a\nb\x1bxxx" in text


def test_a_damaged_file_is_one_line_and_exit_1(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(3))
    assert main(["inspect", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"ggufc: {path}: the file ends inside the version at byte 4: 4 bytes needed, 3 present\n"
    )
    assert main(["inspect", str(tmp_path / "absent.gguf")]) == 1


def test_a_bundle(tmp_path: Path, capsys: Capture) -> None:
    folder = write_fake_bundle(tmp_path / "tiny.ggufc")
    found = as_json(folder, capsys)
    assert found["model"]["architecture"] == "llama"
    text = as_text(folder, capsys)
    assert "source     a.gguf, 10 bytes" in text
    assert "r16.q8_0" in text
    (folder / "manifest.yaml").unlink()
    assert main(["inspect", str(folder)]) == 1
    assert "not a bundle" in capsys.readouterr().err
