"""Random weights and activations in the form that kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import OperandSignature
from ggufc.backends.llvm.kernels.activations import Q8aRow
from ggufc.backends.llvm.layouts import layout_for, pack
from ggufc.ir import Q8aArray, TensorType, decode, dtype, f32_to_bf16, quantize_q8a
from ggufc.ir.quants import QUANTS
from tests.support.native import aligned, runnable_isas
from tests.support.random_weights import half_scales, tame
from tests.support.signatures import tensor

QUANTIZED = tuple(row.name for row in QUANTS.values() if row.is_quantized)
# One for each quantised layout: the types that share one differ in how they are packed only.
LAYOUTS = tuple(name for name in QUANTIZED if layout_for(name).type_name == name)
FLOATS = ("f32", "f16", "bf16")


def columns_of(type_name: str) -> int:
    """A K that is not a whole number of units where the type allows it."""
    odd = {"f32": 101, "f16": 103, "bf16": 98}
    return odd.get(type_name) or 3 * max(QUANTS[type_name].block_size, 32)


def levels() -> list[Isa]:
    """One runnable instruction set for each way to multiply bytes."""
    return list({isa.dot: isa for isa in runnable_isas()}.values())


@dataclass(frozen=True)
class MatrixWeight:
    """A matrix [n, k] as a GGUF file holds it."""

    type_name: str
    n: int
    k: int
    raw: np.ndarray

    @cached_property
    def packed(self) -> np.ndarray:
        """The packed matrix at an aligned address."""
        content = pack(self.type_name, self.raw, self.n, self.k)
        out = aligned(content.size, np.uint8)
        out[:] = content
        return out

    @cached_property
    def values(self) -> np.ndarray:
        """The float32 values by the reference decoder."""
        return decode(self.type_name, self.raw, (self.n, self.k))

    def operand(self, name: str = "weights") -> OperandSignature:
        """The operand of a signature."""
        type_ = TensorType((self.n, self.k), dtype(self.type_name))
        return OperandSignature(name, "weight", type_, layout_for(self.type_name).name)


def random_weight(
    type_name: str, n: int, k: int, rng: np.random.Generator, choices: Sequence[int] = range(256)
) -> MatrixWeight:
    """Codes of random bytes out of `choices`, scales random of either sign."""
    quant = QUANTS[type_name]
    count = n * k // quant.block_size
    raw = rng.choice(np.array(choices, np.uint8), count * quant.block_bytes)
    blocks = raw.view(quant.fields)
    if type_name == "bf16":
        blocks["x"] = rng.standard_normal(count, np.float32).view(np.uint32) >> 16
    elif not quant.is_quantized:
        blocks["x"] = rng.standard_normal(count, np.float32)
    for field in half_scales(blocks):
        blocks[field] = 0.02 * rng.standard_normal(count, np.float32)
    tame(rng, type_name, blocks)
    return MatrixWeight(type_name, n, k, blocks.view(np.uint8))


def value(name: str, text: str) -> OperandSignature:
    """A value operand of the type that is spelt, `q8a[T, 96]`."""
    return OperandSignature(name, "value", tensor(text))


def vector(name: str, n: int) -> OperandSignature:
    """A raw float32 weight [n]."""
    return OperandSignature(name, "weight", TensorType((n,), dtype("f32")), "raw")


def random_activation(tokens: int, k: int, rng: np.random.Generator) -> Q8aArray:
    """Quantised normal numbers, some blocks with residuals."""
    return quantize_q8a(rng.standard_normal((tokens, k), np.float32), "outliers")


def bf16a_rows(x: np.ndarray) -> np.ndarray:
    """Numbers [T, K] as bf16 activations [T, stride / 2], with NaN between the rows."""
    tokens, k = x.shape
    out = aligned((tokens, dtype("bf16a").nbytes(k) // 2), np.uint16, 0x7FC0)
    out[:, :k] = f32_to_bf16(x)
    return out


def q8a_rows(x: Q8aArray) -> np.ndarray:
    """Quantised activations [T, K] as bytes [T, stride], zeros between: the layout's definition."""
    tokens, k = x.shape
    row = Q8aRow(k)
    out = aligned((tokens, row.stride), np.uint8)
    halves = x.qs.reshape(tokens, -1, 16).sum(axis=-1, dtype=np.int32)
    sums = halves.reshape(tokens, -1, 2).sum(axis=-1, dtype=np.int32)
    fields: list[tuple[int, np.ndarray]] = [
        (0, x.qs),
        (row.scales, x.d),
        (row.negative_sums, -sums),
        (row.negative_half_sums, -halves),
    ]
    rs = np.zeros_like(x.qs) if x.rs is None else x.rs
    rests = rs.reshape(tokens, -1, 16).sum(axis=-1, dtype=np.int32)
    exact = sums * 256 + rests.reshape(tokens, -1, 2).sum(axis=-1)
    fields += [
        (row.scaled_sums, x.d * (exact.astype(np.float32) / np.float32(256))),
        (row.residuals, rs),
        (row.negative_residual_sums, -rests),
        (row.refined, np.asarray(rs.reshape(tokens, -1, 32).any(axis=-1))),
    ]
    for offset, values in fields:
        content = np.ascontiguousarray(values).view(np.uint8)
        out[:, offset : offset + content.shape[1]] = content
    return out


def product(x: np.ndarray, weights: list[MatrixWeight]) -> tuple[np.ndarray, np.ndarray]:
    """x W^T in float64 and, to measure errors by, |x| |W|^T."""
    wide = x.astype(np.float64)
    columns = np.concatenate([w.values for w in weights]).astype(np.float64).T
    return wide @ columns, np.abs(wide) @ np.abs(columns)
