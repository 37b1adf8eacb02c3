"""Programs as text, data and graphs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.compiler.render_dot import render_dot
from ggufc.compiler.render_json import module_data, render_json
from ggufc.compiler.render_text import render_text
from ggufc.ir import Function, Module, parse_module, print_module
from tests.support.programs import SHAPES, tiny

EXAMPLE = """module "m" {
  weight @w : f32[16, 16] layout r16.f32 at 0:1024

  func @decode(%x: f32[B<=4, 16], %y: f32[B, 16]) {
    %a = silu(%x) : f32[B, 16] in arena[0:256]
    %b = mul(%x, %y) : f32[B, 16] in arena[256:512]
    %c = add(%a, %b) : f32[B, 16] in arena[0:256]
    %d = linear(%c, [@w]) : f32[B, 16]
    return %d
  }
}
"""
TABLE = """
// plan of decode: 4 ops
//   value  bytes       life  offset
//   %x       256    call..1   input
//   %y       256    call..1   input
//   %a       256       0..2       0
//   %b       256       1..2     256
//   %c       256       2..3       0
//   %d       256  3..return  logits
//   peak 512 bytes; lower bound 512 (peak is 1.000 times that); without sharing 512
"""


@pytest.fixture(scope="module")
def planned() -> Module:
    """A planned transformer."""
    return to_planned(to_fused(tiny(replace(SHAPES["gemma"], weight_type="q4_0")), Compute()))


def test_plan_table_is_exact() -> None:
    assert render_text(parse_module(EXAMPLE), "planned") == EXAMPLE + TABLE


def test_text_of_a_planned_module_parses_back(planned: Module) -> None:
    text = render_text(planned, "planned")
    assert print_module(parse_module(text)) == print_module(planned)


def test_text_of_other_stages_is_the_module() -> None:
    module = tiny(SHAPES["llama"])
    assert render_text(module, "graph") == print_module(module)


def test_table_has_every_value(planned: Module) -> None:
    text = render_text(planned, "planned")
    for function in planned.functions.values():
        part = text.partition(f"// plan of {function.name}:")[2].partition("\n\n")[0]
        names = re.findall(r"^//   %(\S+)", part, re.MULTILINE)
        assert names == [value.name for value in function.values()]
        assert f"peak {arena_bytes(function)} bytes" in part


def test_data_has_the_agreed_keys(planned: Module) -> None:
    data = json.loads(render_json(planned, "planned"))
    assert data["stage"] == "planned"
    assert set(data["graphs"]) == {"prefill", "decode"}
    for name, graph in data["graphs"].items():
        wanted = {"ops", "arena_bytes", "naive_bytes", "lower_bound_bytes", "flops", "weight_bytes"}
        assert wanted <= set(graph)
        assert graph["lower_bound_bytes"] <= graph["arena_bytes"] < graph["naive_bytes"]
        for key in ("flops", "bytes", "weight_bytes", "state_bytes"):
            assert graph[key] == sum(op[key] for op in graph["ops"])
        assert len(graph["ops"]) == len(planned.functions[name].ops)


def test_data_tells_where_values_lie(planned: Module) -> None:
    graph = module_data(planned, "planned")["graphs"]["decode"]
    values = {value["name"]: value for op in graph["ops"] for value in op["results"]}
    for value in planned.functions["decode"].values():
        if value.op is not None:
            found = values[value.name]
            expected = None if value.buffer is None else value.buffer.offset
            assert (found["offset"], found["bytes"]) == (expected, value.type.max_bytes)
            assert found["lifetime"][0] == planned.functions["decode"].ops.index(value.op)
    assert values["logits.capped"]["space"] == "logits"


def test_lower_bound_follows_from_lifetimes(planned: Module) -> None:
    """Views and results in place have their operand's bytes, so places are counted, not values."""
    for graph in module_data(planned, "planned")["graphs"].values():
        values = [v for op in graph["ops"] for v in op["results"] if v["space"] == "arena"]
        largest = 0
        for moment in range(len(graph["ops"])):
            alive = [v for v in values if v["lifetime"][0] <= moment <= v["lifetime"][1]]
            largest = max(largest, sum({v["offset"]: v["bytes"] for v in alive}.values()))
        assert largest == graph["lower_bound_bytes"]


def test_data_before_planning_has_no_arena() -> None:
    graph = module_data(tiny(SHAPES["llama"]), "graph")["graphs"]["decode"]
    assert graph["arena_bytes"] is None
    assert 0 < graph["lower_bound_bytes"] < graph["naive_bytes"]


def edges(function: Function) -> int:
    """The edges of a function's drawing: distinct values and states of each op, and the return."""
    uses = sum(len(set(op.values())) + len(op.states()) for op in function.ops)
    return uses + len(function.outputs)


def test_drawing_has_every_op_and_edge(planned: Module) -> None:
    text = render_dot(planned)
    boxes = re.findall(r"^    \"(?:prefill|decode) \d+\" \[label=", text, re.MULTILINE)
    assert len(boxes) == sum(len(f.ops) for f in planned.functions.values())
    assert text.count(" -> ") == sum(edges(f) for f in planned.functions.values())
    assert text.count("{") == text.count("}") == 1 + len(planned.functions)


def test_drawing_escapes_names() -> None:
    module = parse_module(
        'module "a \\" b" {\n  func @f(%"x\\"y": f32[2]) {\n'
        '    %z = silu(%"x\\"y") : f32[2]\n    return %z\n  }\n}'
    )
    text = render_dot(module)
    assert text.startswith('digraph "a \\" b" {')
    assert not re.search(r'(?<!\\)"x', text)
