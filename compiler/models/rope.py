"""Frequencies of rotary embeddings, computed when a model is compiled."""

import math

import numpy as np

from ggufc.compiler.hparams import Rope, Yarn
from ggufc.ir.numerics import F32Array


def frequencies(rope: Rope, divisors: F32Array | None = None) -> F32Array:
    """The angle per position of each rotated pair: 1 / theta^(2i / dim), over `divisors` and the
    scaling factor; with YaRN a mixture of scaled and unscaled ones.

    Rounded to float32 after each step, as the models were trained with: the exponents, the
    powers, the reciprocals, the quotients. The powers themselves are taken in float64, whose
    library function gives the same result on every machine."""
    exponents = np.arange(0, rope.dim, 2, dtype=np.float32) / np.float32(rope.dim)
    powers = np.array([rope.theta ** float(e) for e in exponents], np.float64).astype(np.float32)
    result = np.float32(1.0) / powers
    if divisors is not None:
        result = result / divisors
    scaled = result / np.float32(rope.factor)
    if rope.yarn is None:
        return scaled
    kept = unscaled_share(rope, rope.yarn)
    mixed: F32Array = scaled * (np.float32(1.0) - kept) + result * kept
    return mixed


def unscaled_share(rope: Rope, yarn: Yarn) -> F32Array:
    """How much of each pair's frequency YaRN leaves unscaled (Peng et al. 2023, section 3.2).

    Pairs that turn more than `beta_fast` times in the original context keep theirs, those that turn
    less than `beta_slow` times do not; between the two, rounded to whole pairs, the share falls
    linearly."""
    low = max(0, math.floor(pair_with_turns(rope, yarn, yarn.beta_fast)))
    high = min(rope.dim - 1, math.ceil(pair_with_turns(rope, yarn, yarn.beta_slow)))
    pairs = np.arange(rope.dim // 2, dtype=np.float32)
    ramp = (pairs - np.float32(low)) / np.float32(max(high - low, 1e-3))
    share: F32Array = np.float32(1.0) - np.clip(ramp, np.float32(0.0), np.float32(1.0))
    return share * np.float32(yarn.extrapolation)


def pair_with_turns(rope: Rope, yarn: Yarn, turns: float) -> float:
    """The number, with its fraction, of the pair that turns so often in the original context."""
    wavelengths = yarn.original_context / (turns * 2.0 * math.pi)
    return rope.dim * math.log(wavelengths) / (2.0 * math.log(rope.theta))
