"""Random bytes of every GGUF type with blocks of sane scales, so that values are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ggufc.ir.quant_reference import decode
from ggufc.ir.quants import quant

_SPREAD = np.float32(0.3)
_HALF_SCALES = ("d", "m", "dmin")


def random_weight_bytes(rng: np.random.Generator, type_name: str, shape: Sequence[int]) -> bytes:
    """Bytes of a random tensor: normal numbers of plain types, random codes of block types."""
    row = quant(type_name)
    count = math.prod(shape[:-1]) * row.nbytes(shape[-1]) // row.block_bytes
    if not row.is_quantized:
        return plain_bytes(rng, type_name, count)
    blocks = np.frombuffer(rng.bytes(count * row.block_bytes), row.fields).copy()
    names = blocks.dtype.names or ()
    fields = [f for f in _HALF_SCALES if f in names and blocks.dtype[f] == np.float16]
    for field in fields:
        blocks[field] = rng.uniform(0.5, 1.0, count) * rng.choice([-1, 1], count)
    tame(rng, type_name, blocks)
    spread = decode(type_name, blocks.tobytes(), shape).std()
    for field in fields:
        blocks[field] = blocks[field] * (_SPREAD / spread)
    return blocks.tobytes()


def half_scales(blocks: np.ndarray) -> list[str]:
    """The fields of blocks that are float16 scales or minima."""
    names = blocks.dtype.names or ()
    return [f for f in _HALF_SCALES if f in names and blocks.dtype[f] == np.float16]


def tame(rng: np.random.Generator, type_name: str, blocks: np.ndarray) -> None:
    """Sane scales for the types that keep them elsewhere than in a float16 field."""
    count = len(blocks)
    if type_name == "mxfp4":
        blocks["e"] = rng.integers(120, 126, count)
    elif type_name == "nvfp4":
        blocks["d"] = rng.integers(0x10, 0x30, (count, 4))
    elif type_name == "iq1_m":
        code = rng.uniform(0.002, 0.02, count).astype(np.float16).view(np.uint16)
        nibbles = code[:, None] >> np.array([0, 4, 8, 12], np.uint16) & 15
        blocks["scales"] = (blocks["scales"] & 0x0FFF) | (nibbles << 12)


def plain_bytes(rng: np.random.Generator, type_name: str, count: int) -> bytes:
    """`count` normal numbers of f32, f16 or bf16 (rounded down) as bytes."""
    values = (_SPREAD * rng.standard_normal(count)).astype("<f4")
    if type_name == "bf16":
        return (values.view("<u4") >> 16).astype("<u2").tobytes()
    return values.astype({"f32": "<f4", "f16": "<f2"}[type_name]).tobytes()
