"""Random weights and activations in the form that kernels take them."""

from __future__ import annotations

import numpy as np

from ggufc.backends.llvm.kernel import OperandSignature
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.layouts import layout_for, pack
from ggufc.ir import Q8aArray, Symbol, TensorType, decode
from ggufc.ir.quants import QUANTS
from ggufc.ir.types import dtype
from tests.support.native import aligned


def random_raw(type_name: str, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """A matrix [n, k] as a GGUF file holds it: random codes, scales of about 1 / (largest code)."""
    quant = QUANTS[type_name]
    count = n * k // quant.block_size
    blocks = rng.integers(0, 256, count * quant.block_bytes, np.uint8).view(quant.fields)
    if type_name == "bf16":
        blocks["x"] = rng.standard_normal(count, np.float32).view(np.uint32) >> 16
    elif not quant.is_quantized:
        blocks["x"] = rng.standard_normal(count, np.float32).astype(blocks["x"].dtype)
    for field, scale in (("d", 0.02), ("dmin", 0.02), ("m", 0.2)):
        if field in (quant.fields.names or ()):
            blocks[field] = scale * rng.standard_normal(count, np.float32)
    return blocks.view(np.uint8)


def packed(type_name: str, raw: np.ndarray, n: int, k: int) -> np.ndarray:
    """The packed matrix at an aligned address."""
    content = pack(type_name, raw, n, k)
    out = aligned(content.size, np.uint8)
    out[:] = content
    return out


def decoded(type_name: str, raw: np.ndarray, n: int, k: int) -> np.ndarray:
    """The float32 values [n, k] by the reference decoder."""
    return decode(type_name, raw, (n, k))


def weight(name: str, type_name: str, n: int, k: int) -> OperandSignature:
    """A packed weight operand."""
    type_ = TensorType((n, k), dtype(type_name))
    return OperandSignature(name, "weight", type_, layout_for(type_name).name)


def vector(name: str, n: int) -> OperandSignature:
    """A raw float32 weight [n]."""
    return OperandSignature(name, "weight", TensorType((n,), dtype("f32")), "raw")


def value(name: str, type_name: str, *shape: int) -> OperandSignature:
    """A value operand [T, *shape]."""
    return OperandSignature(name, "value", tokens_type(type_name, *shape))


def tokens_type(type_name: str, *shape: int) -> TensorType:
    """The type [T, *shape]."""
    return TensorType((Symbol("T", 1024), *shape), dtype(type_name))


def q8a_rows(x: Q8aArray) -> np.ndarray:
    """Quantised activations [T, K] as bytes [T, stride], padding zero, by the definition of the layout."""
    tokens, k = x.shape
    row = Q8aRow(k)
    out = aligned((tokens, row.stride), np.uint8)
    halves = x.qs.reshape(tokens, -1, 16).sum(axis=-1, dtype=np.int32)
    sums = halves.reshape(tokens, -1, 2).sum(axis=-1, dtype=np.int32)
    scaled = x.d * sums.astype(np.float32)
    fields = (
        (0, x.qs),
        (row.scales, x.d),
        (row.scaled_sums, scaled),
        (row.negative_sums, -sums),
        (row.negative_half_sums, -halves),
    )
    for offset, values in fields:
        content = np.ascontiguousarray(values).view(np.uint8)
        out[:, offset : offset + content.shape[1]] = content
    return out
