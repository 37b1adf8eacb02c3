"""Elementary functions against float64 over dense grids, on every runnable instruction set."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm import vector_math
from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel_builder import F32, I64, PTR, Module, Val, vec
from tests.support.native import load, runnable_isas

ISA = pytest.mark.parametrize("isa", runnable_isas(), ids=lambda isa: isa.name)
SMALLEST = 2.0**-126


def gelu(x: np.ndarray) -> np.ndarray:
    """x (1 + tanh u) / 2 without the cancellation of 1 + tanh for negative u."""
    y = -2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    result: np.ndarray = x / (1 + np.exp(y))
    return result


def exact_gelu(x: np.ndarray) -> np.ndarray:
    """x/2 erfc(-x / sqrt 2)."""
    return np.array([v / 2 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "exp2_nonpositive": np.exp2,
    "tanh": np.tanh,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": gelu,
}


def run(function: Callable[[Val], Any], isa: Isa, *xs: np.ndarray, lanes: int = 16) -> np.ndarray:
    """The function of an array whose size is a multiple of `lanes`; a row for each result."""
    (x,) = xs
    module = Module("vector_function", isa.triple)
    f = module.function("vector_function", [("x", PTR), ("y", PTR), ("n", I64)], exported=True)
    with f.loop(f.arg("n"), step=lanes) as i:
        results = function(f.load(f.arg("x") + i * 4, vec(F32, lanes)))
        results = results if isinstance(results, tuple) else (results,)
        for row, result in enumerate(results):
            f.store(result, f.arg("y") + (f.arg("n") * row + i) * 4)
    _keep, address = load(module, isa)
    out = np.full((len(results), x.size), 7, np.float32)
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    native(x.ctypes.data, out.ctypes.data, x.size)
    return out if len(results) > 1 else out[0]


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the exact value; 0 where it overflows alike."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(rounded), np.float32(SMALLEST)))
        distance = np.abs(found - exact) / unit
    return np.where(found == rounded, 0, distance)


def grid() -> np.ndarray:
    """Dense over the range in which results are normal, logarithmic near 0, both signs."""
    tiny = np.logspace(-37, 0, 40_000)
    dense = np.concatenate([np.linspace(-104, 89, 400_000), np.linspace(-1, 1, 40_000)])
    return np.concatenate([dense, tiny, -tiny]).astype(np.float32)


@ISA
@pytest.mark.parametrize(
    ("name", "limit"),
    [("exp", 2), ("exp_nonpositive", 3), ("exp2_nonpositive", 3), ("tanh", 4), ("silu", 4)],
)
def test_within_ulps_of_float64(isa: Isa, name: str, limit: float) -> None:
    x = grid()
    if name.endswith("nonpositive"):
        x = -np.abs(x)
    found = run(getattr(vector_math, name), isa, x)
    with np.errstate(over="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
    # Results that only denormal numbers could hold may be flushed, or lose what e^x lost.
    kept = (np.abs(exact) > 2 * SMALLEST) & ((name != "silu") | (x > -87))
    assert ulps(found, exact)[kept].max() <= limit
    assert np.abs(found - exact)[~kept].max(initial=0) < 1.1e-36


@ISA
def test_gelu(isa: Isa) -> None:
    x = grid()
    found = run(vector_math.gelu_tanh, isa, x)
    with np.errstate(over="ignore"):
        exact = gelu(x.astype(np.float64))
    assert (np.abs(found - exact) <= 2 * np.spacing(np.abs(x)) + 1e-44).all()
    if "fma" in isa.features:
        assert ulps(found, exact)[x > -9].max() <= 4


@ISA
def test_exact_gelu(isa: Isa) -> None:
    x = np.concatenate([np.linspace(-16, 16, 160_000), np.logspace(-37, 0, 16_000)])
    x = x.astype(np.float32)
    found = run(vector_math.gelu, isa, x)
    exact = exact_gelu(x.astype(np.float64))
    assert (np.abs(found - exact) <= 4 * np.spacing(np.abs(x)) + 1e-44).all()
    if "fma" in isa.features:
        assert ulps(found, exact)[x > -13].max() <= 8


@ISA
def test_exponential_minus_one(isa: Isa) -> None:
    x = -np.abs(grid())
    found = run(vector_math.expm1_nonpositive, isa, x)
    assert ulps(found, np.expm1(x.astype(np.float64)))[x < -SMALLEST].max() <= 3


@ISA
@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
def test_special_values_in_any_number_of_lanes(isa: Isa, lanes: int) -> None:
    inf, nan = np.inf, np.nan
    x = np.repeat(np.array([inf, -inf, nan, -0.0, 1e38, -1e38], np.float32), lanes)
    expected = {
        "exp": [inf, 0, nan, 1, inf, 0],
        "tanh": [1, -1, nan, -0.0, 1, -1],
        "silu": [inf, nan, nan, -0.0, 1e38, -0.0],
        "gelu": [inf, nan, nan, -0.0, 1e38, -0.0],
        "gelu_tanh": [inf, nan, nan, -0.0, 1e38, -0.0],
    }
    for name, values in expected.items():
        found = run(getattr(vector_math, name), isa, x, lanes=lanes)
        wanted = np.repeat(np.array(values, np.float32), lanes)
        np.testing.assert_array_equal(found, wanted)
        assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@ISA
def test_masked_scores_weigh_exactly_nothing(isa: Isa) -> None:
    x = np.array([-np.inf, -1e30, -128, -127] * 4, np.float32)
    for name in ("exp_nonpositive", "exp2_nonpositive"):
        assert (run(getattr(vector_math, name), isa, x) == 0).all()


@ISA
def test_sine_and_cosine_up_to_a_million(isa: Isa) -> None:
    rng = np.random.default_rng(0)
    near_zeros = np.arange(1, 20_000) * (np.pi / 2)
    angles = np.concatenate(
        [rng.uniform(-1e6, 1e6, 100_000), np.linspace(-7, 7, 20_001), near_zeros]
    )
    angles = angles[: angles.size // 16 * 16].astype(np.float32)
    sine, cosine = run(vector_math.sincos, isa, angles)
    wide = angles.astype(np.longdouble)
    assert ulps(sine, np.sin(wide).astype(np.float64)).max() <= 0.51
    assert ulps(cosine, np.cos(wide).astype(np.float64)).max() <= 0.51
