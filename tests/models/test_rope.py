"""Frequencies of rotary embeddings."""

from __future__ import annotations

import numpy as np

from ggufc.compiler.hparams import Rope, Yarn
from ggufc.compiler.models.rope import frequencies


def test_the_first_and_last_frequency() -> None:
    freqs = frequencies(Rope(10000.0, 4))
    assert freqs.tolist() == [1.0, np.float32(0.01)]
    assert freqs.dtype == np.float32


def test_against_float64() -> None:
    for theta, n in ((10000.0, 64), (1e6, 256), (500000.0, 128), (100000.0, 80)):
        exact = theta ** (-np.arange(0, n, 2) / n)
        # Exponent, power and reciprocal are rounded to float32, by half a last place each.
        assert np.abs(frequencies(Rope(theta, n)) / exact - 1).max() < 2e-6


def test_divisors_and_factor() -> None:
    plain = frequencies(Rope(10000.0, 8))
    divisors = np.array([1, 2, 4, 8], np.float32)
    assert (frequencies(Rope(10000.0, 8), divisors) == plain / divisors).all()
    assert (frequencies(Rope(10000.0, 8, factor=8.0)) == plain / np.float32(8)).all()


def test_yarn_against_its_definition() -> None:
    """The mixture of section 3.2, computed here in float64."""
    rope = Rope(10000.0, 64, factor=8.0, yarn=Yarn(original_context=2048))
    plain = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    turns = 2048 * plain / (2 * np.pi)
    found = frequencies(rope)
    assert np.allclose(found[turns > 45], plain[turns > 45], rtol=2e-6)
    assert np.allclose(found[turns < 0.7], plain[turns < 0.7] / 8, rtol=2e-6)
    between = (turns < 20) & (turns > 2)
    share = (found - plain / 8) / (plain - plain / 8)
    assert np.allclose(np.diff(share[between], n=2), 0, atol=1e-4)
    assert (np.diff(share) <= 1e-6).all()
    half = Rope(10000.0, 64, factor=8.0, yarn=Yarn(2048, extrapolation=0.5))
    assert np.allclose(frequencies(half)[0], plain[0] * (0.5 + 0.5 / 8), rtol=2e-6)
