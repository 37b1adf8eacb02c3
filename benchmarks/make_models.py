"""Write random-weight GGUF files in the true shapes of published models.

    python benchmarks/make_models.py OUTDIR [MODEL ...] [--types q4_0 q8_0 q4_k_m]

The files carry a real vocabulary and load in any GGUF runtime; what they say is noise, what they
cost is real.
"""

from __future__ import annotations

import argparse
import lzma
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from random_weights import random_rows

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.gguf.writer import GGUFWriter

HERE = Path(__file__).parent
VOCABULARIES = HERE.parent / "tests" / "data" / "tokenizer"
# The mixes, and llama.cpp's number of each, which some readers ask for.
TYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15}


@dataclass(frozen=True)
class Tensor:
    """One tensor to write: its name, type, shape (rows first) and how its bytes are made."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    make: Callable[[np.random.Generator], np.ndarray[Any, Any]]


def matrix(name: str, type_name: str, rows: int, columns: int) -> Tensor:
    """A random matrix that keeps the size of its input: standard deviation 1 / sqrt(columns)."""
    std = 1.0 / math.sqrt(columns)
    shape = (rows, columns)
    return Tensor(name, type_name, shape, lambda rng: random_rows(type_name, shape, std, rng))


def vector(name: str, n: int, mean: float, std: float) -> Tensor:
    """A random float32 vector."""

    def make(rng: np.random.Generator) -> np.ndarray[Any, Any]:
        return (mean + std * rng.standard_normal(n)).astype("<f4").view(np.uint8)

    return Tensor(name, "f32", (n,), make)


def rope_factors(shape: dict[str, Any]) -> Tensor:
    """The frequency divisors of Llama 3's rope scaling (the formula of the model's release)."""
    p = shape["rope_factors"]
    n = shape["head_dim"] // 2
    inverse = shape["rope_theta"] ** (-np.arange(n) / n)
    wavelength = 2 * np.pi / inverse
    low, high = p["original_context"] / p["low"], p["original_context"] / p["high"]
    smooth = (p["original_context"] / wavelength - p["low"]) / (p["high"] - p["low"])
    blended = 1 / ((1 - smooth) / p["factor"] + smooth)
    factors = np.where(wavelength < high, 1.0, np.where(wavelength > low, p["factor"], blended))
    return Tensor("rope_freqs.weight", "f32", (n,), lambda _: factors.astype("<f4").view(np.uint8))


def uses_more_bits(layer: int, layers: int) -> bool:
    """Which layers' attn_v and ffn_down the Q4_K_M mix keeps in q6_k."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2


def tensors(shape: dict[str, Any], mix: str) -> Iterator[Tensor]:
    """Every tensor of a model with tied embeddings, in file order."""
    dim, head_dim, vocab = shape["dim"], shape["head_dim"], shape["vocab"]
    base = "q4_k" if mix == "q4_k_m" else mix
    yield matrix("token_embd.weight", "q8_0" if mix == "q8_0" else "q6_k", vocab, dim)
    yield vector("output_norm.weight", dim, 1.0, 0.1)
    if "rope_factors" in shape:
        yield rope_factors(shape)
    for layer in range(shape["layers"]):
        more = "q6_k" if mix == "q4_k_m" and uses_more_bits(layer, shape["layers"]) else base
        yield from _layer(f"blk.{layer}.", shape, dim, head_dim, base, more)


