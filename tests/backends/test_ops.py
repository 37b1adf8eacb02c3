"""Every op's machine code against the interpreter, on every instruction set that runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggufc.backends.llvm.detect import host_isas
from ggufc.backends.llvm.isa import Isa, isa_named
from ggufc.backends.llvm.kernel import EMITTERS
from ggufc.backends.llvm.layouts import layout_for
from ggufc.ir import OPS, IRError, Op, Q8aArray, View, to_f32
from tests.support.native_ops import NativeSample, Phase
from tests.support.op_samples import OpSample, all_samples, sample_ids

SAMPLES = all_samples()
SLOW = ("linear", "linear_glu", "attention", "expert_linear", "expert_glu")


def test_every_op_but_views_has_a_kernel_and_samples() -> None:
    for name, definition in OPS.items():
        assert (name in EMITTERS) != definition.has(View), name
        assert any(sample.op == name for sample in SAMPLES), name
    assert set(EMITTERS) <= set(OPS)


def phases(sample: OpSample) -> list[Phase]:
    """The graphs whose contract the sample's inputs keep."""
    sequences = sample.inputs.get("sequences")
    if sequences is not None:
        return ["decode"] if len(set(sequences)) == len(sequences) > 1 else ["prefill"]
    one_token = sample.op in SLOW and len(sample.inputs["x"]) == 1
    return ["decode"] if one_token else ["prefill", "decode"]


def is_made(sample: OpSample, isa: Isa, phase: Phase) -> bool:
    """Whether passes would make this of a model: types with a layout, the target's activations."""
    try:
        for weight in sample.module.weights.values():
            layout_for(weight.type.dtype.name)
    except IRError:
        return False
    tiles = isa.prefill_compute == "bf16" and phase == "prefill"
    quantised = [op for op in ops(sample) if op.name.endswith("quantize")]
    to_bf16 = {op.attributes["to"] == "bf16a" for op in quantised}
    return tiles in to_bf16 or not to_bf16


def ops(sample: OpSample) -> list[Op]:
    return sample.module.functions["main"].ops


def cases() -> list[Any]:
    """Every sample on every instruction set of this machine, in the graphs by turns.

    Of what is slow to compile, and tested by itself elsewhere, each sample is tried on one, by
    turns too.
    """
    names, slow, chosen = host_isas(), 0, []
    for sample, label in zip(SAMPLES, sample_ids(SAMPLES), strict=True):
        turns = [slow % len(names)] if sample.op in SLOW else range(len(names))
        for turn in turns:
            isa = isa_named(names[turn])
            made = [phase for phase in phases(sample) if is_made(sample, isa, phase)]
            if made:
                slow += sample.op in SLOW
                phase = made[(slow // len(names) + turn) % len(made)]
                name = f"{label}-{isa.name}-{phase}"
                chosen.append(pytest.param(sample, isa, phase, id=name))
    return chosen


def tolerance(sample: OpSample, isa: Isa) -> float:
    """What sums may be off, relative to the largest result.

    Kernels add a few hundred float32 products in another order than NumPy; where an instruction
    set multiplies pairs of bf16, attention on caches of that type rounds queries and
    probabilities to it, 2^-9 each. Tiles hold quantised weights rounded to it, too;
    `test_bf16_linear.py` compares with products of rounded weights, more narrowly.
    """
    if isa.tiles and any(op.attributes.get("to") == "bf16a" for op in ops(sample)):
        return 2.0**-8
    states = sample.module.states.values()
    is_bf16 = sample.op.startswith("attention") and any(s.type.dtype.name == "bf16" for s in states)
    return 2.0**-7 if is_bf16 and "avx512bf16" in isa.features else 3e-6


def assert_equal(sample: OpSample, isa: Isa, found: Any, expected: Any) -> None:
    if isinstance(expected, Q8aArray):
        assert_equal_q8a(sample.op, found, expected)
        return
    expected = to_f32(expected)
    largest = float(np.nanmax(np.abs(expected), initial=0.0))
    atol = 2e-6 + tolerance(sample, isa) * largest
    np.testing.assert_allclose(to_f32(found), expected, rtol=2e-5, atol=atol)


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
        assert_equal(sample, isa, found, wanted)
    for name, cache in caches.items():
        assert_equal(sample, isa, cache, states.arrays[name])
    again, again_caches = native.run(threads=3)
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
