"""Profiles: costs over a run of calls, bounds by hand, and the ops of a bundle that runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm.isa import isa_named
from ggufc.compiler.costs import Cost, compute_type, op_cost
from ggufc.compiler.render_json import module_data
from ggufc.ir import parse_module
from ggufc.profiling.bounds import Bounds, unit_of, weight_pages
from ggufc.profiling.limits import Limits
from ggufc.profiling.profile import (
    GraphProfile,
    OpProfile,
    Profiler,
    call_sizes,
    load_program,
    run_costs,
)
from ggufc.profiling.report import as_json, kernel_rows, op_rows, summary, total_row
from ggufc.profiling.workload import Call, Workload
from ggufc.runtime.errors import BundleError, ContextError
from ggufc.runtime.model import Model

PROGRAM = """module "m" {
  weight @w : q4_0[32, 64]
  weight @u : q4_0[16, 64]
  weight @v : f32[32, 64]
  state $k : bf16[S<=8, C<=4096, 2, 16]
  state $v : bf16[S, C, 2, 16]

  func @prefill(%x: f32[T<=512, 64], %positions: i32[T], %sequences: i32[T]) {
    %q = quantize(%x) {to = "q8a"} : q8a[T, 64]
    %y = linear(%q, [@w, @u, @u]) : f32[T, 64]
    %z = linear(%q, [@w, @u, @u]) : f32[T, 64]
    %f = linear(%x, [@v]) : f32[T, 32]
    %b = quantize(%x) {to = "bf16a"} : bf16a[T, 64]
    %t = linear(%b, [@w]) : f32[T, 32]
    %h = reshape(%z) {shape = [T, 4, 16]} : f32[T, 4, 16]
    %a = attention(%h, %positions, %sequences, $k, $v)
      {scale = 0.5, window = 0, softcap = 0.0} : f32[T, 4, 16]
    return %a
  }
}
"""
FUNCTION = parse_module(PROGRAM).functions["prefill"]
OPS = {op.results[0].name: op for op in FUNCTION.ops}
LIMITS = Limits(
    "x86-64-v4-bf16",
    2,
    {"2m": 20.0, "4k": 10.0, "cache": 100.0},
    {"int8_dot": 1000.0, "bf16_dot": 500.0, "f32_fma": 250.0},
)
BOUNDS = Bounds(LIMITS, "2m")


def call(graph: str, tokens: int, position: int, rows: int = 1) -> Call:
    """A call that is only counted."""
    return Call(graph, tokens, position, rows, lambda: None)


def test_what_products_are_made_in() -> None:
    kinds = {name: compute_type(op) for name, op in OPS.items()}
    assert kinds["y"] == "int8"
    assert kinds["t"] == kinds["a"] == "bf16"
    assert kinds["f"] == kinds["q"] == "f32"
    data = module_data(parse_module(PROGRAM), "fused")["graphs"]["prefill"]["ops"]
    assert [op["compute"] for op in data] == [*kinds.values()]


def test_no_rows_cost_nothing() -> None:
    assert op_cost(OPS["y"], {"T": 0, "context": 1}) == Cost()
    assert Cost(1, 2, 3, 4) * 3 == Cost(3, 6, 9, 12)


@pytest.mark.parametrize(
    ("isa", "int8", "bf16"),
    [
        ("x86-64-amx", "int8_dot", "bf16_tiles"),
        ("x86-64-v4-bf16", "int8_dot", "bf16_dot"),
        ("x86-64-v3", "int8_dot", "f32_fma"),
    ],
)
def test_units(isa: str, int8: str, bf16: str) -> None:
    chosen = isa_named(isa)
    assert unit_of(OPS["y"], chosen) == int8
    assert unit_of(OPS["t"], chosen) == bf16
    assert unit_of(OPS["f"], chosen) == "f32_fma"


def test_bounds_by_hand() -> None:
    linear, quantize = OPS["y"], OPS["q"]
    memory = BOUNDS.of(linear, Cost(flops=100, weight_bytes=40, state_bytes=10, value_bytes=100))
    assert (memory.name, memory.seconds) == ("memory", 40 / 20 + 10 / 10)
    compute = BOUNDS.of(linear, Cost(flops=9000, weight_bytes=40))
    assert (compute.name, compute.seconds) == ("int8_dot", 9.0)
    cache = BOUNDS.of(quantize, Cost(flops=250, value_bytes=200))
    assert (cache.name, cache.seconds) == ("cache", 2.0)
    small_pages = Bounds(LIMITS, weight_pages(0.1))
    assert small_pages.of(linear, Cost(weight_bytes=40)).seconds == 4.0
    assert [weight_pages(part) for part in (None, 0.4, 0.9)] == ["4k", "4k", "2m"]


def test_costs_of_a_run_are_those_of_its_calls() -> None:
    """A long prompt in two calls: weights pass twice, the second call sees the first one's keys."""
    calls = [call("prefill", 512, 0, rows=0), call("prefill", 100, 512)]
    found = dict(zip(OPS, run_costs(FUNCTION, calls), strict=True))
    weights = (32 + 16 + 16) * 64 // 32 * 18
    assert found["y"].weight_bytes == 2 * weights
    assert found["y"].flops == 2 * 612 * 64 * 64
    row = 2 * 16 * 2
    assert found["a"].state_bytes == 2 * row * (512 + 100 + 512)
    assert found["a"].flops == (512 * 256 + 100 * (512 + 50)) * 4 * (4 * 16 + 5)
    assert call_sizes(call("decode", 3, 7)) == {"B": 3, "context": 8}


