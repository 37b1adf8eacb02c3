"""Graphs that make embeddings, run by the interpreter, against their references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggufc.backends.reference.backend import ReferenceBackend
from ggufc.compiler.errors import CompileError
from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused
from ggufc.ir import Module, print_module
from tests.support.embeddings import (
    ENCODERS,
    QUANTISED,
    Ids,
    Rows,
    Text,
    bidirectional_copy,
    embedding_fixture,
    reference_texts,
)
from tests.support.interpreted import InterpretedModel
from tests.support.tiny_gguf import tiny_model

TOLERANCE = 1e-4


class Embeddings:
    """A model file whose graph `embed` the interpreter runs."""

    def __init__(self, path: Path, module: Module | None = None) -> None:
        self.model = InterpretedModel(GGUFFile.open(path), module, context=600)

    def of(self, *texts: Ids) -> list[Rows]:
        """The embeddings of the tokens of several texts, by one call."""
        sizes = [len(ids) for ids in texts]
        positions = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])
        sequences = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = np.arange(sum(sizes), dtype=np.int32)
        with ReferenceBackend(self.model.module, self.model.weight) as backend:
            found = backend.embed(np.concatenate(texts), positions, sequences, rows)
        return np.split(found, np.cumsum(sizes)[:-1])


def encoder(path: Path, context: int = 96) -> Embeddings:
    """An encoder with a smaller context than 600."""
    return Embeddings(path, build(GGUFFile.open(path), GraphOptions(max_context=context)))


def check(text: Text, rows: Rows, tolerance: float = TOLERANCE) -> None:
    """Compare a text's embeddings with what is stored."""
    assert np.abs(text.kept(rows) - text.hidden).max() < tolerance
    assert np.abs(rows.mean(axis=0) - text.mean).max() < tolerance


@pytest.mark.parametrize("name", [*ENCODERS, *QUANTISED])
def test_encoders(name: str) -> None:
    fixture = embedding_fixture(name)
    model = encoder(fixture.path)
    for text in fixture.texts:
        check(text, model.of(text.ids)[0])


@pytest.mark.parametrize("name", ["bert", "nomic-bert-moe", "gemma-embedding"])
def test_fused_programs_compute_the_same(name: str) -> None:
    fixture = embedding_fixture(name)
    graph = build(GGUFFile.open(fixture.path), GraphOptions(max_context=96))
    model = Embeddings(fixture.path, to_fused(graph, Compute()))
    check(fixture.texts[3], model.of(fixture.texts[3].ids)[0])


def test_several_texts_do_not_mix() -> None:
    fixture = embedding_fixture("jina-bert-v2")
    model, texts = encoder(fixture.path), fixture.texts[:5]
    for text, rows in zip(texts, model.of(*(text.ids for text in texts)), strict=True):
        check(text, rows)


def test_a_decoder_embeds_with_its_last_hidden_states() -> None:
    fixture = embedding_fixture("qwen3-last")
    model = Embeddings(fixture.path)
    for text in fixture.texts[:4]:
        check(text, model.of(text.ids)[0])


def test_a_decoder_may_have_been_trained_to_see_the_whole_text(tmp_path: Path) -> None:
    model = encoder(bidirectional_copy(tmp_path), 600)
    for text in reference_texts("qwen3-text"):
        check(text, model.of(text.ids)[0])
    first, second = (reference_texts(name)[2] for name in ("qwen3-text", "qwen3-last"))
    assert (first.ids == second.ids).all()
    assert np.abs(first.mean - second.mean).max() > 1e-2


def test_an_encoder_has_one_function_and_no_state() -> None:
    module = build(GGUFFile.open(embedding_fixture("bert").path), GraphOptions())
    assert list(module.functions) == ["embed"]
    assert not module.states
    inputs = {value.name: str(value.type) for value in module.functions["embed"].inputs}
    assert list(inputs) == ["tokens", "positions", "lengths", "rows"]
    assert inputs["tokens"] == "i32[T<=96]"
    assert "kv_write" not in print_module(module)


def test_embedding_changes_nothing_of_generation(tmp_path: Path) -> None:
    """The graphs of a decoder are those that it would have without `embed`."""
    module = build(GGUFFile.open(tiny_model().write(tmp_path / "a.gguf")), GraphOptions())
    assert list(module.functions) == ["prefill", "decode", "embed"]
    weights = {w for name in ("prefill", "decode") for op in module.functions[name].ops
               for w in op.weights()}  # fmt: skip
    assert {w for op in module.functions["embed"].ops for w in op.weights()} <= weights
    prefill, embed = (module.functions[name].ops for name in ("prefill", "embed"))
    assert [op.name for op in prefill[: len(embed)]] == [op.name for op in embed]


@pytest.mark.parametrize(
    ("architecture", "value", "expected"),
    [("bert", True, "key 'bert.attention.causal' is True, allowed is only False")],
)
def test_an_encoder_is_not_causal(
    architecture: str, value: Any, expected: str, tmp_path: Path
) -> None:
    content = embedding_fixture(architecture).path.read_bytes()
    key = f"{architecture}.attention.causal".encode() + (7).to_bytes(4, "little")
    path = tmp_path / "causal.gguf"
    path.write_bytes(content.replace(key + b"\0", key + bytes([value])))
    with pytest.raises(CompileError, match=expected):
        build(GGUFFile.open(path), GraphOptions())


@pytest.mark.parametrize("architecture", ["gpt2", "gemma2"])
def test_other_decoders_are_causal(architecture: str, tmp_path: Path) -> None:
    model = tiny_model(architecture, keys={"attention.causal": False})
    with pytest.raises(CompileError, match="is False, allowed is only True"):
        build(GGUFFile.open(model.write(tmp_path / "tiny.gguf")), GraphOptions())


def test_learned_positions_bound_the_context() -> None:
    with pytest.raises(CompileError, match="context 97: the model has learned positions 0 to 95"):
        encoder(embedding_fixture("bert").path, 97)