def _layer(
    prefix: str, shape: dict[str, Any], dim: int, head_dim: int, base: str, more: str
) -> Iterator[Tensor]:
    q, kv, hidden = shape["heads"] * head_dim, shape["kv_heads"] * head_dim, shape["hidden_dim"]
    yield vector(prefix + "attn_norm.weight", dim, 1.0, 0.1)
    for name, rows, type_name in (("q", q, base), ("k", kv, base), ("v", kv, more)):
        yield matrix(f"{prefix}attn_{name}.weight", type_name, rows, dim)
        if shape.get("qkv_bias"):
            yield vector(f"{prefix}attn_{name}.bias", rows, 0.0, 0.1)
    if shape.get("qk_norm"):
        yield vector(prefix + "attn_q_norm.weight", head_dim, 1.0, 0.1)
        yield vector(prefix + "attn_k_norm.weight", head_dim, 1.0, 0.1)
    yield matrix(prefix + "attn_output.weight", base, dim, q)
    yield vector(prefix + "ffn_norm.weight", dim, 1.0, 0.1)
    yield matrix(prefix + "ffn_gate.weight", base, hidden, dim)
    yield matrix(prefix + "ffn_up.weight", base, hidden, dim)
    yield matrix(prefix + "ffn_down.weight", more, dim, hidden)


def hyperparameters(name: str, shape: dict[str, Any], mix: str) -> dict[str, Any]:
    """The metadata that describes the architecture."""
    arch = shape["arch"]
    return {
        "general.architecture": arch,
        "general.name": f"{name} (random weights)",
        "general.file_type": TYPES[mix],
        f"{arch}.block_count": shape["layers"],
        f"{arch}.context_length": shape["context"],
        f"{arch}.embedding_length": shape["dim"],
        f"{arch}.feed_forward_length": shape["hidden_dim"],
        f"{arch}.attention.head_count": shape["heads"],
        f"{arch}.attention.head_count_kv": shape["kv_heads"],
        f"{arch}.attention.key_length": shape["head_dim"],
        f"{arch}.attention.value_length": shape["head_dim"],
        f"{arch}.attention.layer_norm_rms_epsilon": float(shape["norm_eps"]),
        f"{arch}.rope.freq_base": float(shape["rope_theta"]),
        f"{arch}.rope.dimension_count": shape["head_dim"],
        f"{arch}.vocab_size": shape["vocab"],
    }


def vocabulary(name: str) -> dict[str, Any]:
    """The tokenizer metadata of a stored vocabulary."""
    packed = VOCABULARIES / f"{name}.gguf.xz"
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(lzma.decompress(packed.read_bytes()))
        file.flush()
        metadata = GGUFFile.open(file.name).metadata
        return {key: metadata[key] for key in metadata if key.startswith("tokenizer.")}


def once(tensor: Tensor, rng: np.random.Generator) -> Callable[[], Iterator[np.ndarray[Any, Any]]]:
    """A tensor's bytes, made when they are written: only one tensor is in memory at a time."""
    return lambda: iter([tensor.make(rng)])


def write_model(path: Path, name: str, shape: dict[str, Any], mix: str, seed: int = 1) -> None:
    """Write one file; the same name, mix and seed give the same bytes."""
    tokenizer = vocabulary(shape["vocabulary"])
    shape = {**shape, "vocab": len(tokenizer["tokenizer.ggml.tokens"])}
    rng = np.random.default_rng(seed)
    partial = path.with_suffix(".partial")
    with GGUFWriter(partial) as writer:
        for key, value in {**hyperparameters(name, shape, mix), **tokenizer}.items():
            writer.add_metadata(key, value)
        for tensor in tensors(shape, mix):
            writer.add_tensor(tensor.name, tensor.type_name, tensor.shape, once(tensor, rng))
    partial.rename(path)


def main() -> int:
    shapes: dict[str, Any] = yaml.safe_load((HERE / "shapes.yaml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of: {', '.join(shapes)}")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    args = parser.parse_args()
    unknown = sorted(set(args.models) - set(shapes))
    if unknown:
        parser.error(f"unknown model {unknown[0]!r}; known: {', '.join(shapes)}")
    args.outdir.mkdir(parents=True, exist_ok=True)
    for name in args.models or shapes:
        for mix in args.types:
            path = args.outdir / f"{name}-{mix}.gguf"
            if not path.exists():
                write_model(path, name, shapes[name], mix)
                print(path, path.stat().st_size)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
