"""The meaning of each op against plain Python loops written from its definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ggufc.ir import OPS, bf16_to_f32, f32_to_bf16, quantize_q8a, to_f32

RNG = np.random.default_rng(7)


def normal(*shape: int, spread: float = 1.0) -> np.ndarray:
    return (spread * RNG.standard_normal(shape)).astype(np.float32)


def run(op: str, **arguments: Any) -> Any:
    """The op's reference, with absent operands and defaults filled in."""
    definition = OPS[op]
    given = {spec.name: None for spec in definition.operands}
    given |= {spec.name: spec.default for spec in definition.attributes}
    return definition.reference(**{**given, **arguments})


def close(got: np.ndarray, want: Any, tolerance: float = 1e-6) -> None:
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.array(want), rtol=tolerance, atol=tolerance)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_embed_and_take_rows() -> None:
    table = normal(6, 5)
    got = run("embed", tokens=ints(5, 0, 5), table=table, scale=2.5)
    close(got, [[float(v) * 2.5 for v in table[i]] for i in (5, 0, 5)])
    assert np.array_equal(run("take_rows", x=table, rows=ints(3, 3)), table[[3, 3]])
    assert run("take_rows", x=table, rows=ints()).shape == (0, 5)


def test_rms_norm() -> None:
    x, weight = normal(3, 2, 7, spread=9), normal(7)
    want = np.zeros(x.shape)
    for i in range(3):
        for j in range(2):
            mean = sum(float(v) ** 2 for v in x[i, j]) / 7
            for k in range(7):
                want[i, j, k] = x[i, j, k] / math.sqrt(mean + 0.25) * weight[k]
    close(run("rms_norm", x=x, weight=weight, eps=0.25), want)


@pytest.mark.parametrize("given", [(), ("weight",), ("weight", "bias")])
def test_layer_norm(given: tuple[str, ...]) -> None:
    x, extra = normal(3, 7, spread=9), {name: normal(7) for name in given}
    want = np.zeros(x.shape)
    for i in range(3):
        mean = sum(map(float, x[i])) / 7
        variance = sum((float(v) - mean) ** 2 for v in x[i]) / 7
        for k in range(7):
            value = (x[i, k] - mean) / math.sqrt(variance + 0.25)
            value = value * extra["weight"][k] if "weight" in extra else value
            want[i, k] = value + extra["bias"][k] if "bias" in extra else value
    close(run("layer_norm", x=x, eps=0.25, **extra), want)


def test_further_activations() -> None:
    x = np.linspace(-6, 6, 61, dtype=np.float32)
    normal_share = [0.5 * (1 + math.erf(float(v) / math.sqrt(2))) for v in x]
    close(run("gelu", x=x), x * normal_share, 2e-6)
    close(run("relu_squared", x=x), [max(float(v), 0.0) ** 2 for v in x])
    close(run("clamp", x=x, limit=2.5), [min(max(float(v), -2.5), 2.5) for v in x])
    assert run("gelu", x=np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_xielu_is_the_integral_of_its_slope() -> None:
    """Its derivative is 2 alpha_p x + beta above 0, alpha_n (e^x - 1) + beta below."""
    x = np.linspace(-4, 4, 4001)
    got = run("xielu", x=x.astype(np.float32), alpha_n=0.8, alpha_p=0.6, beta=0.5, eps=-1e-6)
    slope = np.where(x > 0, 1.2 * x + 0.5, 0.8 * np.expm1(x) + 0.5)
    area = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2 * np.diff(x))])
    close(got, area - area[2000], 1e-5)
    assert abs(got[2000]) < 1e-6


def test_scale_columns() -> None:
    x, weight = normal(3, 5), normal(5)
    want = [[float(v) * float(w) for v, w in zip(row, weight, strict=True)] for row in x]
    close(run("scale_columns", x=x, weight=weight), want)


