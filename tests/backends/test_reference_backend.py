"""The interpreter behind the interface of compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.base import Backend
from ggufc.backends.reference import ReferenceBackend
from ggufc.ir import IRError, Op
from tests.support.tiny_ir import TinyTransformer, numpy_logits

MODEL = TinyTransformer()
WEIGHTS = MODEL.weights()
TOKENS = [5, 96, 0, 17, 17, 42]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_prefill_then_decode_keeps_its_states() -> None:
    want = numpy_logits(MODEL, WEIGHTS, TOKENS)
    backend: Backend
    with ReferenceBackend(MODEL.module(), lambda w: WEIGHTS[w.name]) as backend:
        last = backend.prefill(ints(*TOKENS[:4]), ints(0, 1, 2, 3), ints(3, 3, 3, 3), ints(3))
        np.testing.assert_allclose(last, want[3:4], atol=2e-5)
        for position in (4, 5):
            got = backend.decode(ints(TOKENS[position]), ints(position), ints(3))
            np.testing.assert_allclose(got, want[position : position + 1], atol=2e-5)


def test_sizes_default_to_the_largest_and_can_be_smaller() -> None:
    ops: list[Op] = []
    small = ReferenceBackend(
        MODEL.module(),
        lambda w: WEIGHTS[w.name],
        context=4,
        sequences=1,
        listener=lambda op, results: ops.append(op),
    )
    small.decode(ints(1), ints(3), ints(0))
    assert ops[-1].result.name == "logits"
    with pytest.raises(IRError, match="index out of range"):
        small.decode(ints(1), ints(4), ints(0))
    with pytest.raises(IRError, match="expected C between 0 and 64, found 65"):
        ReferenceBackend(MODEL.module(), lambda w: WEIGHTS[w.name], context=65)
