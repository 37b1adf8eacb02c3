"""Samples of ops on states without positions: new sequences, ones that go on, several at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ggufc.ir import F32, State, TensorType
from tests.support.op_samples import SEQUENCES, OpSample, S, Sketch, T, samples_of

# Positions and sequences of the tokens: a prompt from its beginning, a later part of one, one token
# of each of several sequences, one of them new.
PLACES = {
    "new": ([0, 1, 2, 3, 4], [1] * 5),
    "goes-on": ([7, 8, 9, 10, 11], [2] * 5),
    "batch": ([4, 0, 9], [2, 0, 1]),
}


def recurrent_state(s: Sketch, name: str, *dims: int) -> State:
    """A state [S, *dims] with random contents; they are not numbers where sequences begin."""
    state = s.sample.module.state(name, TensorType((S, *dims), F32))
    values = s.rng.standard_normal((SEQUENCES, *dims)).astype(np.float32)
    positions, sequences = (s.sample.inputs[n] for n in ("positions", "sequences"))
    values[sequences[positions == 0]] = np.nan
    s.sample.states[name] = values
    return state


def negative(s: Sketch, name: str) -> None:
    """Make the values of an input, or of a weight, negative."""
    if name in s.sample.inputs:
        s.sample.inputs[name] = -np.abs(s.sample.inputs[name])
    else:
        values = np.frombuffer(s.sample.weights[name], np.float32)
        s.sample.weights[name] = (-np.abs(values)).tobytes()


@samples_of("softplus")
def _softplus() -> Iterator[OpSample]:
    s = Sketch("softplus", "")
    yield s.returns(s.builder.softplus(s.floats("x", T, 33, spread=20.0)))


@samples_of("short_conv")
def _short_conv() -> Iterator[OpSample]:
    for label, (positions, sequences) in PLACES.items():
        for width, taps, rich in ((48, 4, True), (7, 3, False), (29, 2, True)):
            s = Sketch("short_conv", f"{label}-{width}", len(positions))
            x = s.floats("x", T, width)
            places = s.places(positions, sequences)
            window = recurrent_state(s, "window", taps - 1, width)
            weight = s.weight("weight", width, taps)
            bias = s.weight("bias", width) if rich else None
            activation = "silu" if rich else "none"
            y = s.builder.short_conv(x, *places, window, weight, bias, activation=activation)
            yield s.returns(y)


@samples_of("selective_scan")
def _selective_scan() -> Iterator[OpSample]:
    # Heads, their width, groups, width of the state, rates of a head.
    shapes = ((20, 1, 1, 16, 16), (4, 6, 2, 32, 1), (3, 5, 3, 23, 23))
    for label, (positions, sequences) in PLACES.items():
        for heads, size, groups, width, rates in shapes:
            s = Sketch("selective_scan", f"{label}-{heads}x{size}x{width}", len(positions))
            x, dt = s.floats("x", T, heads, size), s.floats("dt", T, heads)
            s.sample.inputs["dt"] = np.abs(s.sample.inputs["dt"])
            b, c = (s.floats(name, T, groups, width) for name in ("b", "c"))
            places = s.places(positions, sequences)
            state = recurrent_state(s, "state", heads, size, width)
            a, skip = s.weight("a", heads, rates), s.weight("skip", heads)
            negative(s, "a")
            yield s.returns(s.builder.selective_scan(x, dt, b, c, *places, state, a, skip))


@samples_of("gated_delta_rule")
def _gated_delta_rule() -> Iterator[OpSample]:
    for label, (positions, sequences) in PLACES.items():
        for key_heads, heads, size, width, tiled in ((2, 6, 8, 32, False), (2, 4, 5, 19, True)):
            s = Sketch("gated_delta_rule", f"{label}-{heads}x{size}x{width}", len(positions))
            q, k = (s.floats(name, T, key_heads, width, spread=0.3) for name in "qk")
            v = s.floats("v", T, heads, size)
            decay, beta = s.floats("decay", T, heads), s.floats("beta", T, heads)
            negative(s, "decay")
            places = s.places(positions, sequences)
            state = recurrent_state(s, "state", heads, size, width)
            operands = (q, k, v, decay, beta, *places, state)
            yield s.returns(s.builder.gated_delta_rule(*operands, tiled=tiled))