def loop_linear(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    rows = [row for weight in weights for row in weight]
    return np.array(
        [[sum(float(a) * float(b) for a, b in zip(t, r, strict=True)) for r in rows] for t in x]
    )


def test_linear_with_bias_and_residual() -> None:
    x, weights = normal(3, 8), [normal(4, 8), normal(1, 8)]
    bias, residual = normal(5), normal(3, 5)
    plain = loop_linear(x, weights)
    close(run("linear", x=x, weights=tuple(weights)), plain)
    got = run("linear", x=x, weights=tuple(weights), bias=bias, residual=residual)
    close(got, plain + bias + residual)
    close(run("bias_add", x=residual, bias=bias), residual + bias)


def test_linear_with_rounded_activations() -> None:
    x, weights = normal(3, 64), (normal(4, 64),)
    q8a = quantize_q8a(x)
    close(run("linear", x=q8a, weights=weights), loop_linear(q8a.dequantize(), list(weights)))
    bf16 = f32_to_bf16(x)
    close(run("linear", x=bf16, weights=weights), loop_linear(bf16_to_f32(bf16), list(weights)))


def test_linear_of_more_rows_than_a_chunk() -> None:
    x, weight = normal(1, 2), normal(9000, 2)
    close(run("linear", x=x, weights=(weight,)), x.astype(float) @ weight.T.astype(float))


def test_reshape_and_slice() -> None:
    x = normal(3, 8)
    assert np.array_equal(run("reshape", x=x, shape=(3, 2, 4)), x.reshape(3, 2, 4))
    assert np.array_equal(run("slice", x=x, start=2, stop=5), x[:, 2:5])


def test_elementwise() -> None:
    a, b = normal(4, 6), normal(4, 6)
    close(
        run("add", a=a, b=b),
        [
            [float(p) + float(q) for p, q in zip(r, s, strict=True)]
            for r, s in zip(a, b, strict=True)
        ],
    )
    close(
        run("mul", a=a, b=b),
        [
            [float(p) * float(q) for p, q in zip(r, s, strict=True)]
            for r, s in zip(a, b, strict=True)
        ],
    )
    close(run("scale", x=a, factor=0.1), a.astype(float) * float(np.float32(0.1)))


def test_activations() -> None:
    x = np.array([-1e4, -200, -90, -20, -3, -0.5, -1e-8, 0, 1e-8, 0.5, 3, 20, 200], np.float32)
    silu = [v / (1 + math.exp(-v)) if v > -700 else 0.0 for v in map(float, x)]
    close(run("silu", x=x), silu)
    gelu = [
        v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
        for v in map(float, x)
    ]
    close(run("gelu_tanh", x=x), gelu)
    close(run("softcap", x=x, cap=5.0), [5 * math.tanh(v / 5) for v in map(float, x)])


def test_rope_table() -> None:
    freqs, positions = np.array([1.0, 0.3, 1e-4], np.float32), ints(0, 3, 70000)
    got = run("rope_table", positions=positions, freqs=freqs, scale=1.5)
    for t, position in enumerate(positions):
        angles = [float(np.float32(np.float32(position) * f)) for f in freqs]
        want = [1.5 * math.cos(a) for a in angles] + [1.5 * math.sin(a) for a in angles]
        close(got[t], want)


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("rotated", [8, 4])
def test_rope(pairing: str, rotated: int) -> None:
    x, angles = normal(3, 2, 8), normal(3, rotated // 2, spread=3)
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    got = run("rope", x=x, table=table, pairing=pairing)
    want = x.astype(float)
    for t in range(3):
        for h in range(2):
            for i in range(rotated // 2):
                p, q = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + rotated // 2)
                z = complex(x[t, h, p], x[t, h, q]) * complex(
                    math.cos(angles[t, i]), math.sin(angles[t, i])
                )
                want[t, h, p], want[t, h, q] = z.real, z.imag
    close(got, want)
    assert np.array_equal(got[..., rotated:], x[..., rotated:])


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.uint16])
def test_kv_write(kind: type) -> None:
    k, v = normal(2, 3, 4), normal(2, 3, 5)
    caches: list[np.ndarray] = [np.full((2, 6, 3, width), 7, kind) for width in (4, 5)]
    k_cache, v_cache = caches
    run("kv_write", k=k, v=v, positions=ints(4, 1), sequences=ints(0, 1),
        k_cache=k_cache, v_cache=v_cache)  # fmt: skip
    for source, cache in ((k, k_cache), (v, v_cache)):
        rounded = f32_to_bf16(source) if kind is np.uint16 else source.astype(kind)
        assert np.array_equal(cache[0, 4], rounded[0])
        assert np.array_equal(cache[1, 1], rounded[1])
        untouched = np.ones((2, 6), bool)
        untouched[0, 4] = untouched[1, 1] = False
        assert (cache[untouched] == 7).all()


def loop_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, places: list[tuple[int, int]],
    scale: float, window: int, softcap: float,
    slopes: Any = None, sinks: Any = None,
) -> np.ndarray:  # fmt: skip
    n_heads, n_kv = q.shape[1], k.shape[2]
    out = np.zeros((*q.shape[:2], v.shape[3]))
    for t, (position, sequence) in enumerate(places):
        seen = [p for p in range(position + 1) if not window or p > position - window]
        for h in range(n_heads):
            g = h // (n_heads // n_kv)
            scores = []
            for p in seen:
                s = scale * sum(
                    float(a) * float(b) for a, b in zip(q[t, h], k[sequence, p, g], strict=True)
                )
                s = softcap * math.tanh(s / softcap) if softcap else s
                scores.append(math.exp(s if slopes is None else s - slopes[h] * (position - p)))
            total = sum(scores) + (0.0 if sinks is None else math.exp(sinks[h]))
            for p, s in zip(seen, scores, strict=True):
                out[t, h] += s / total * v[sequence, p, g]
    return out


