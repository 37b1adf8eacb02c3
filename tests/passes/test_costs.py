"""Costs of ops against counts by hand, and costs of whole programs against what they must move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ggufc.compiler.costs import DECODE_CONTEXT, Cost, function_cost, op_cost, typical_sizes
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.ir import OPS, Module, parse_module
from tests.support.op_samples import all_samples
from tests.support.programs import SHAPES, tiny

PROGRAM = """module "m" {
  weight @table : q8_0[100, 64]
  weight @w : q4_0[32, 64]
  weight @u : q4_0[32, 64]
  weight @b : f32[32]
  state $k : bf16[S<=8, C<=4096, 2, 16]
  state $v : bf16[S, C, 2, 16]

  func @decode(%tokens: i32[B<=8], %positions: i32[B], %sequences: i32[B]) {
    %e = embed(%tokens, @table) {scale = 1.0} : f32[B, 64]
    %x = quantize(%e) {to = "q8a"} : q8a[B, 64]
    %y = linear(%x, [@w, @u]) : f32[B, 64]
    %z = linear(%x, [@w], bias=@b) : f32[B, 32]
    %g = linear_glu(%x, @w, @u) {activation = "silu"} : f32[B, 32]
    %q = reshape(%y) {shape = [B, 4, 16]} : f32[B, 4, 16]
    %kv = reshape(%z) {shape = [B, 2, 16]} : f32[B, 2, 16]
    kv_write(%kv, %kv, %positions, %sequences, $k, $v)
    %a = attention(%q, %positions, %sequences, $k, $v)
      {scale = 0.5, window = 0, softcap = 0.0} : f32[B, 4, 16]
    %l = attention(%a, %positions, %sequences, $k, $v)
      {scale = 0.5, window = 100, softcap = 0.0} : f32[B, 4, 16]
    return %l
  }
}
"""
Q4_0_ROW = 64 // 32 * 18
Q8_0_ROW = 64 // 32 * 34
Q8A_ROW = 768  # 2.90625 bytes for each of 256 elements, in lines of 64


def costs(batch: int, context: int) -> dict[str, Cost]:
    """The cost of each op of the program by the name of its result."""
    function = parse_module(PROGRAM).functions["decode"]
    sizes = {"B": batch, "context": context}
    return {
        op.results[0].name if op.results else op.name: op_cost(op, sizes) for op in function.ops
    }


@pytest.mark.parametrize("batch", [1, 3])
def test_products(batch: int) -> None:
    found = costs(batch, 512)
    assert found["y"].flops == 2 * batch * 64 * 64
    assert found["y"].weight_bytes == 64 * Q4_0_ROW
    assert found["y"].value_bytes == batch * (Q8A_ROW + 4 * 64)
    assert found["z"].flops == batch * (2 * 32 * 64 + 32)
    assert found["z"].weight_bytes == 32 * Q4_0_ROW + 4 * 32
    assert found["g"].flops - 2 * batch * 64 * 64 == 5 * batch * 32
    assert found["e"].weight_bytes == batch * Q8_0_ROW


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_reads_what_it_sees(batch: int) -> None:
    found = costs(batch, 512)
    row = 2 * 16 * 2
    assert found["kv_write"].state_bytes == 2 * batch * row
    assert found["a"].state_bytes == 2 * batch * 512 * row
    assert found["l"].state_bytes == 2 * batch * 100 * row
    assert found["a"].flops == batch * 4 * 512 * (4 * 16 + 5)
    assert found["a"].bytes == found["a"].state_bytes + batch * (2 * 4 * 64 + 2 * 4)


def test_only_the_parts_that_are_seen_move() -> None:
    text = PROGRAM.replace(
        """%l = attention(%a, %positions, %sequences, $k, $v)
      {scale = 0.5, window = 100, softcap = 0.0} : f32[B, 4, 16]""",
        """%p = attention_partial(%a, %positions, %sequences, $k, $v)
      {scale = 0.5, window = 0, softcap = 0.0, split = 128, parts = 32} : f32[B, 4, 32, 18]
    %l = attention_combine(%p, %positions) {window = 0, split = 128} : f32[B, 4, 16]""",
    )
    function = parse_module(text).functions["decode"]
    partial, combine = (op_cost(op, {"B": 2, "context": 300}) for op in function.ops[-2:])
    query, parts = 2 * 4 * 16 * 4, 2 * 4 * 3 * 18 * 4
    assert partial.state_bytes == 2 * 2 * 300 * (2 * 16 * 2)
    assert partial.value_bytes == query + 2 * (2 * 4) + parts
    assert combine.value_bytes == parts + 2 * 4 + query
    assert combine.flops == 2 * 2 * 4 * 3 * 16


def test_views_cost_nothing() -> None:
    assert costs(1, 512)["q"] == Cost()


def test_every_op_has_a_cost() -> None:
    seen = set()
    for sample in all_samples():
        for function in sample.module.functions.values():
            for op in function.ops:
                seen.add(op.name)
                cost = op_cost(op, typical_sizes(function))
                assert (cost.bytes > 0) is (op.name != "reshape")
                assert cost.flops >= 0
    assert seen == set(OPS)


def packed() -> Module:
    """A planned transformer with an output matrix of its own."""
    fused = to_fused(tiny(replace(SHAPES["llama"], weight_type="q8_0")), Compute())
    return to_planned(fused)


def test_decode_reads_every_weight_once_and_one_row_of_the_table() -> None:
    module = packed()
    function = module.functions["decode"]
    sizes = typical_sizes(function)
    assert sizes == {"B": 1, "context": DECODE_CONTEXT}
    table = module.weights["token_embd.weight"].nbytes or 0
    stored = sum(weight.nbytes or 0 for weight in module.weights.values())
    row = table // module.weights["token_embd.weight"].type.max_shape[0]
    assert function_cost(function, sizes).weight_bytes == stored - table + row


def test_prefill_computes_wanted_rows_only() -> None:
    function = packed().functions["prefill"]
    one, all_rows = ({"T": 16, "R": rows, "context": 8} for rows in (1, 16))
    assert typical_sizes(function) == one
    few, many = (function_cost(function, sizes).flops for sizes in (one, all_rows))
    head = 2 * 15 * SHAPES["llama"].vocabulary * SHAPES["llama"].dim
    assert many - few > head
