"""What hyperparameters and tensors do to a graph, against a second implementation in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.ir import print_module
from ggufc.ir.numerics import F32Array
from tests.support.interpreted import InterpretedModel
from tests.support.numpy_model import NumpyModel
from tests.support.tiny_gguf import TinyModel, TinyTensor, chain_model, tiny_model

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
ALL_BIASES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
TOLERANCE = 1e-4


def prompt(n: int, seed: int = 0) -> npt.NDArray[np.int32]:
    return np.random.default_rng(seed).integers(0, 64, n, dtype=np.int32)


def compiled(model: TinyModel, folder: Path, name: str = "tiny.gguf") -> InterpretedModel:
    gguf = GGUFFile.open(model.write(folder / name))
    return InterpretedModel(gguf, context=512)


def compare(model: TinyModel, folder: Path, n: int = 24) -> F32Array:
    """Assert that the graph computes what the second implementation does; returns the logits."""
    logits = compiled(model, folder).prefill(prompt(n))
    assert np.abs(logits - NumpyModel(model).forward(prompt(n))).max() < TOLERANCE
    return logits


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_over_64_positions(architecture: str, tmp_path: Path) -> None:
    keys = {"attention.sliding_window": 7} if architecture == "gemma3" else {}
    logits = compare(tiny_model(architecture, n_layers=7, keys=keys), tmp_path, 64)
    assert logits.std() > 0.1


@pytest.mark.parametrize("width", [8, 24, 40, 72, 80, 96, 128, 256])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_head_widths_come_from_the_file(architecture: str, width: int, tmp_path: Path) -> None:
    compare(tiny_model(architecture, n_layers=1, dim=96, head_dim=width), tmp_path)


def test_value_heads_may_be_narrower(tmp_path: Path) -> None:
    compare(tiny_model(dim=96, head_dim=32, value_dim=16), tmp_path)
    compare(tiny_model(dim=100, n_heads=3, n_kv_heads=3, head_dim=32), tmp_path)


def test_part_of_a_head_may_rotate(tmp_path: Path) -> None:
    for architecture in ("llama", "qwen2"):
        model = tiny_model(architecture, head_dim=80, keys={"rope.dimension_count": 32})
        compare(model, tmp_path)


def test_missing_optional_keys_have_their_defaults(tmp_path: Path) -> None:
    model = tiny_model(n_kv_heads=4)
    for name in (
        "attention.head_count_kv", "attention.key_length", "attention.value_length",
        "rope.freq_base", "rope.dimension_count",
    ):  # fmt: skip
        del model.metadata[f"llama.{name}"]
    logits = compare(model, tmp_path)
    assert (logits == compiled(tiny_model(n_kv_heads=4), tmp_path).prefill(prompt(24))).all()


def test_per_layer_values(tmp_path: Path) -> None:
    model = tiny_model(n_layers=2)
    for name, tensor in tiny_model(n_layers=1, hidden_dim=32, seed=2).tensors.items():
        if name.startswith("blk.0."):
            model.tensors[name.replace("blk.0.", "blk.1.")] = tensor
    model.metadata["llama.feed_forward_length"] = [96, 32]
    model.metadata["llama.attention.head_count_kv"] = [2, 2]
    compare(model, tmp_path)


def test_all_biases_are_added(tmp_path: Path) -> None:
    model = tiny_model(biases=ALL_BIASES)
    before = compare(model, tmp_path)
    for name in ALL_BIASES:
        tensor = model.tensors[f"blk.1.{name}.bias"]
        values = tensor.numpy().copy()
        values[3] += 1.0
        model.tensors[f"blk.1.{name}.bias"] = TinyTensor.of(values)
        after = compare(model, tmp_path)
        # (That of k shifts the scores of a head alike, but for the rotation.)
        assert np.abs(after - before).max() > 1e-3, name
        before = after


def test_one_matrix_for_q_k_and_v_with_its_bias(tmp_path: Path) -> None:
    apart = tiny_model(biases=("attn_q", "attn_k", "attn_v"))
    joined = tiny_model(biases=("attn_q", "attn_k", "attn_v"))
    for i in range(2):
        for kind in ("weight", "bias"):
            parts = [joined.tensors.pop(f"blk.{i}.attn_{name}.{kind}").numpy() for name in "qkv"]
            joined.tensors[f"blk.{i}.attn_qkv.{kind}"] = TinyTensor.of(np.concatenate(parts))
    assert (compare(joined, tmp_path) == compare(apart, tmp_path)).all()


def llama3_divisors() -> npt.NDArray[np.float64]:
    """Llama 3.1's rule for width 64, base 500000: factor 32, low 1, high 4, original context
    8192."""
    wavelength = 2 * np.pi * 500000.0 ** (np.arange(0, 64, 2) / 64)
    smooth = np.clip((8192 / wavelength - 1) / (4 - 1), 0, 1)
    return 1 / ((1 - smooth) / 32 + smooth)


def rope_model(divisors: npt.ArrayLike | None) -> TinyModel:
    model = tiny_model(n_layers=1, dim=128, n_heads=2, n_kv_heads=1, head_dim=64, context=8192)
    model.metadata["llama.rope.freq_base"] = 500000.0
    if divisors is not None:
        model.tensors["rope_freqs.weight"] = TinyTensor.of(divisors)
    return model


def test_rope_divisors_of_the_file(tmp_path: Path) -> None:
    divisors = llama3_divisors()
    assert np.allclose(divisors[14:18], [1, 1.651, 3.292, 9.667], atol=1e-3)
    assert np.allclose(divisors[18:], 32)
    logits = compare(rope_model(divisors), tmp_path, 300)
    plain = compare(rope_model(None), tmp_path, 300)
    assert np.abs(logits - plain)[:1].max() == 0
    assert np.abs(logits - plain)[-1].max() > 1e-3


def test_rope_divisors_are_checked(tmp_path: Path) -> None:
    for values, expected in (
        (np.ones(31), r"has shape \[31\], wanted \[32\]"),
        (np.zeros(32), r"holds 0\.0, allowed are 0\.001 to 1e\+36"),
    ):
        with pytest.raises(Exception, match=expected):
            compiled(rope_model(values), tmp_path)


def longrope_model() -> TinyModel:
    model = tiny_model(keys={"rope.scaling.original_context_length": 16})
    model.tensors["rope_factors_short.weight"] = TinyTensor.of(np.linspace(1, 1.5, 8))
    model.tensors["rope_factors_long.weight"] = TinyTensor.of(np.linspace(2, 4, 8))
    return model


def test_long_sequences_have_frequencies_of_their_own(tmp_path: Path) -> None:
    model = longrope_model()
    run = compiled(model, tmp_path)
    for n, size in ((16, "short"), (17, "long")):
        alone = tiny_model()
        alone.tensors["rope_freqs.weight"] = model.tensors[f"rope_factors_{size}.weight"]
        run.reset()
        assert np.abs(run.prefill(prompt(n)) - compare(alone, tmp_path, n)).max() < 1e-5


def test_a_context_without_long_sequences_needs_no_lengths(tmp_path: Path) -> None:
    gguf = GGUFFile.open(longrope_model().write(tmp_path / "tiny.gguf"))
    text = print_module(build(gguf, GraphOptions(max_context=16)))
    assert "lengths" not in text
    assert "rope.freqs_long" not in text
    assert "short_context = 16" in print_module(build(gguf, GraphOptions(max_context=17)))


def test_linear_rope_scaling(tmp_path: Path) -> None:
    plain = compare(tiny_model(), tmp_path)
    keys: dict[str, Any] = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    scaled = compare(tiny_model(keys=keys), tmp_path)
    assert np.abs(scaled - plain).max() > 1e-2
    old = compiled(tiny_model(keys={"rope.scale_linear": 4.0}), tmp_path).prefill(prompt(24))
    assert (old == scaled).all()
    none = compiled(tiny_model(keys={**keys, "rope.scaling.type": "none"}), tmp_path).prefill(
        prompt(24)
    )
    assert (none == plain).all()


def test_gemma3_scales_rope_in_whole_context_layers_only(tmp_path: Path) -> None:
    keys = {
        "rope.scaling.factor": 8.0,
        "rope.scaling.type": "linear",
        "attention.sliding_window": 8,
    }
    compare(tiny_model("gemma3", n_layers=7, keys=keys), tmp_path, 40)
    ir = print_module(compiled(tiny_model("gemma3", n_layers=7, keys=keys), tmp_path).module)
    assert ir.count("= rope_table(") == 2 * len(("prefill", "decode", "embed"))


def test_softcaps_and_scale_of_the_file(tmp_path: Path) -> None:
    keys = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "attention.scale": 0.9}
    logits = compare(tiny_model(keys=keys), tmp_path)
    assert np.abs(logits).max() < 3.0
    assert np.abs(logits - compare(tiny_model(), tmp_path)).max() > 0.1


def test_the_window_counts_the_token_itself(tmp_path: Path) -> None:
    """Changing token j alters the logits at i exactly if i - 3 <= j <= i (window 4, one layer)."""
    model = compiled(tiny_model(n_layers=1, keys={"attention.sliding_window": 4}), tmp_path)
    ids = prompt(12)
    before = model.prefill(ids)
    for j in range(12):
        changed = ids.copy()
        changed[j] = (ids[j] + 1) % 64
        altered = np.abs(model.prefill(changed) - before).max(axis=1) > 0
        assert altered.tolist() == [j <= i <= j + 3 for i in range(12)]


@pytest.mark.parametrize("pattern", [0, 1, 2, [True, False], [False, True]])
def test_window_patterns(pattern: Any, tmp_path: Path) -> None:
    keys = {"attention.sliding_window": 4, "attention.sliding_window_pattern": pattern}
    model = tiny_model(n_layers=2, keys=keys)
    logits = compare(model, tmp_path, 12)
    run = compiled(model, tmp_path)
    assert np.abs(run.in_chunks(prompt(12), 4) - logits).max() < 1e-5
    run.reset()
    assert np.abs(run.step_by_step(prompt(12)) - logits).max() < 1e-5


def test_a_window_of_nothing_or_of_everything_changes_nothing(tmp_path: Path) -> None:
    plain = compiled(tiny_model(), tmp_path).prefill(prompt(20))
    for window in (0, 20, 1000):
        model = tiny_model(keys={"attention.sliding_window": window})
        assert (compiled(model, tmp_path).prefill(prompt(20)) == plain).all()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_output_matrix_and_embedding(architecture: str, tmp_path: Path) -> None:
    tied = tiny_model(architecture, tied=True)
    alone = compare(tied, tmp_path)
    assert len(compiled(tied, tmp_path).module.weights) == len(tied.tensors) + 1  # the frequencies
    tied.tensors["output.weight"] = tied.tensors["token_embd.weight"]
    assert (compare(tied, tmp_path) == alone).all()
    other = tiny_model(architecture, tied=False)
    assert np.abs(compare(other, tmp_path) - alone).max() > 0.1
    del other.tensors["token_embd.weight"]
    with pytest.raises(Exception, match=r"tensor 'token_embd\.weight' is missing"):
        compiled(other, tmp_path)


@pytest.mark.parametrize("type_name", ["q8_0", "q4_0", "q4_k"])
def test_a_quantised_embedding_serves_as_output(type_name: str, tmp_path: Path) -> None:
    model = tiny_model(dim=256, head_dim=64, hidden_dim=256, tied=True, type_name=type_name)
    module = compiled(model, tmp_path).module
    assert module.weights["token_embd.weight"].type.dtype.name == type_name
    assert "output.weight" not in module.weights
    model.tensors["output.weight"] = model.tensors["token_embd.weight"]
    with_copy = compiled(model, tmp_path, "copy.gguf").prefill(prompt(5))
    del model.tensors["output.weight"]
    assert (compiled(model, tmp_path).prefill(prompt(5)) == with_copy).all()


def test_vectors_of_16_bits_are_converted_exactly(tmp_path: Path) -> None:
    model = tiny_model()
    name = "blk.0.attn_norm.weight"
    rounded = model.tensors[name].numpy().astype("<f2")
    model.tensors[name] = TinyTensor("f16", rounded.shape, rounded.tobytes())
    half = compiled(model, tmp_path)
    model.tensors[name] = TinyTensor.of(rounded.astype(np.float32))
    assert (half.prefill(prompt(9)) == compiled(model, tmp_path).prefill(prompt(9))).all()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [32, 64, 4096])
def test_versions_and_alignments_compute_the_same(
    version: int, alignment: int, tmp_path: Path
) -> None:
    path = tiny_model().write(tmp_path / "other.gguf", version, alignment)
    logits = InterpretedModel(GGUFFile.open(path)).prefill(prompt(9))
    assert (logits == compiled(tiny_model(), tmp_path).prefill(prompt(9))).all()


def test_parts_compute_the_same(tmp_path: Path) -> None:
    part = tiny_model().write_split(tmp_path, 3)[1]
    logits = InterpretedModel(GGUFFile.open(part)).prefill(prompt(9))
    assert (logits == compiled(tiny_model(), tmp_path).prefill(prompt(9))).all()


def test_a_chain_says_what_it_was_told(tmp_path: Path) -> None:
    chain = np.roll(np.arange(64), -1)
    model = compiled(chain_model(chain), tmp_path)
    assert model.greedy(np.array([5], np.int32), 4) == [6, 7, 8, 9]
    assert np.isclose(model.prefill(np.array([5], np.int32))[0, 6], 8.0)


def test_bounds_of_the_program(tmp_path: Path) -> None:
    gguf = GGUFFile.open(tiny_model(context=100).write(tmp_path / "tiny.gguf"))
    text = print_module(build(gguf, GraphOptions(max_tokens=256, max_batch=3)))
    assert "state $blk.0.k : bf16[S<=3, C<=128, 2, 16]" in text
    assert "func @prefill(%tokens: i32[T<=256]" in text
    assert "%rows: i32[R<=256])" in text
    assert "func @decode(%tokens: i32[B<=3], %positions: i32[B], %sequences: i32[B])" in text
    text = print_module(build(gguf, GraphOptions(max_context=4096, kv_type="f16")))
    assert "state $blk.0.k : f16[S<=8, C<=4096, 2, 16]" in text


def test_the_graph_of_a_layer(tmp_path: Path) -> None:
    """The program as a person reads it."""
    gguf = GGUFFile.open(tiny_model("qwen2", n_layers=1).write(tmp_path / "tiny.gguf"))
    text = print_module(build(gguf, GraphOptions()))
    steps = [
        line.split("=")[0].split("(")[0].strip()
        for line in text.split("func @decode")[1].split("  func @embed")[0].splitlines()
    ]
    assert steps[1:-2] == [
        "%embd", "%blk.0.attn_norm",
        "%blk.0.attn_q", "%blk.0.attn_q.biased", "%blk.0.attn_k", "%blk.0.attn_k.biased",
        "%blk.0.attn_v", "%blk.0.attn_v.biased",
        "%blk.0.attn_q.heads", "%blk.0.attn_k.heads", "%blk.0.attn_v.heads",
        "%rope.table", "%blk.0.attn_q.rope", "%blk.0.attn_k.rope", "kv_write",
        "%blk.0.attn", "%blk.0.attn.flat", "%blk.0.attn_output", "%blk.0.attn_residual",
        "%blk.0.ffn_norm", "%blk.0.ffn_gate", "%blk.0.ffn_up", "%blk.0.ffn_gate.silu",
        "%blk.0.ffn_gated", "%blk.0.ffn_down", "%blk.0.ffn_residual",
        "%output_norm", "%logits", "return %logits",
    ]  # fmt: skip