@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (3, 0.0), (1, 0.0), (99, 2.0)])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.uint16])
def test_attention(kind: type, window: int, softcap: float) -> None:
    q, k, v = normal(5, 4, 6), normal(2, 8, 2, 6), normal(2, 8, 2, 3)
    places = [(0, 1), (1, 1), (7, 0), (2, 1), (5, 0)]
    caches = [f32_to_bf16(c) if kind is np.uint16 else c.astype(kind) for c in (k, v)]
    got = run(
        "attention", q=q, positions=ints(*(p for p, _ in places)),
        sequences=ints(*(s for _, s in places)), k_cache=caches[0], v_cache=caches[1],
        scale=0.4, window=window, softcap=softcap,
    )  # fmt: skip
    stored_k, stored_v = map(to_f32, caches)
    close(got, loop_attention(q, stored_k, stored_v, places, 0.4, window, softcap), 2e-6)


@pytest.mark.parametrize(("window", "softcap"), [(0, 0.0), (3, 2.0)])
@pytest.mark.parametrize("given", [("slopes",), ("sinks",), ("slopes", "sinks")])
def test_attention_with_slopes_and_sinks(
    given: tuple[str, ...], window: int, softcap: float
) -> None:
    q, k, v = normal(3, 4, 6), normal(2, 8, 2, 6), normal(2, 8, 2, 3)
    extra = {name: normal(4) for name in given}
    places = [(0, 1), (7, 0), (5, 0)]
    got = run(
        "attention", q=q, positions=ints(0, 7, 5), sequences=ints(1, 0, 0), k_cache=k, v_cache=v,
        scale=0.4, window=window, softcap=softcap, **extra,
    )  # fmt: skip
    close(got, loop_attention(q, k, v, places, 0.4, window, softcap, **extra), 2e-6)


def test_attention_does_not_overflow() -> None:
    cache = np.full((1, 2, 1, 4), 300, np.float32)
    got = run("attention", q=cache[:, 0], positions=ints(1), sequences=ints(0),
              k_cache=cache, v_cache=cache, scale=1.0)  # fmt: skip
    close(got, np.full((1, 1, 4), 300))


def test_quantize() -> None:
    x = normal(3, 64)
    q = run("quantize", x=x)
    assert np.abs(q.dequantize() - x).max() <= np.abs(x).max() / 127 / 2 * 1.001
    assert np.array_equal(run("quantize", x=x, to="bf16a"), f32_to_bf16(x))


@pytest.mark.parametrize("to", ["q8a", "bf16a"])
def test_rms_norm_quantize_is_its_two_steps(to: str) -> None:
    x, weight = normal(3, 64), normal(64)
    two = run("quantize", x=run("rms_norm", x=x, weight=weight, eps=1e-5), to=to)
    one = run("rms_norm_quantize", x=x, weight=weight, eps=1e-5, to=to)
    assert np.array_equal(to_f32(one), to_f32(two))


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_linear_glu_is_its_steps(activation: str) -> None:
    x, gate, up = normal(3, 16), normal(5, 16), normal(5, 16)
    hidden = run(activation, x=run("linear", x=x, weights=(gate,)))
    want = run("mul", a=hidden, b=run("linear", x=x, weights=(up,)))
    got = run("linear_glu", x=x, gate=gate, up=up, activation=activation)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("norms", [True, False])
def test_rope_kv_write_is_its_steps(norms: bool) -> None:
    hq, hkv, d, t = 4, 2, 8, 3
    qkv, positions, sequences = normal(t, (hq + 2 * hkv) * d), ints(2, 3, 4), ints(1, 1, 1)
    table = run("rope_table", positions=positions, freqs=normal(d // 2))
    weights = {"q_norm": normal(d), "k_norm": normal(d)} if norms else {}
    caches = [np.zeros((2, 8, hkv, d), np.float16) for _ in range(4)]
    got = run(
        "rope_kv_write", qkv=qkv, table=table, positions=positions, sequences=sequences,
        k_cache=caches[0], v_cache=caches[1], **weights,
        n_heads=hq, n_kv_heads=hkv, head_dim=d, pairing="half", eps=0.1,
    )  # fmt: skip
    parts = np.split(qkv, [hq * d, (hq + hkv) * d], axis=1)
    q, k, v = (part.reshape(t, -1, d) for part in parts)
    if norms:
        q = run("rms_norm", x=q, weight=weights["q_norm"], eps=0.1)
        k = run("rms_norm", x=k, weight=weights["k_norm"], eps=0.1)
    q, k = (run("rope", x=part, table=table, pairing="half") for part in (q, k))
    run("kv_write", k=k, v=v, positions=positions, sequences=sequences,
        k_cache=caches[2], v_cache=caches[3])  # fmt: skip
    assert np.array_equal(got, q)
    assert np.array_equal(caches[0], caches[2])
    assert np.array_equal(caches[1], caches[3])
    assert np.abs(caches[1]).sum() > 0
