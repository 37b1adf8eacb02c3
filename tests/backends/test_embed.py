"""`embed` from every layout: the decoder's values, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from ggufc.backends.llvm.isa import Isa
from ggufc.backends.llvm.kernel import OperandSignature, OpSignature
from ggufc.backends.llvm.kernels import load
from tests.support.native import aligned, build_kernel
from tests.support.signatures import tensor
from tests.support.weights import FLOATS, LAYOUTS, columns_of, levels, random_weight, value

load()
ISA = pytest.mark.parametrize("isa", levels(), ids=lambda isa: isa.name)
TOKENS = np.array([0, 39, 17, 5, 39, 31], np.int32)


def embedded(
    isa: Isa, table: OperandSignature, content: np.ndarray, tokens: np.ndarray, scale: float
) -> np.ndarray:
    width = table.type.max_shape[1]
    operands = (value("tokens", "i32[T]"), table)
    result = (tensor(f"f32[T, {width}]"),)
    run = build_kernel(OpSignature("embed", (("scale", scale),), operands, result, "prefill"), isa)
    out = aligned((len(tokens) + 1, width), np.float32, np.nan)
    run(tokens, content, out, n=len(tokens), threads=2)
    assert np.isnan(out[-1]).all()  # nothing is written beyond the last row
    return out[:-1]


@ISA
@pytest.mark.parametrize("type_name", LAYOUTS + FLOATS)
def test_rows_are_the_decoders(isa: Isa, type_name: str) -> None:
    weight = random_weight(type_name, 40, columns_of(type_name), np.random.default_rng(0))
    out = embedded(isa, weight.operand("table"), weight.packed, TOKENS, 1.0)
    assert np.array_equal(out, weight.values[TOKENS])


@ISA
@pytest.mark.parametrize("type_name", ["q4_1", "q2_k", "f16"])
def test_rows_are_scaled(isa: Isa, type_name: str) -> None:
    weight = random_weight(type_name, 40, columns_of(type_name), np.random.default_rng(3))
    out = embedded(isa, weight.operand("table"), weight.packed, TOKENS, 25.3)
    assert np.array_equal(out, weight.values[TOKENS] * np.float32(25.3))


@ISA
def test_a_raw_table_is_read_row_by_row(isa: Isa) -> None:
    table = np.random.default_rng(1).standard_normal((40, 37)).astype(np.float32)
    operand = OperandSignature("table", "weight", tensor("f32[40, 37]"), "raw")
    out = embedded(isa, operand, table, TOKENS, 2.0)
    assert np.array_equal(out, 2 * table[TOKENS])


@ISA
def test_ids_beyond_the_table_do_not_leave_it(isa: Isa) -> None:
    weight = random_weight("q8_0", 40, 96, np.random.default_rng(2))
    tokens = np.array([40, 2**31 - 1, -1], np.int32)
    out = embedded(isa, weight.operand("table"), weight.packed, tokens, 1.0)
    assert np.array_equal(out, weight.values[[39, 39, 39]])
