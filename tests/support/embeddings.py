"""Tiny models of embeddings, with what their references make of some texts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.fixtures import DATA, unpacked

FOLDER = DATA / "embedding"
# Float32 models that see the whole text; the first have a vocabulary of words.
WORDS = ("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v2-normed")
ENCODERS = (*WORDS, "gemma-embedding")
QUANTISED = ("bert-q8_0", "bert-q4_0")
# Of texts with at least so many tokens, only some tokens' embeddings are stored.
LONG = 60

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Text:
    """A text, its tokens, the embeddings of tokens (see `kept`) [n, width], and their mean."""

    text: str
    ids: Ids
    hidden: Rows
    mean: Rows

    def kept(self, rows: Rows) -> Rows:
        """The rows of all tokens' embeddings that are stored: of a long text the first two, the one
        in the middle and the last."""
        count = len(self.ids)
        return rows if count < LONG else rows[[0, 1, count // 2, count - 1]]


@dataclass(frozen=True)
class EmbeddingFixture:
    """A model file and its texts."""

    path: Path
    texts: list[Text]


@cache
def embedding_fixture(name: str) -> EmbeddingFixture:
    """The model `name`."""
    return EmbeddingFixture(unpacked(FOLDER / f"{name}.gguf.xz"), reference_texts(name))


@cache
def reference_texts(name: str) -> list[Text]:
    """The texts of a reference."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        count = len([key for key in arrays if key.endswith(".ids")])
        return [
            Text(
                str(arrays[f"t{i}.text"]),
                *(arrays[f"t{i}.{key}"] for key in ("ids", "hidden", "mean")),
            )
            for i in range(count)
        ]


def bidirectional_copy(folder: Path) -> Path:
    """The model `qwen3-last` with `attention.causal` false."""
    content = embedding_fixture("qwen3-last").path.read_bytes()
    key = b"qwen3.attention.causal" + (7).to_bytes(4, "little")
    assert content.count(key + b"\1") == 1
    path = folder / "qwen3-text.gguf"
    path.write_bytes(content.replace(key + b"\1", key + b"\0"))
    return path


def cosine(a: Rows, b: Rows) -> float:
    """The cosine of the angle between two vectors."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))
