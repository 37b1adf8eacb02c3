"""Embeddings by compiled bundles, against the references, on every instruction set here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.errors import ArgumentError, ContextError, EmbeddingError, PurposeError
from ggufc.runtime.model import Model
from ggufc.verification import verify_bundle
from tests.support.bundles import alphabet_bundle, tiny_bundle
from tests.support.embeddings import (
    ENCODERS,
    QUANTISED,
    WORDS,
    bidirectional_copy,
    cosine,
    embedding_fixture,
    reference_texts,
)

TOLERANCE = 1e-4
LIMIT = 96
ISAS = pytest.mark.parametrize("isa", host_isas())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedding")


def bundle(name: str, folder: Path) -> Path:
    """The bundle of a model, compiled once for all instruction sets of this machine."""
    path = folder / f"{name}.ggufc"
    if not path.exists():
        options = CompileOptions(target=",".join(host_isas()), kv_type="f32")
        source = folder / f"{name}.gguf"
        compile_model(
            source if source.exists() else embedding_fixture(name).path, path, options
        )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def bert(folder: Path) -> Iterator[Model]:
    with Model.load(bundle("bert", folder), threads=2) as model:
        yield model


@ISAS
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name: str, isa: str, folder: Path) -> None:
    with Model.load(bundle(name, folder), threads=2, isa=isa) as model:
        embedder = model.embedder(pooling="none", normalize=False)
        texts = embedding_fixture(name).texts
        for text, rows in zip(texts, embedder.embed([t.ids for t in texts]), strict=True):
            assert np.abs(text.kept(rows) - text.hidden).max() < TOLERANCE
            assert cosine(rows.mean(axis=0), text.mean) > 0.999999


@ISAS
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_encoders(name: str, isa: str, folder: Path) -> None:
    with Model.load(bundle(name, folder), threads=2, isa=isa) as model:
        texts = embedding_fixture(name).texts
        embedder = model.embedder(pooling="mean")
        for text, vector in zip(texts, embedder.embed([t.ids for t in texts]), strict=True):
            assert cosine(vector, text.mean) > 0.9995


@ISAS
def test_decoders_take_the_last_token_across_calls_of_prefill(isa: str, folder: Path) -> None:
    texts = embedding_fixture("qwen3-last").texts
    assert len(texts[-1].ids) > 512
    with Model.load(bundle("qwen3-last", folder), threads=2, isa=isa) as model:
        embedder = model.embedder(normalize=False)
        assert embedder.pooling == "last"
        for text, vector in zip(texts, embedder.embed([t.ids for t in texts]), strict=True):
            assert np.abs(vector - text.hidden[-1]).max() < TOLERANCE
        mean = model.embedder(pooling="mean", normalize=False)
        assert np.abs(next(mean.embed([texts[-1].ids])) - texts[-1].mean).max() < TOLERANCE
        first = model.embedder(pooling="cls", normalize=False)
        assert np.abs(next(first.embed([texts[-1].ids])) - texts[-1].hidden[0]).max() < TOLERANCE


def test_a_decoder_that_sees_the_whole_text(folder: Path) -> None:
    bidirectional_copy(folder)
    with Model.load(bundle("qwen3-text", folder), threads=2) as model:
        assert model.manifest.graphs == ("embed",)
        text = reference_texts("qwen3-text")[-1]
        (rows,) = model.embedder(pooling="none", normalize=False).embed([text.ids])
        assert np.abs(text.kept(rows) - text.hidden).max() < TOLERANCE


@pytest.mark.parametrize("name", WORDS)
def test_tokens_are_those_of_the_reference(name: str, folder: Path) -> None:
    with Model.load(bundle(name, folder)) as model:
        texts = embedding_fixture(name).texts
        found = model.embedder(control_tokens="native").tokens([text.text for text in texts])
        assert [ids.tolist() for ids in found] == [text.ids.tolist() for text in texts]


def test_control_tokens_in_texts_are_text(bert: Model) -> None:
    plain, native = (
        bert.embedder(control_tokens=policy).tokens(["a [SEP]"])[0].tolist()
        for policy in ("control-only", "native")
    )
    assert native.count(3) == 2
    assert plain.count(3) == 1


def test_texts_and_threads_change_no_bit(bert: Model, folder: Path) -> None:
    texts = [text.text for text in embedding_fixture("bert").texts] * 3
    together = bert.embed(texts)
    alone = np.stack([bert.embed(text) for text in texts])
    assert (together.view(np.uint32) == alone.view(np.uint32)).all()
    with Model.load(bundle("bert", folder), threads=1) as model:
        assert (model.embed(texts).view(np.uint32) == together.view(np.uint32)).all()


def test_a_quantised_batch_is_its_texts_alone(folder: Path) -> None:
    texts = [text.text for text in embedding_fixture("bert-q4_0").texts]
    with Model.load(bundle("bert-q4_0", folder), threads=2) as model:
        alone = np.stack([model.embed(text) for text in texts])
        assert (model.embed(texts).view(np.uint32) == alone.view(np.uint32)).all()


def test_pooling_lengths_and_dimensions(bert: Model) -> None:
    text = embedding_fixture("bert").texts[0]
    for pooling, expected in (
        ("mean", text.mean),
        ("cls", text.hidden[0]),
        ("last", text.hidden[-1]),
    ):
        found = bert.embed(text.text, pooling=pooling, normalize=False)
        assert np.abs(found - expected).max() < TOLERANCE
        unit = bert.embed([text.text], pooling=pooling, dimensions=5)
        assert unit.shape == (1, 5)
        assert abs(float(np.square(unit.astype(np.float64)).sum()) - 1) < 1e-6
        assert cosine(unit[0], expected[:5]) > 0.999999
    (tokens,) = bert.embed_tokens([text.text])
    assert tokens.shape == text.hidden.shape
    assert np.abs(np.linalg.norm(tokens, axis=1) - 1).max() < 1e-6


def test_the_file_says_how_to_pool(folder: Path) -> None:
    for name, pooling in (("bert", "mean"), ("bert-q8_0", "cls"), ("bert-q4_0", "mean")):
        with Model.load(bundle(name, folder)) as model:
            assert model.embedder().pooling == pooling


def test_no_texts(bert: Model) -> None:
    assert bert.embed([]).shape == (0, 32)


def test_the_limit_of_a_text(bert: Model) -> None:
    fits, too_long = "sea " * (LIMIT - 2), "sea " * (LIMIT - 1)
    assert len(bert.embedder().tokens([fits])[0]) == LIMIT
    with pytest.raises(ContextError, match="text 2 of 2: 97 tokens do not fit a context of 96"):
        bert.embed([fits, too_long])
    cut = bert.embed(too_long, truncate=True)
    assert (cut == bert.embed(fits)).all()
    (ids,) = bert.embedder(truncate=True).tokens([too_long])
    assert ids[-1] == 3  # the end token stays
    with Model.load(bert.bundle.path, context=8) as short:
        assert len(short.embedder(truncate=True).tokens([fits])[0]) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "max"}, "pooling 'max': allowed are none, mean, cls, last"),
        ({"pooling": "none"}, "use embed_tokens"),
        ({"dimensions": 0}, "dimensions 0: expected an integer from 1 to 32"),
        ({"dimensions": 33}, "dimensions 33: expected an integer from 1 to 32"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str, bert: Model) -> None:
    with pytest.raises(ArgumentError, match=message):
        bert.embed("a", **settings)  # type: ignore[arg-type]


def test_an_encoder_makes_no_text(bert: Model) -> None:
    message = r"tiny-bert \(bert\) is an encoder: it makes embeddings and no text; use embed"
    with pytest.raises(PurposeError, match=message):
        bert.generate("a")
    with pytest.raises(PurposeError, match=message):
        bert.chat([{"role": "user", "content": "a"}])
    with pytest.raises(PurposeError, match=message):
        bert.logits([1, 2])
    with pytest.raises(PurposeError, match=message):
        bert.generate_batch(["a"])


def test_generation_goes_on_as_if_nothing_had_been_embedded(tmp_path: Path) -> None:
    with Model.load(alphabet_bundle(tmp_path), sequences=1) as model:
        assert model.generate("a", max_tokens=3).text == "bcd"
        before = model.embed("xyz", pooling="mean")
        assert model.generate("abcd", max_tokens=2).text == "ef"
        assert (model.embed("xyz", pooling="mean") == before).all()


def test_a_text_without_tokens(tmp_path: Path) -> None:
    with Model.load(tiny_bundle(tmp_path)) as model:
        assert model.embedder().pooling == "mean"
        with pytest.raises(ArgumentError, match="text 2 of 2: it has no tokens"):
            model.embed(["a", ""])


def test_embeddings_that_are_none(bert: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: np.ndarray) -> None:
        arguments[-1][...] = np.nan

    monkeypatch.setattr(bert.engine, "embed", broken)
    with pytest.raises(EmbeddingError, match="text 1: the model's embedding is not finite"):
        bert.embed("a")


@pytest.mark.parametrize("name", ["bert", "bert-q4_0"])
def test_encoders_verify(name: str, folder: Path) -> None:
    report = verify_bundle(bundle(name, folder))
    assert report.passed
    assert {row.graph for row in report.tokens} == {"embed"}
