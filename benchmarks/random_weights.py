"""Random quantised rows with the spread of trained weights, made without quantising anything.

Codes are drawn uniformly and the scales are set so that the decoded values have mean about 0 and
the wanted standard deviation. Every block is valid, so the files load wherever real ones do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ggufc.ir.quants import QUANTS

Blocks = NDArray[np.void]
Fill = Callable[[Blocks, float, np.random.Generator], None]

_MEAN_NIBBLE, _STD_NIBBLE = 7.5, 4.61  # of a uniform integer in 0..15
_STD_BYTE, _STD_6_BITS = 73.9, 18.47  # of uniform signed 8-bit and 6-bit integers
_MEAN_SCALE = 48.0  # sub-block scales are drawn from 33..63


def random_rows(
    type_name: str, shape: tuple[int, int], std: float, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Bytes of a (rows, columns) matrix in a GGUF type, with standard deviation `std`."""
    quant = QUANTS[type_name]
    if type_name == "f32":
        values = rng.standard_normal(shape, np.float32) * np.float32(std)
        return values.astype("<f4").reshape(-1).view(np.uint8)
    if type_name not in _FILLS:
        raise ValueError(f"no random blocks for type {type_name}; known: f32, {', '.join(_FILLS)}")
    count = shape[0] * shape[1] // quant.block_size
    blocks = rng.integers(0, 256, count * quant.block_bytes, np.uint8).view(quant.fields)
    _FILLS[type_name](blocks, std, rng)
    return blocks.view(np.uint8)


def _q4_0(blocks: Blocks, std: float, rng: np.random.Generator) -> None:
    blocks["d"] = _jitter(len(blocks), std / _STD_NIBBLE, rng)


def _q8_0(blocks: Blocks, std: float, rng: np.random.Generator) -> None:
    blocks["d"] = _jitter(len(blocks), std / _STD_BYTE, rng)


def _q4_k(blocks: Blocks, std: float, rng: np.random.Generator) -> None:
    d = _jitter(len(blocks), std / (_STD_NIBBLE * _MEAN_SCALE), rng)
    blocks["d"] = d
    blocks["dmin"] = d * np.float32(_MEAN_NIBBLE)  # with equal scale and min codes the mean is 0
    codes = rng.integers(33, 64, (len(blocks), 8), np.uint8)
    blocks["scales"] = _pack_6_bit(codes, codes)


def _q6_k(blocks: Blocks, std: float, rng: np.random.Generator) -> None:
    blocks["d"] = _jitter(len(blocks), std / (_STD_6_BITS * _MEAN_SCALE), rng)
    blocks["scales"] = rng.integers(33, 64, blocks["scales"].shape, np.int8)


_FILLS: dict[str, Fill] = {"q4_0": _q4_0, "q8_0": _q8_0, "q4_k": _q4_k, "q6_k": _q6_k}


def _jitter(count: int, mean: float, rng: np.random.Generator) -> NDArray[np.float16]:
    return (rng.uniform(0.8, 1.2, count) * mean).astype(np.float16)


def _pack_6_bit(scales: NDArray[np.uint8], mins: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Eight 6-bit scales and mins in the twelve bytes that q4_k and q5_k keep them in."""
    low_scales, high_scales = scales[:, :4], scales[:, 4:]
    low_mins, high_mins = mins[:, :4], mins[:, 4:]
    return np.concatenate(
        [
            low_scales | (high_scales >> 4) << 6,
            low_mins | (high_mins >> 4) << 6,
            (high_scales & 15) | (high_mins & 15) << 4,
        ],
        axis=1,
    )
