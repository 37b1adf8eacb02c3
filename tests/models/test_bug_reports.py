"""Numbers that engines have got wrong in public reports, and what they should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggufc.compiler.errors import CompileError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.hparams import Rope
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.models.rope import frequencies
from ggufc.ir import OPS
from ggufc.ir.numerics import F32Array
from tests.support.interpreted import InterpretedModel
from tests.support.small_models import small_model
from tests.support.tiny_gguf import TinyModel, TinyTensor, tiny_model

IDS = np.arange(3, 23, dtype=np.int32)


def reference(op: str, **arguments: Any) -> Any:
    """The op's definition, with absent operands and defaults filled in."""
    definition = OPS[op]
    given: dict[str, Any] = {spec.name: None for spec in definition.operands}
    given |= {spec.name: spec.default for spec in definition.attributes}
    return definition.reference(**{**given, **arguments})


def logits_of(model: TinyModel, folder: Path) -> F32Array:
    with GGUFFile.open(model.write(folder / "model.gguf")) as gguf:
        return InterpretedModel(gguf).prefill(IDS)


# -- frequencies ----------------------------------------------------------------------------------


def llama3_divisors(factor: float, low: float, high: float, original: int) -> F32Array:
    """By the rule of Llama 3.1 for heads of 64 and a base of 500000."""
    waves = 2 * math.pi * 500000.0 ** (np.arange(0, 64, 2) / 64)
    smooth = np.clip((original / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def test_divisors_of_llama_3(tmp_path: Path) -> None:
    divisors = llama3_divisors(32, 1, 4, 8192)
    assert np.allclose(divisors[[14, 15, 16, 17, 18, 31]], [1, 1.651, 3.292, 9.667, 32, 32], 1e-3)
    keys = {"rope.freq_base": 500000.0}
    twin = tiny_model(head_dim=64, keys=keys)
    model = tiny_model(head_dim=64, keys=keys)
    model.tensors["rope_freqs.weight"] = TinyTensor.of(divisors)
    tables = []
    for each in (twin, model):
        with GGUFFile.open(each.write(tmp_path / "model.gguf")) as gguf:
            weight = build(gguf, GraphOptions()).weights["rope.freqs"]
        assert weight.data is not None
        freqs = np.frombuffer(weight.data, "<f4")
        positions = np.array([1, 100, 5999], np.int32)
        tables.append(reference("rope_table", positions=positions, freqs=freqs))
    exact = np.outer([1, 100, 5999], 500000.0 ** (-np.arange(0, 64, 2) / 64) / divisors)
    assert np.abs(tables[1] - np.hstack([np.cos(exact), np.sin(exact)])).max() < 1e-3
    assert np.abs(tables[1] - tables[0])[2].max() > 0.1


@pytest.mark.parametrize(
    ("pairing", "turned"),
    [
        ("interleaved", [-1.1426, 1.9221, 2.9599, 4.0298]),
        ("half", [-1.9841, 1.9599, 2.4624, 4.0198]),
    ],
)
def test_pairs(pairing: str, turned: list[float]) -> None:
    freqs = np.array([1.0, 0.01], np.float32)
    table = reference("rope_table", positions=np.ones(1, np.int32), freqs=freqs)
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    found = reference("rope", x=x, table=table, pairing=pairing)
    assert np.allclose(found.reshape(-1), turned, atol=1e-4)


def test_a_part_of_a_head_has_frequencies_of_its_own_width(tmp_path: Path) -> None:
    model = tiny_model("qwen2", head_dim=80, keys={"rope.dimension_count": 32})
    with GGUFFile.open(model.write(tmp_path / "model.gguf")) as gguf:
        weight = build(gguf, GraphOptions()).weights["rope.freqs"]
    assert weight.data is not None
    exact = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    assert np.allclose(np.frombuffer(weight.data, "<f4"), exact, rtol=1e-6)


@pytest.mark.parametrize(("own", "scale"), [(None, 1.13863), (1.0, 1.0), (0.5, 0.5)])
def test_yarn_scales_sines_by_its_formula_or_by_what_the_file_says(
    own: float | None, scale: float, tmp_path: Path
) -> None:
    keys = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 2048,
    }
    if own is not None:
        keys["rope.scaling.yarn_attn_factor"] = own
    with GGUFFile.open(tiny_model(keys=keys).write(tmp_path / "model.gguf")) as gguf:
        module = build(gguf, GraphOptions())
    ops = [op for op in module.functions["prefill"].ops if op.name == "rope_table"]
    assert [op.attributes["scale"] for op in ops] == [pytest.approx(scale, abs=1e-5)]


# -- softcaps and routing -------------------------------------------------------------------------


def test_softcaps() -> None:
    x = np.array([[100.0, 60.0]], np.float32)
    assert reference("softcap", x=x, cap=50.0)[0, 0] == pytest.approx(48.2014, abs=1e-4)
    assert reference("softcap", x=x, cap=30.0)[0, 1] == pytest.approx(28.9208, abs=1e-4)


def routed(scores: list[float], **options: Any) -> tuple[list[int], list[float]]:
    """The experts and their weights of one token."""
    given = {"gating": "softmax", "normalize": False, "scale": 1.0, "groups": 1}
    given |= {"groups_used": 1, "group_best": 1}
    bias = options.pop("bias", None)
    bias = None if bias is None else np.array(bias, np.float32)
    logits = np.array([scores], np.float32)
    ids, weights = reference("route", logits=logits, bias=bias, **{**given, **options})
    return ids[0].tolist(), weights[0].tolist()


@pytest.mark.parametrize(
    ("options", "ids", "weights"),
    [
        ({"used": 2, "normalize": True}, [0, 1], [0.7311, 0.2689]),
        ({"used": 2}, [0, 1], [0.6439, 0.2369]),
        ({"used": 2, "scale": 2.5}, [0, 1], [2.5 * 0.6439, 2.5 * 0.2369]),
        ({"used": 2, "gating": "softmax_chosen"}, [0, 1], [0.7311, 0.2689]),
        ({"used": 1}, [0], [0.6439]),
        ({"used": 1, "normalize": True}, [0], [1.0]),
        ({"used": 4}, [0, 1, 2, 3], [0.6439, 0.2369, 0.0871, 0.0321]),
        (
            {"used": 2, "gating": "sigmoid", "bias": [0, 0, 0, 5]},
            [3, 0],
            [1 / (1 + math.e), 1 / (1 + math.exp(-2))],
        ),
    ],
)
def test_weights_of_experts(options: dict[str, Any], ids: list[int], weights: list[float]) -> None:
    found = routed([2.0, 1.0, 0.0, -1.0], **options)
    assert found[0] == ids
    assert found[1] == pytest.approx(weights, abs=1e-4)


def test_of_equal_experts_the_first_are_used() -> None:
    assert routed([1.0] * 4, used=2)[0] == [0, 1]


# -- multipliers ----------------------------------------------------------------------------------


def scaled_weights(names: tuple[str, ...], factor: float) -> Callable[[TinyModel], None]:
    """Multiply the tensors of these names, in all layers."""

    def change(model: TinyModel) -> None:
        for name, tensor in model.tensors.items():
            if name in names or name.endswith(tuple(f".{each}" for each in names)):
                model.tensors[name] = TinyTensor.of(tensor.numpy() * np.float32(factor))

    return change


BRANCHES = ("attn_output.weight", "ffn_down.weight")


def granite() -> TinyModel:
    """Without any multiplier, and with an output matrix of its own."""
    model = small_model("granite")
    model.tensors["output.weight"] = TinyTensor.of(model.tensors["token_embd.weight"].numpy())
    for name in ("embedding_scale", "residual_scale", "attention.scale"):
        del model.metadata[f"granite.{name}"]
    model.metadata["granite.logit_scale"] = 1.0
    return model


@pytest.mark.parametrize(
    ("key", "value", "change"),
    [
        ("embedding_scale", 12.0, scaled_weights(("token_embd.weight",), 12.0)),
        ("residual_scale", 0.22, scaled_weights(BRANCHES, 0.22)),
        ("logit_scale", 8.0, scaled_weights(("output.weight",), 1 / 8)),
        ("attention.scale", 0.015625, scaled_weights(("attn_q.weight",), 0.015625 * 8**0.5)),
    ],
)
def test_each_multiplier_alone(
    key: str, value: float, change: Callable[[TinyModel], None], tmp_path: Path
) -> None:
    """As if the weights before or after it had been multiplied."""
    plain, same, other = granite(), granite(), granite()
    same.metadata[f"granite.{key}"] = value
    change(other)
    found, wanted = logits_of(same, tmp_path), logits_of(other, tmp_path)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert np.abs(found - logits_of(plain, tmp_path)).max() > 1e-2


@pytest.mark.parametrize("name", ["granite", "granitemoe", "cohere2", "command-r"])
def test_a_missing_multiplier_of_logits_is_refused(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    del model.metadata[f"{name}.logit_scale"]
    with (
        GGUFFile.open(model.write(tmp_path / "model.gguf")) as gguf,
        pytest.raises(CompileError, match=f"key '{name}.logit_scale' is missing"),
    ):
        build(gguf, GraphOptions())


# -- heads and biases -----------------------------------------------------------------------------


def test_an_odd_width_of_the_model_has_heads_of_their_own(tmp_path: Path) -> None:
    """Three heads of 32 in a width of 100."""
    model = tiny_model(dim=100, n_heads=3, n_kv_heads=3, head_dim=32)
    assert np.isfinite(logits_of(model, tmp_path)).all()


@pytest.mark.parametrize("name", ["attn_q.bias", "attn_output.bias", "ffn_up.bias"])
def test_every_element_of_a_bias_counts(name: str, tmp_path: Path) -> None:
    model = small_model("llama-bias")
    before = logits_of(model, tmp_path)
    bias = model.tensors[f"blk.0.{name}"].numpy()
    bias[-1] += 0.5
    model.tensors[f"blk.0.{name}"] = TinyTensor.of(bias)
    assert np.abs(logits_of(model, tmp_path) - before).max() > 1e-3


def test_frequencies_are_those_of_the_definition() -> None:
    exact = 10000.0 ** (-np.arange(0, 80, 2) / 80)
    assert np.allclose(frequencies(Rope(10000.0, 80), None), exact, rtol=1e-6)