def profile(seconds: dict[str, float]) -> GraphProfile:
    """A profile of the program with these times; everything costs 1000 operations, and products
    200 bytes of weights."""
    ops = [
        OpProfile(name, op, seconds[name], Cost(1000, 200 if op.name == "linear" else 0, 0, 50))
        for name, op in OPS.items()
    ]
    return GraphProfile("prefill", 10, 2, 100.0, ops)


SECONDS = {"q": 4.0, "y": 20.0, "z": 30.0, "f": 5.0, "b": 4.0, "t": 15.0, "h": 0.0, "a": 2.0}


def test_rows_are_sorted_and_kernels_are_sums() -> None:
    rows = op_rows(profile(SECONDS), BOUNDS)
    assert [row.name for row in rows] == ["z", "y", "t", "f", "b", "q", "a"]
    assert rows[0].share == pytest.approx(200 / 20 / 30)
    kernels = {row.name: row for row in kernel_rows(rows)}
    both = kernels["linear q4_0 32+16+16x64"]
    assert (both.count, both.seconds, both.cost.weight_bytes) == (2, 50.0, 400)
    assert both.share == pytest.approx(20 / 50)
    assert kernels["quantize"].count == 2
    assert set(kernels) == {
        "linear q4_0 32+16+16x64",
        "linear q4_0 32x64",
        "linear f32 32x64",
        "quantize",
        "attention",
    }
    total = total_row("total", rows)
    assert total.seconds == pytest.approx(80.0)
    # Four linears 10 each by memory, quantisations 4 each, attention 2 by bf16.
    assert total.bound.seconds == pytest.approx(4 * 10 + 2 * 4 + 2)
    assert total.bound.name == "memory"


def test_what_the_whole_graph_reaches() -> None:
    reached = summary(profile(SECONDS), BOUNDS)
    assert reached.weight_bytes_s == 800 / 100
    assert reached.read_share == pytest.approx(8 / 20)
    # 3000 operations are in float32: h, a view, costs some here, as everything does.
    assert (reached.unit, reached.operations_s) == ("f32_fma", 8000 / 100)
    assert reached.operations_share == pytest.approx(80 / 250)


def test_json_has_the_same() -> None:
    data = as_json(profile(SECONDS), BOUNDS)
    assert (data["tokens"], data["calls"], data["seconds"]) == (10, 2, 100.0)
    assert [op["name"] for op in data["ops"]][:2] == ["z", "y"]
    assert sum(k["seconds"] for k in data["kernels"]) == pytest.approx(data["total"]["seconds"])
    assert data["total"]["flops"] == sum(op["flops"] for op in data["ops"])
    assert data["reached"]["read_share"] == pytest.approx(0.4)
    assert set(data["ops"][0]) == {
        "name",
        "kernel",
        "count",
        "seconds",
        "flops",
        "weight_bytes",
        "state_bytes",
        "value_bytes",
        "bound",
        "bound_seconds",
        "share",
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_every_op_of_a_bundle_has_its_time(tiny: Path, threads: int) -> None:
    with Model.load(tiny, threads=threads, sequences=2) as model:
        profiler = Profiler(model.bundle, model.engine)
        work = Workload(model.engine, sequences=2)
        prefill = profiler.prefill(work, 9, 2)
        decode = profiler.decode(work, 3, 9, 2)
        program = load_program(model.bundle, model.engine.isa)
    assert (prefill.tokens, prefill.calls) == (9, 1)
    assert (decode.tokens, decode.calls) == (6, 3)
    for found in (prefill, decode):
        assert len(found.ops) == len(program.functions[found.graph].ops)
        assert all(op.seconds >= 0 for op in found.ops)
        assert 0 < sum(op.seconds for op in found.ops)
    stored = sum(w.bytes for w in model.manifest.weights)
    moved = sum(op.cost.weight_bytes for op in decode.ops)
    assert 2.5 * stored < moved <= 3 * stored


def test_profiling_changes_nothing_else(tiny: Path) -> None:
    with Model.load(tiny, threads=1) as model:
        before = model.logits([1, 2, 3]).copy()
        Profiler(model.bundle, model.engine).prefill(Workload(model.engine), 5, 1)
        assert np.array_equal(model.logits([1, 2, 3]), before)


def test_a_bundle_without_its_programs_says_so(tiny: Path, tmp_path: Path) -> None:
    with Model.load(tiny, threads=1) as model:
        with pytest.raises(BundleError, match=r"has no ir/none/planned\.ir, which names the ops"):
            load_program(model.bundle, "none")


def test_what_does_not_fit_is_refused(tiny: Path) -> None:
    with Model.load(tiny, threads=1, sequences=1) as model:
        with pytest.raises(ContextError, match="sequences 2: the model was loaded with room for 1"):
            Workload(model.engine, sequences=2)
        with pytest.raises(ContextError, match="999 tokens do not fit"):
            Workload(model.engine).check(999)
