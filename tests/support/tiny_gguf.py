"""Tiny GGUF models with random weights, of any architecture that is supported and any element type.

`tiny_model(...)` gives a `TinyModel` whose metadata and tensors are plain dictionaries to change
before `write`. `chain_model` scripts the next token of every token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.compiler.gguf import GGUFWriter
from ggufc.ir.quants import QUANTS

CONTROL = ["<unk>", "<s>", "</s>"]
CHARACTERS = ["Ġ", "Ċ", *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"]
MERGED = ["th", "he", "in", "er", "an", "on", "Ġt", "Ġa", "the", "Ġthe", "Ġan", "ing", "Ġin"]
MERGES = [
    "t h",
    "h e",
    "i n",
    "e r",
    "a n",
    "o n",
    "Ġ t",
    "Ġ a",
    "th e",
    "Ġ the",
    "Ġ an",
    "in g",
    "Ġ in",
]


@dataclass
class TinyTensor:
    """A tensor to be written: its type, shape (rows first) and bytes."""

    type_name: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, values: npt.ArrayLike) -> TinyTensor:
        """A float32 tensor of `values`."""
        array = np.asarray(values, "<f4")
        return cls("f32", array.shape, array.tobytes())

    def numpy(self) -> npt.NDArray[np.float32]:
        """The values of a float32 tensor."""
        assert self.type_name == "f32", self.type_name
        return np.frombuffer(self.data, "<f4").reshape(self.shape).astype(np.float32)


@dataclass
class TinyModel:
    """A model to be written; a metadata value may be a pair (value, kind)."""

    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, TinyTensor] = field(default_factory=dict)

    def write(self, path: Path, version: int = 3, alignment: int = 32) -> Path:
        """Write the model to `path` and return it."""
        write_part(path, self.metadata, self.tensors, version, alignment)
        return path

    def write_split(self, folder: Path, n_parts: int = 2, stem: str = "tiny") -> list[Path]:
        """Write the model in parts, named and keyed as usual, and return their paths."""
        names = np.array_split(list(self.tensors), n_parts)
        paths = []
        for number, part in enumerate(names):
            keys = {
                **(self.metadata if number == 0 else {}),
                "split.no": (number, "u16"),
                "split.count": (n_parts, "u16"),
                "split.tensors.count": (len(self.tensors), "i32"),
            }
            path = folder / f"{stem}-{number + 1:05d}-of-{n_parts:05d}.gguf"
            write_part(path, keys, {str(name): self.tensors[str(name)] for name in part})
            paths.append(path)
        return paths


def write_part(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, TinyTensor],
    version: int = 3,
    alignment: int = 32,
) -> None:
    """Write one file."""
    with GGUFWriter(path, version, alignment) as writer:
        for key_name, value in metadata.items():
            writer.add_metadata(key_name, *(value if isinstance(value, tuple) else (value,)))
        for name, tensor in tensors.items():
            writer.add_tensor(name, tensor.type_name, tensor.shape, tensor.data)


def vocabulary(size: int) -> dict[str, Any]:
    """A byte-level BPE vocabulary: three control tokens, characters, a few words."""
    tokens = (CONTROL + CHARACTERS + MERGED)[:size]
    tokens += [f"word{i}" for i in range(size - len(tokens))]
    merges = [merge for merge in MERGES if merge.replace(" ", "") in tokens]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": ([3 if token in CONTROL else 1 for token in tokens], "i32"),
        "tokenizer.ggml.merges": (merges, "string"),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
    }


def tiny_model(
    architecture: str = "llama",
    *,
    n_layers: int = 2,
    dim: int = 64,
    n_heads: int = 4,
    n_kv_heads: int = 2,
    head_dim: int = 16,
    value_dim: int | None = None,
    hidden_dim: int = 96,
    vocab_size: int = 64,
    context: int = 128,
    type_name: str = "f32",
    tied: bool | None = None,
    biases: Sequence[str] | None = None,
    seed: int = 1,
    keys: Mapping[str, Any] | None = None,
) -> TinyModel:
    """A model of `architecture`; matrices are of `type_name`, vectors float32.

    `tied` and `biases` (names such as `attn_q`, of matrices that get a bias) follow the
    architecture unless given; `keys` are further hyperparameters, without the architecture's
    name."""
    hyper: dict[str, Any] = {
        "block_count": n_layers,
        "context_length": context,
        "embedding_length": dim,
        "feed_forward_length": hidden_dim,
        "attention.head_count": n_heads,
        "attention.head_count_kv": n_kv_heads,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim if value_dim is None else value_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": head_dim,
    }
    if biases is None:
        biases = ("attn_q", "attn_k", "attn_v") if architecture == "qwen2" else ()
    if tied is None:
        tied = architecture == "gemma3"
    maker = TensorMaker(hyper, type_name, biases, np.random.default_rng(seed))
    maker.fill(layer_norms(architecture), vocab_size, tied)
    hyper |= keys or {}
    metadata = {
        "general.architecture": architecture,
        "general.name": f"tiny-{architecture}",
        **{f"{architecture}.{name}": value for name, value in hyper.items()},
        **vocabulary(vocab_size),
    }
    return TinyModel(metadata, maker.tensors)


class TensorMaker:
    """Makes the random tensors of a model with the hyperparameters `hyper`."""

    def __init__(
        self,
        hyper: Mapping[str, int],
        type_name: str,
        biases: Sequence[str],
        rng: np.random.Generator,
    ) -> None:
        """Matrices are of `type_name`; those named in `biases` get a bias."""
        self.hyper = hyper
        self.type_name = type_name
        self.biases = biases
        self.rng = rng
        self.tensors: dict[str, TinyTensor] = {}

    def fill(self, norms: Sequence[str], vocab_size: int, tied: bool) -> None:
        """Make all tensors, in the order of a file."""
        dim = self.hyper["embedding_length"]
        self.matrix("token_embd", vocab_size, dim)
        for i in range(self.hyper["block_count"]):
            self.layer(f"blk.{i}.", norms)
        self.vector("output_norm.weight", dim, 1.0)
        if not tied:
            self.matrix("output", vocab_size, dim)

    def layer(self, prefix: str, norms: Sequence[str]) -> None:
        """Make the tensors of one layer."""
        hyper = self.hyper
        dim, hidden = hyper["embedding_length"], hyper["feed_forward_length"]
        heads, kv_heads = hyper["attention.head_count"], hyper["attention.head_count_kv"]
        width, value_width = hyper["attention.key_length"], hyper["attention.value_length"]
        for norm in norms:
            is_per_head = norm.endswith(("q_norm", "k_norm"))
            self.vector(f"{prefix}{norm}.weight", width if is_per_head else dim, 1.0)
        self.matrix(f"{prefix}attn_q", heads * width, dim)
        self.matrix(f"{prefix}attn_k", kv_heads * width, dim)
        self.matrix(f"{prefix}attn_v", kv_heads * value_width, dim)
        self.matrix(f"{prefix}attn_output", dim, heads * value_width)
        self.matrix(f"{prefix}ffn_gate", hidden, dim)
        self.matrix(f"{prefix}ffn_up", hidden, dim)
        self.matrix(f"{prefix}ffn_down", dim, hidden)

    def vector(self, name: str, n: int, mean: float) -> None:
        """Make a float32 vector around `mean`."""
        self.tensors[name] = TinyTensor.of(mean + 0.1 * self.rng.standard_normal(n))

    def matrix(self, name: str, rows: int, columns: int) -> None:
        """Make a matrix, and its bias where it has one."""
        self.tensors[f"{name}.weight"] = random_matrix(self.type_name, rows, columns, self.rng)
        if name.rpartition(".")[2] in self.biases:
            self.vector(f"{name}.bias", rows, 0.0)


def layer_norms(architecture: str) -> tuple[str, ...]:
    """The norms in one layer of an architecture."""
    if architecture == "qwen3":
        return "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"
    if architecture == "gemma3":
        return (
            "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm",
            "post_attention_norm", "post_ffw_norm",
        )  # fmt: skip
    return "attn_norm", "ffn_norm"


def random_matrix(type_name: str, rows: int, columns: int, rng: np.random.Generator) -> TinyTensor:
    """A matrix of standard deviation about 1 / sqrt(columns) in any element type."""
    values = rng.standard_normal((rows, columns)) / np.sqrt(columns)
    if type_name == "f32":
        return TinyTensor.of(values)
    if type_name == "f16":
        return TinyTensor("f16", (rows, columns), values.astype("<f2").tobytes())
    if type_name == "bf16":
        bits = values.astype("<f4").view("<u4") >> 16
        return TinyTensor("bf16", (rows, columns), bits.astype("<u2").tobytes())
    return TinyTensor(type_name, (rows, columns), random_blocks(type_name, rows, columns, rng))


def random_blocks(type_name: str, rows: int, columns: int, rng: np.random.Generator) -> bytes:
    """Blocks of a quantised type with random codes and small scales."""
    kind = QUANTS[type_name]
    count = prod((rows, columns)) // kind.block_size
    raw = rng.integers(0, 256, count * kind.block_bytes, dtype=np.uint8)
    blocks = raw.view(kind.fields)
    spread = 16.0 if type_name.endswith("_0") or type_name.endswith("_1") else 500.0
    for name in ("d", "dmin", "m"):
        if name in (kind.fields.names or ()) and kind.fields[name] == np.dtype("<f2"):
            scale = 0.5 if name == "d" else -0.5
            blocks[name] = scale * rng.uniform(0.5, 1.0, count) / (spread * np.sqrt(columns))
    return raw.tobytes()


def chain_model(next_token: npt.ArrayLike, strength: float = 1.0, context: int = 128) -> TinyModel:
    """A model whose logits after token i are strength x sqrt(n) x row i of a matrix, whatever came
    before.

    `next_token` is that matrix [n, n], or n token ids, each the certain successor of its index."""
    scores = np.asarray(next_token)
    if scores.ndim == 1:
        scores = np.eye(len(scores))[scores]
    n = len(scores)
    model = tiny_model(dim=n, head_dim=16, vocab_size=n, context=context)
    model.tensors["token_embd.weight"] = TinyTensor.of(100.0 * np.eye(n))
    model.tensors["output.weight"] = TinyTensor.of(strength * scores.T)
    model.tensors["output_norm.weight"] = TinyTensor.of(np.ones(n))
    for name, tensor in model.tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            model.tensors[name] = TinyTensor.of(np.zeros(tensor.shape))
    return model
