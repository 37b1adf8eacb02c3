"""Frequencies of rotary embeddings, computed when a model is compiled."""

import numpy as np

from ggufc.compiler.hparams import Rope
from ggufc.ir.numerics import F32Array


def frequencies(rope: Rope, divisors: F32Array | None = None) -> F32Array:
    """The angle per position of each rotated pair: 1 / theta^(2i / dim), over `divisors` and the
    scaling factor.

    Rounded to float32 after each step, as the models were trained with: the exponents, the
    powers, the reciprocals, the quotients. The powers themselves are taken in float64, whose
    library function gives the same result on every machine."""
    exponents = np.arange(0, rope.dim, 2, dtype=np.float32) / np.float32(rope.dim)
    powers = np.array([rope.theta ** float(e) for e in exponents], np.float64).astype(np.float32)
    result = np.float32(1.0) / powers
    if divisors is not None:
        result = result / divisors
    return result / np.float32(rope.factor)
