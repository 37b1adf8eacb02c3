"""Each op refuses operands and attributes that do not fit, and says what it expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ggufc.ir import (
    BF16,
    F32,
    I32,
    Dim,
    GraphBuilder,
    IRError,
    Module,
    Symbol,
    TensorType,
    Value,
    VerifyError,
    dtype,
)

T, S, C = Symbol("T", 8), Symbol("S", 2), Symbol("C", 64)


class Bench:
    """A builder with ready operands of any type."""

    def __init__(self) -> None:
        self.module = Module("m")
        self.b = GraphBuilder(self.module, "f")
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def x(self, *shape: Dim, dtype: Any = F32) -> Value:
        return self.b.input(self._name(), TensorType(shape, dtype))

    def i(self, *shape: Dim) -> Value:
        return self.x(*(shape or (T,)), dtype=I32)

    def w(self, *shape: int, of: str = "f32") -> Any:
        return self.module.weight(self._name(), TensorType(shape, dtype(of)))

    def kv(self, heads: int = 2, width: int = 16, of: Any = BF16) -> Any:
        return self.module.state(self._name(), TensorType((S, C, heads, width), of))


CASES: list[tuple[Callable[[Bench], Any], str]] = [
    (lambda m: m.b.embed(m.x(T), m.w(9, 4)), "operand 'tokens': expected i32[T], found f32[T<=8]"),
    (lambda m: m.b.embed(m.i(), m.w(9)), "operand 'table': expected *[V, D], found f32[9]"),
    (lambda m: m.b.embed(m.i()), "operand 'table': missing; expected a weight"),
    (
        lambda m: m.b.embed(m.i(), m.w(9, 4), scale="1"),
        "attribute 'scale': expected float, found '1'",
    ),
    (
        lambda m: m.b.embed(m.i(), m.w(9, 4), scales=1.0),
        "attribute 'scales': unknown; allowed: scale",
    ),
    (
        lambda m: m.b.take_rows(m.x(T, 4), m.x(T)),
        "operand 'rows': expected i32[R], found f32[T<=8]",
    ),
    (
        lambda m: m.b.take_rows(m.x(T, 2, 2), m.i()),
        "operand 'x': expected f32[T, D], found f32[T<=8, 2, 2]",
    ),
    (
        lambda m: m.b.rms_norm(m.x(T, 8), m.w(7), eps=1e-5),
        "operand 'weight': expected f32[D] with D = 8, found f32[7]",
    ),
    (
        lambda m: m.b.rms_norm(m.x(T, 8), m.x(8), eps=1e-5),
        "operand 'weight': expected a weight, found %n2: f32[8]",
    ),
    (lambda m: m.b.rms_norm(m.x(T, 8), m.w(8)), "attribute 'eps': missing; expected float"),
    (
        lambda m: m.b.linear(m.x(T, 8), [m.w(4, 8), m.w(4, 9)]),
        "operand 'weights': expected *[_, K] with K = 8, found f32[4, 9]",
    ),
    (
        lambda m: m.b.linear(m.x(T, 8), m.w(4, 8)),
        "operand 'weights': expected a list of weights, found Weight",
    ),
    (
        lambda m: m.b.linear(m.x(T, 8), []),
        "operand 'weights': expected at least one weight, found none",
    ),
    (
        lambda m: m.b.linear(m.x(T, 8), [m.w(4, 8)], bias=m.w(5)),
        "operand 'bias': expected 4 columns, found f32[5]",
    ),
    (
        lambda m: m.b.linear(m.x(T, 8), [m.w(4, 8)], residual=m.x(T, 5)),
        "operand 'residual': expected 4 columns, found f32[T<=8, 5]",
    ),
    (
        lambda m: m.b.linear(m.x(T, 8), [m.w(4, 8)], residual=m.x(7, 4)),
        "operand 'residual': expected f32[T, N] with T = T<=8, found f32[7, 4]",
    ),
    (
        lambda m: m.b.linear(m.b.quantize(m.x(T, 32)), [m.w(4, 32)]),
        "operand 'weights': expected a type in blocks with q8a activations, found f32[4, 32]",
    ),
    (
        lambda m: m.b.linear(m.b.quantize(m.x(T, 32), to="bf16a"), [m.w(4, 32, of="f16")]),
        "operand 'weights': expected a type in blocks with bf16a activations, found f16[4, 32]",
    ),
    (
        lambda m: m.b.bias_add(m.x(T, 8), m.w(4)),
        "operand 'bias': expected f32[N] with N = 8, found f32[4]",
    ),
    (
        lambda m: m.b.reshape(m.x(T, 8), shape=(T, 3, 3)),
        "attribute 'shape': expected as many elements as f32[T<=8, 8], found f32[T<=8, 3, 3]",
    ),
    (
        lambda m: m.b.reshape(m.x(T, 8), shape=(C, 8)),
        "attribute 'shape': expected as many elements as f32[T<=8, 8], found f32[C<=64, 8]",
    ),
    (
        lambda m: m.b.reshape(m.x(T, 8), shape=(T, -8)),
        "attribute 'shape': expected dims, found (Symbol(name='T', max=8), -8)",
    ),
    (
        lambda m: m.b.slice(m.x(T, 8), start=4, stop=9),
        "attributes 'start', 'stop': expected 0 <= start < stop <= 8, found 4, 9",
    ),
    (
        lambda m: m.b.slice(m.x(T, 8), start=4, stop=4),
        "attributes 'start', 'stop': expected 0 <= start < stop <= 8, found 4, 4",
    ),
    (
        lambda m: m.b.slice(m.x(T, 8), start=1.0, stop=4),
        "attribute 'start': expected int, found 1.0",
    ),
    (
        lambda m: m.b.slice(m.x(T, 8), start=True, stop=4),
        "attribute 'start': expected int, found True",
    ),
    (
        lambda m: m.b.rope_table(m.i(), m.w(4, 2)),
        "operand 'freqs': expected f32[F], found f32[4, 2]",
    ),
    (
        lambda m: m.b.rope(m.x(T, 2, 8), m.x(T, 10), pairing="half"),
        "operand 'table': expected an even width of at most 8, found f32[T<=8, 10]",
    ),
    (
        lambda m: m.b.rope(m.x(T, 2, 8), m.x(T, 3), pairing="half"),
        "operand 'table': expected an even width of at most 8, found f32[T<=8, 3]",
    ),
    (
        lambda m: m.b.rope(m.x(T, 2, 8), m.x(T, 8), pairing="neox"),
        "attribute 'pairing': expected 'interleaved' or 'half', found 'neox'",
    ),
    (
        lambda m: m.b.kv_write(m.x(T, 2, 16), m.x(T, 2, 16), m.i(), m.i(), m.kv(), m.kv(3)),
        "operand 'v_cache': expected f32|f16|bf16[S, C, Hkv, Dv] with S = S<=2, C = C<=64, "
        "Hkv = 2, Dv = 16, found bf16[S<=2, C<=64, 3, 16]",
    ),
    (
        lambda m: m.b.kv_write(m.x(T, 2, 16), m.x(T, 2, 16), m.i(), m.i(), m.kv(of=I32), m.kv()),
        "operand 'k_cache': expected f32|f16|bf16[S, C, Hkv, D] with Hkv = 2, D = 16, "
        "found i32[S<=2, C<=64, 2, 16]",
    ),
    (
        lambda m: m.b.kv_write(m.x(T, 2, 16), m.x(T, 2, 16), m.i(), m.i(), m.w(4), m.kv()),
        "operand 'k_cache': expected a state, found Weight",
    ),
    (
        lambda m: m.b.attention(m.x(T, 3, 16), m.i(), m.i(), m.kv(), m.kv(), scale=1.0),
        "operand 'q': expected a multiple of the 2 kv heads, found 3 heads",
    ),
    (
        lambda m: m.b.attention(m.x(T, 4, 16), m.i(), m.i(), m.kv(), m.kv(), scale=1.0, window=-1),
        "attribute 'window': expected 0 (none) or more, found -1",
    ),
    (
        lambda m: m.b.add(m.x(T, 8), m.x(T, 9)),
        "operand 'b': expected f32[T<=8, 8] as operand 'a', found f32[T<=8, 9]",
    ),
    (
        lambda m: m.b.mul(m.x(T, 8), m.x(7, 8)),
        "operand 'b': expected f32[T<=8, 8] as operand 'a', found f32[7, 8]",
    ),
    (lambda m: m.b.silu(m.i()), "operand 'x': expected f32, found i32[T<=8]"),
    (lambda m: m.b.gelu_tanh(m.i()), "operand 'x': expected f32, found i32[T<=8]"),
    (
        lambda m: m.b.softcap(m.x(T, 8), cap=0),
        "attribute 'cap': expected a number above 0, found 0.0",
    ),
    (lambda m: m.b.scale(m.x(T, 8)), "attribute 'factor': missing; expected float"),
    (
        lambda m: m.b.quantize(m.x(T, 40)),
        "operand 'x': expected a multiple of 32 columns, found f32[T<=8, 40]",
    ),
    (
        lambda m: m.b.quantize(m.x(T, 32), to="i8"),
        "attribute 'to': expected 'q8a' or 'bf16a', found 'i8'",
    ),
    (
        lambda m: m.b.rms_norm_quantize(m.x(T, 32), m.w(33), eps=0.1),
        "operand 'weight': expected f32[K] with K = 32, found f32[33]",
    ),
    (
        lambda m: m.b.linear_glu(m.x(T, 8), m.w(4, 8), m.w(5, 8), activation="silu"),
        "operand 'up': expected *[F, K] with F = 4, K = 8, found f32[5, 8]",
    ),
    (
        lambda m: m.b.linear_glu(
            m.b.quantize(m.x(T, 32)), m.w(4, 32, of="q4_0"), m.w(4, 32), activation="silu"
        ),
        "operand 'up': expected a type in blocks with q8a activations, found f32[4, 32]",
    ),
    (
        lambda m: rope_kv_write(m, m.x(T, 120)),
        "operand 'qkv': expected 128 columns, found f32[T<=8, 120]",
    ),
    (
        lambda m: rope_kv_write(m, m.x(T, 128), n_heads=5),
        "attribute 'n_heads': expected a multiple of the 2 kv heads, found 5 heads",
    ),
    (
        lambda m: rope_kv_write(m, m.x(T, 96), n_kv_heads=1),
        "operand 'k_cache': expected rows of [1, 16], found bf16[S<=2, C<=64, 2, 16]",
    ),
    (
        lambda m: rope_kv_write(m, m.x(T, 128), q_norm=m.w(8)),
        "operand 'q_norm': expected f32[D] with D = 16, found f32[8]",
    ),
]


def rope_kv_write(m: Bench, qkv: Value, **changes: Any) -> Any:
    settings = {"n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "pairing": "half", **changes}
    return m.b.rope_kv_write(qkv, m.x(T, 16), m.i(), m.i(), m.kv(), m.kv(), **settings)


@pytest.mark.parametrize(("build", "message"), CASES, ids=[message[:60] for _, message in CASES])
def test_refusal(build: Callable[[Bench], Any], message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        build(Bench())
    assert str(caught.value).startswith("op ")
    assert "\n" not in str(caught.value)


def test_a_call_with_too_many_or_repeated_operands() -> None:
    m = Bench()
    x = m.x(T, 8)
    with pytest.raises(VerifyError, match="op silu, operands: expected at most 1, found 2"):
        m.b.silu(x, x)
    with pytest.raises(VerifyError, match="op silu, operand 'x': given twice"):
        m.b.silu(x, x=x)
    with pytest.raises(IRError, match="unknown op 'matmul'; known: add"):
        m.b.emit("matmul", x)


def test_names_of_results() -> None:
    m = Bench()
    x = m.x(T, 8)
    with m.b.scope("blk.0"):
        assert m.b.silu(x).name == "blk.0.silu"
        with m.b.scope("ffn"):
            assert m.b.silu(x, name="gate").name == "blk.0.ffn.gate"
        assert m.b.silu(x).name == "blk.0.silu.1"
    assert m.b.silu(x, name="n1").name == "n1.1"
    with pytest.raises(IRError, match="function 'f' has a value %n1 already"):
        m.b.input("n1", TensorType((T,), F32))


def test_declarations_are_idempotent() -> None:
    module = Module("m")
    t = TensorType((4,), F32)
    assert module.weight("w", t) is module.weight("w", t)
    assert module.state("s", t) is module.state("s", t)
    with pytest.raises(IRError, match=r"weight @w is declared already as f32\[4\] from \['w'\]"):
        module.weight("w", t, sources=("a", "b"))
    with pytest.raises(IRError, match=r"state \$s is declared already as f32\[4\]; asked for f32"):
        module.state("s", TensorType((5,), F32))
