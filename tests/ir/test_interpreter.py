"""Whole graphs run by the interpreter against a transformer written straight in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.ir import (
    F32,
    I32,
    GraphBuilder,
    Interpreter,
    IRError,
    Module,
    Op,
    Symbol,
    TensorType,
    to_f32,
)
from ggufc.ir.interpreter import States
from tests.support.tiny_ir import TinyTransformer, numpy_logits

TOKENS = [5, 96, 0, 17, 17, 42, 8, 1, 60, 33]
MODELS = [
    TinyTransformer(),
    TinyTransformer(pairing="interleaved", n_heads=6, n_kv_heads=1),
    TinyTransformer(window=3, softcap=2.0, n_layers=1, n_kv_heads=4),
]


def ints(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def make(model: TinyTransformer, seed: int = 0) -> tuple[Interpreter, dict[str, np.ndarray]]:
    weights = model.weights(seed)
    return Interpreter(model.module(), lambda weight: weights[weight.name]), weights


def prefill(
    interpreter: Interpreter, states: States, tokens: list[int], start: int = 0, sequence: int = 0
) -> np.ndarray:
    n = len(tokens)
    inputs = {
        "tokens": ints(tokens),
        "positions": ints(range(start, start + n)),
        "sequences": ints([sequence] * n),
        "rows": ints(range(n)),
    }
    return np.asarray(interpreter.run("prefill", inputs, states)[0])


@pytest.mark.parametrize("model", MODELS, ids=["half", "interleaved", "window"])
def test_prefill_whole_and_in_chunks(model: TinyTransformer) -> None:
    interpreter, weights = make(model)
    want = numpy_logits(model, weights, TOKENS)
    assert want.std() > 0.1
    whole = prefill(interpreter, interpreter.new_states(64, 1), TOKENS)
    np.testing.assert_allclose(whole, want, atol=2e-5)
    for size in (1, 3, 7):
        states = interpreter.new_states(16, 2)
        parts = [
            prefill(interpreter, states, TOKENS[i : i + size], i, 1)
            for i in range(0, len(TOKENS), size)
        ]
        np.testing.assert_allclose(np.concatenate(parts), want, atol=2e-5)


@pytest.mark.parametrize("model", MODELS, ids=["half", "interleaved", "window"])
def test_decode_of_several_sequences_at_once(model: TinyTransformer) -> None:
    interpreter, weights = make(model, seed=3)
    other = TOKENS[::-1]
    states = interpreter.new_states(32, 3)
    prefill(interpreter, states, TOKENS[:4], 0, 2)
    wants = [numpy_logits(model, weights, tokens) for tokens in (TOKENS, other)]
    for step in range(6):
        inputs = {
            "tokens": ints([TOKENS[4 + step], other[step]]),
            "positions": ints([4 + step, step]),
            "sequences": ints([2, 0]),
        }
        got = np.asarray(interpreter.run("decode", inputs, states)[0])
        np.testing.assert_allclose(got[0], wants[0][4 + step], atol=2e-5)
        np.testing.assert_allclose(got[1], wants[1][step], atol=2e-5)


def test_rows_choose_the_logits() -> None:
    interpreter, _ = make(MODELS[0])
    whole = prefill(interpreter, interpreter.new_states(64, 1), TOKENS)
    inputs = {
        "tokens": ints(TOKENS),
        "positions": ints(range(10)),
        "sequences": ints([0] * 10),
        "rows": ints([9, 2]),
    }
    picked = interpreter.run("prefill", inputs, interpreter.new_states(64, 1))[0]
    assert np.array_equal(to_f32(picked), whole[[9, 2]])
    none = interpreter.run("prefill", {**inputs, "rows": ints([])}, interpreter.new_states(64, 1))[
        0
    ]
    assert none.shape == (0, 97)


def test_narrow_caches_stay_close_and_differ() -> None:
    exact, weights = make(MODELS[0])
    want = prefill(exact, exact.new_states(64, 1), TOKENS)
    for kind, tolerance in (("bf16", 0.1), ("f16", 0.02)):
        module = TinyTransformer(kv_type=kind).module()
        narrow = Interpreter(module, lambda weight: weights[weight.name])
        got = prefill(narrow, narrow.new_states(64, 1), TOKENS)
        assert 0 < np.abs(got - want).max() < tolerance


def test_the_listener_sees_every_op_with_its_results() -> None:
    model = MODELS[0]
    weights, seen = model.weights(), []

    def listen(op: Op, results: Any) -> None:
        seen.append((op, [r.shape for r in results]))

    module = model.module()
    interpreter = Interpreter(module, lambda weight: weights[weight.name], listen)
    prefill(interpreter, interpreter.new_states(64, 1), TOKENS)
    assert [op for op, _ in seen] == module.functions["prefill"].ops
    for op, shapes in seen:
        assert len(shapes) == len(op.results)
    assert seen[-1][1] == [(10, 97)]


def good_inputs() -> dict[str, np.ndarray]:
    return {name: ints([0, 1]) for name in ("tokens", "positions", "rows")} | {
        "sequences": ints([0, 0])
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, r"function 'prefill' takes \['tokens', .*'rows'\], found \['tokens'"),
        ({"tokens": ints([[1, 2]])}, r"input %tokens: expected i32\[T<=32\], found int32\[1, 2\]"),
        ({"tokens": np.array([1, 2])}, r"input %tokens: expected i32\[T<=32\], found int64\[2\]"),
        ({"positions": ints([0])}, r"input %positions: expected i32\[T<=32\] with .*'T': 2.*\[1\]"),
        ({"rows": ints(range(33))}, "expected R between 0 and 32, found 33"),
        ({"tokens": ints([0, -1])}, "input %tokens: expected indices of 0 or more, found -1"),
        ({"tokens": ints([0, 97])}, r"op embed \(%embd\): index out of range"),
        ({"positions": ints([0, 16])}, r"op kv_write \(.*\): index out of range"),
        ({"sequences": ints([1, 1])}, r"op kv_write \(.*\): index out of range"),
    ],
)
def test_inputs_are_checked(change: dict[str, Any], message: str) -> None:
    interpreter, _ = make(MODELS[0])
    inputs = {k: v for k, v in (good_inputs() | change).items() if v is not None}
    with pytest.raises(IRError, match=message):
        interpreter.run("prefill", inputs, interpreter.new_states(16, 1))


def test_states_and_functions_are_checked() -> None:
    interpreter, _ = make(MODELS[0])
    with pytest.raises(IRError, match=r"state \$blk.0.k: expected C between 0 and 64, found 65"):
        interpreter.new_states(65, 1)
    with pytest.raises(IRError, match=r"state \$blk.0.k: expected S between 0 and 4, found 5"):
        interpreter.new_states(64, 5)
    with pytest.raises(IRError, match="no function 'main'; the module has prefill, decode"):
        interpreter.run("main", {}, interpreter.new_states(64, 1))


def test_computed_weights_are_not_asked_for() -> None:
    module = Module("m")
    builder = GraphBuilder(module, "f")
    positions = builder.input("positions", TensorType((Symbol("T", 4),), I32))
    freqs = module.weight("freqs", TensorType((1,), F32), data=np.float32(0.5).tobytes())
    builder.returns(builder.rope_table(positions, freqs))

    def refuse(weight: object) -> Any:
        raise AssertionError(weight)

    interpreter = Interpreter(module, refuse)
    got = interpreter.run("f", {"positions": ints([0, 2])}, interpreter.new_states(1, 1))[0]
    np.testing.assert_allclose(to_f32(got), [[1, 0], [np.cos(1), np.sin(1)]], rtol=1e-6)
