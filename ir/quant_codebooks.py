"""Decoders of the types whose codes index a grid of vectors: IQ1, IQ2 and IQ3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ggufc.ir.numerics import F32Array
from ggufc.ir.quant_codes import GRID_CODES, GridCodes, iq1_m_scale
from ggufc.ir.quant_fields import as_f32, scale
from ggufc.ir.quant_grids import GRIDS

Array = npt.NDArray[Any]

_IQ1_DELTA = np.float32(0.125)


def _scaled(factors: Array, vectors: F32Array) -> F32Array:
    """Vectors [n, v, length] times factors [n, f], each for v / f vectors; float32 [n, 256]."""
    repeated = np.repeat(factors, vectors.shape[1] // factors.shape[1], axis=1)
    return (repeated[..., None] * vectors).reshape(len(vectors), 256)


def _signed(codes: GridCodes, factors: Array, grid: F32Array) -> F32Array:
    signs = np.float32(1) - 2 * as_f32(codes.negative)
    return _scaled(factors, grid[codes.index]) * signs


def _iq2(name: str) -> Callable[[Array], F32Array]:
    def decode(blocks: Array) -> F32Array:
        codes = GRID_CODES[name](blocks)
        factors = scale(blocks, "d") * (np.float32(0.5) + as_f32(codes.scales)) * np.float32(0.25)
        return _signed(codes, factors, GRIDS[name])

    return decode


def _iq3_xxs(blocks: Array) -> F32Array:
    codes = GRID_CODES["iq3_xxs"](blocks)
    factors = scale(blocks, "d") * (np.float32(0.5) + as_f32(codes.scales)) * np.float32(0.5)
    return _signed(codes, factors, GRIDS["iq3_xxs"])


def _iq3_s(blocks: Array) -> F32Array:
    codes = GRID_CODES["iq3_s"](blocks)
    return _signed(codes, scale(blocks, "d") * (1 + 2 * as_f32(codes.scales)), GRIDS["iq3_s"])


def _shifted(codes: GridCodes, d: F32Array) -> F32Array:
    """IQ1: every vector of the grid moved by 1/8 up or down."""
    delta = np.where(codes.negative == 1, -_IQ1_DELTA, _IQ1_DELTA)
    return _scaled(
        d * (2 * as_f32(codes.scales) + 1), GRIDS["iq1_s"][codes.index] + delta[..., None]
    )


def _iq1_s(blocks: Array) -> F32Array:
    return _shifted(GRID_CODES["iq1_s"](blocks), scale(blocks, "d"))


def _iq1_m(blocks: Array) -> F32Array:
    return _shifted(GRID_CODES["iq1_m"](blocks), as_f32(iq1_m_scale(blocks))[:, None])


DECODERS: dict[str, Callable[[Array], F32Array]] = {
    "iq1_m": _iq1_m,
    "iq1_s": _iq1_s,
    "iq2_s": _iq2("iq2_s"),
    "iq2_xs": _iq2("iq2_xs"),
    "iq2_xxs": _iq2("iq2_xxs"),
    "iq3_s": _iq3_s,
    "iq3_xxs": _iq3_xxs,
}
