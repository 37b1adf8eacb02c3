"""Every op's machine code against the interpreter, on every instruction set that runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.kernel import EMITTERS
from ggufc.backends.llvm.layouts import layout_for
from ggufc.ir import OPS, IRError, Q8aArray, View, to_f32
from tests.support.native_ops import NativeSample, Phase
from tests.support.op_samples import OpSample, all_samples, sample_ids

SAMPLES = all_samples()


def test_every_op_but_views_has_a_kernel_and_samples() -> None:
    for name, definition in OPS.items():
        assert (name in EMITTERS) != definition.has(View), name
        assert any(sample.op == name for sample in SAMPLES), name
    assert set(EMITTERS) <= set(OPS)


def phases(sample: OpSample) -> list[Phase]:
    """The graphs whose contract the sample's inputs keep."""
    sequences = sample.inputs.get("sequences")
    if sequences is None:
        return ["prefill", "decode"]
    return ["decode"] if len(set(sequences)) == len(sequences) > 1 else ["prefill"]


def is_made(sample: OpSample, isa: Isa, phase: Phase) -> bool:
    """Whether passes would make this of a model: types with a layout, the target's activations."""
    try:
        for weight in sample.module.weights.values():
            layout_for(weight.type.dtype.name)
    except IRError:
        return False
    tiles = isa.prefill_compute == "bf16" and phase == "prefill"
    ops = sample.module.functions["main"].ops
    to_bf16 = {op.attributes["to"] == "bf16" for op in ops if "to" in op.attributes}
    return tiles in to_bf16 or not to_bf16


def cases() -> list[Any]:
    """Every sample with every instruction set of this machine and graph that it could be made for."""
    return [
        pytest.param(sample, isa_named(name), phase, id=f"{label}-{name}-{phase}")
        for sample, label in zip(SAMPLES, sample_ids(SAMPLES), strict=True)
        for name in host_isas()
        for phase in phases(sample)
        if is_made(sample, isa_named(name), phase)
    ]


def assert_equal(op: str, found: Any, expected: Any) -> None:
    if isinstance(expected, Q8aArray):
        assert_equal_q8a(op, found, expected)
        return
    expected = to_f32(expected)
    # Sums of a few hundred products in float32, in another order than NumPy's.
    scale = float(np.nanmax(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(to_f32(found), expected, rtol=2e-5, atol=2e-6 + 3e-6 * scale)


def assert_equal_q8a(op: str, found: Q8aArray, expected: Q8aArray) -> None:
    """`quantize` is exact; after a norm, an ulp may move a scale, and a code at a border by one."""
    if op == "quantize":
        np.testing.assert_array_equal(found.d, expected.d)
        np.testing.assert_array_equal(found.qs, expected.qs)
        return
    np.testing.assert_allclose(found.d, expected.d, rtol=1e-6)
    apart = np.abs(found.qs.astype(int) - expected.qs)
    assert apart.max() <= 1
    assert apart.mean() < 0.01


@pytest.mark.parametrize(("sample", "isa", "phase"), cases())
def test_machine_code_equals_the_interpreter(sample: OpSample, isa: Isa, phase: Phase) -> None:
    states = sample.new_states()
    expected = sample.interpret(states)
    native = NativeSample(sample, isa, phase)
    outputs, caches = native.run(threads=1)
    for found, wanted in zip(outputs, expected, strict=True):
        assert_equal(sample.op, found, wanted)
    for name, cache in caches.items():
        assert_equal(sample.op, cache, states.arrays[name])
    for threads in (2, 3, 5):
        again, again_caches = native.run(threads)
        for a, b in zip(outputs, again, strict=True):
            assert_same_bits(a, b)
        for name, cache in caches.items():
            assert_same_bits(again_caches[name], cache)


def assert_same_bits(a: Any, b: Any) -> None:
    if isinstance(a, Q8aArray):
        assert_same_bits(a.qs, b.qs)
        assert_same_bits(a.d, b.d)
        return
    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
