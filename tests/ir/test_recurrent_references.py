"""Ops with recurrent states against other ways to compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ggufc.ir import F32, I32, OPS, GraphBuilder, IRError, Module, Symbol, TensorType

Array = npt.NDArray[Any]
N = 12
T, S = Symbol("T", N), Symbol("S", 2)


def run(op: str, state: Array, start: int = 0, stop: int = N, **arguments: Any) -> Array:
    """The op on tokens `start` to `stop` of sequence 1; values begin with an axis of tokens."""
    values = OPS[op].operands
    named = {spec.name: arguments[spec.name] for spec in values if spec.name in arguments}
    tokens = {spec.name for spec in values if spec.kind == "value"}
    named = {k: v[start:stop] if k in tokens else v for k, v in named.items()}
    rest = {k: v for k, v in arguments.items() if k not in named}
    positions = np.arange(start, stop, dtype=np.int32)
    given = {"positions": positions, "sequences": np.full(stop - start, 1, np.int32)}
    (state_name,) = (spec.name for spec in values if spec.kind == "state")
    missing = {spec.name: None for spec in values if spec.optional}
    result: Array = OPS[op].reference(**{**missing, **named, **given, **rest, state_name: state})
    return result


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def conv_arguments() -> dict[str, Any]:
    return {"x": numbers(N, 5), "weight": numbers(5, 4, seed=1), "activation": "none"}


def scan_arguments(rates: int) -> dict[str, Any]:
    return {
        "x": numbers(N, 4, 3),
        "dt": np.abs(numbers(N, 4, seed=1)),
        "b": numbers(N, 2, 6, seed=2),
        "c": numbers(N, 2, 6, seed=3),
        "a": -np.abs(numbers(4, rates, seed=4)),
        "skip": numbers(4, seed=5),
    }


def delta_arguments(tiled: bool) -> dict[str, Any]:
    return {
        "q": numbers(N, 2, 6),
        "k": numbers(N, 2, 6, seed=1) / 3,
        "v": numbers(N, 4, 5, seed=2),
        "decay": -np.abs(numbers(N, 4, seed=3)),
        "beta": np.abs(numbers(N, 4, seed=4)) / 4,
        "tiled": tiled,
    }


CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "conv": ("short_conv", conv_arguments(), (2, 3, 5)),
    "scan": ("selective_scan", scan_arguments(6), (2, 4, 3, 6)),
    "delta": ("gated_delta_rule", delta_arguments(True), (2, 4, 5, 6)),
}


def test_short_conv_is_a_convolution() -> None:
    arguments = conv_arguments()
    found = run("short_conv", np.full((2, 3, 5), np.nan, np.float32), **arguments)
    for channel in range(5):
        taps = arguments["weight"][channel, ::-1].astype(np.float64)
        expected = np.convolve(arguments["x"][:, channel], taps)[:N]
        np.testing.assert_allclose(found[:, channel], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rates", [1, 6])
def test_selective_scan_is_a_sum_over_earlier_tokens(rates: int) -> None:
    """y[t] = sum over s <= t of (c[t] . exp(a (dt[s+1] + ... + dt[t])) b[s]) dt[s] x[s]."""
    p = scan_arguments(rates)
    found = run("selective_scan", np.full((2, 4, 3, 6), np.nan, np.float32), **p)
    for head in range(4):
        times = np.cumsum(p["dt"][:, head].astype(np.float64))
        for t in range(N):
            expected = p["skip"][head] * p["x"][t, head].astype(np.float64)
            for s in range(t + 1):
                kept = np.exp(p["a"][head] * (times[t] - times[s]))
                weight = (p["c"][t, head // 2] * kept * p["b"][s, head // 2]).sum()
                expected = expected + weight * p["dt"][s, head] * p["x"][s, head]
            np.testing.assert_allclose(found[t, head], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tiled", [False, True])
def test_gated_delta_rule_is_a_product_of_matrices(tiled: bool) -> None:
    """s = s e^decay (1 - beta k k^T) + beta v k^T, as matrices."""
    p = delta_arguments(tiled)
    found = run("gated_delta_rule", np.full((2, 4, 5, 6), np.nan, np.float32), **p)
    for head in range(4):
        of = head % 2 if tiled else head // 2
        state = np.zeros((5, 6))
        for t in range(N):
            key, beta = p["k"][t, of].astype(np.float64), p["beta"][t, head]
            state = state * np.exp(p["decay"][t, head]) @ (np.eye(6) - beta * np.outer(key, key))
            state = state + beta * np.outer(p["v"][t, head], key)
            np.testing.assert_allclose(found[t, head], state @ p["q"][t, of], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_pieces_equal_the_whole_and_other_sequences_stay(case: str) -> None:
    op, arguments, shape = CASES[case]
    whole, pieces = (np.full(shape, 7.0, np.float32) for _ in range(2))
    expected = run(op, whole, **arguments)
    parts = [run(op, pieces, *bounds, **arguments) for bounds in ((0, 1), (1, 5), (5, N))]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    np.testing.assert_array_equal(pieces, whole)
    assert (whole[0] == 7.0).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    b = GraphBuilder(Module("m"), "prefill")
    places = [b.input(name, TensorType((T,), I32)) for name in ("positions", "sequences")]
    x = b.input("x", TensorType((T, 5), F32))
    weight = b.module.weight("w", TensorType((5, 4), F32))
    window = b.module.state("window", TensorType((S, 4, 5), F32))
    with pytest.raises(IRError, match="expected 3 inputs, one or more, found f32"):
        b.emit("short_conv", x, *places, window, weight)
    heads = b.input("heads", TensorType((T, 3, 2), F32))
    dt = b.input("dt", TensorType((T, 3), F32))
    group = b.input("group", TensorType((T, 2, 8), F32))
    state = b.module.state("ssm", TensorType((S, 3, 2, 8), F32))
    a, skip = (b.module.weight(n, TensorType(d, F32)) for n, d in (("a", (3, 1)), ("skip", (3,))))
    with pytest.raises(IRError, match="expected a divisor of the 3 heads, found 2 groups"):
        b.emit("selective_scan", heads, dt, group, group, *places, state, a, skip)
