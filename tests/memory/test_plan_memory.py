"""Plans of whole transformers: sound by a byte map of its own, and close to the lower bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggufc.compiler.gguf import GGUFFile
from ggufc.compiler.memory.arena import arena_bytes
from ggufc.compiler.memory.intervals import lower_bound
from ggufc.compiler.memory.liveness import lifetimes
from ggufc.compiler.memory.planner import naive
from ggufc.compiler.models import GraphOptions, build
from ggufc.compiler.passes.plan_memory import PlanMemory
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import to_fused, to_planned
from ggufc.ir import F32, Function, GraphBuilder, Module, Symbol, TensorType, Value, view_root
from tests.support.fixtures import LOCAL, model_fixture
from tests.support.programs import SHAPES, Shape, tiny

LIMIT = 1.05
SMOLLM2 = Shape(
    n_layers=30,
    dim=576,
    n_heads=9,
    n_kv_heads=3,
    head_dim=64,
    hidden=1536,
    vocabulary=4096,
    weight_type="q4_1",
    is_tied=True,
    max_tokens=512,
)
SIZED = {name: replace(shape, weight_type="q8_0") for name, shape in SHAPES.items()}
REAL = {**SIZED, "30-layers": SMOLLM2, "30-layers-f32": replace(SMOLLM2, weight_type="f32")}
MODES = [Compute("int8", "int8"), Compute("bf16", "int8")]


def live_bytes(function: Function) -> int:
    """The largest sum of bytes of arena values that are still to be read, counted op by op."""
    wanted: set[Value] = set()
    largest = 0
    for op in reversed(function.ops):
        alive = {*wanted, *map(view_root, op.values()), *map(view_root, op.results)}
        spaces = {
            v.buffer: v.buffer.nbytes for v in alive if v.buffer and v.buffer.space == "arena"
        }
        largest = max(largest, sum(spaces.values()))
        wanted = {v for v in alive if v.op is not op}
    return largest


@pytest.mark.parametrize("compute", MODES, ids=str)
@pytest.mark.parametrize("name", sorted(REAL))
def test_the_arena_is_close_to_its_lower_bound(name: str, compute: Compute) -> None:
    planned = to_planned(to_fused(tiny(REAL[name]), compute))
    for function in planned.functions.values():
        bound = lower_bound(lifetimes(function).arena_intervals())
        assert bound <= arena_bytes(function) <= LIMIT * bound
        assert bound == live_bytes(function)


@pytest.mark.parametrize("name", LOCAL)
def test_models_of_the_fixtures_are_close_too(name: str) -> None:
    with GGUFFile.open(model_fixture(name).path) as gguf:
        graph = build(gguf, GraphOptions())
    planned = to_planned(to_fused(graph, MODES[1]))
    for function in planned.functions.values():
        assert arena_bytes(function) <= LIMIT * live_bytes(function)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_sharing_pays(name: str) -> None:
    planned = to_planned(to_fused(tiny(SIZED[name]), MODES[0]))
    for function in planned.functions.values():
        assert arena_bytes(function) < naive(lifetimes(function).arena_intervals()).peak / 2


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_inputs_outputs_and_states_are_not_in_the_arena(name: str) -> None:
    planned = to_planned(to_fused(tiny(SIZED[name]), MODES[0]))
    for function in planned.functions.values():
        callers = (*function.inputs, *map(view_root, function.outputs))
        assert all(value.buffer is None for value in callers)
    assert not any(hasattr(state, "buffer") for state in planned.states.values())


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_no_op_reads_bytes_that_another_wrote(name: str) -> None:
    """Tag the bytes of the arena with their writer and look at the tags before every read."""
    planned = to_planned(to_fused(tiny(SIZED[name]), MODES[0]))
    for function in planned.functions.values():
        assert misread(function) == []


def misread(function: Function) -> list[str]:
    """Values whose bytes carry another's tag when they are read."""
    memory: dict[str, list[Value | None]] = {
        space: [None] * (1 << 20 >> 6) for space in ("arena", "logits")
    }
    faults = []
    for op in function.ops:
        for value in op.values():
            if any(tag is not view_root(value) for tag in tags(memory, value)):
                faults.append(f"{op} reads {value}")
        for result in op.results:
            if view_root(result) is result and result.buffer is not None:
                start, stop = result.buffer.offset >> 6, -(-result.buffer.end >> 6)
                memory[result.buffer.space][start:stop] = [result] * (stop - start)
    return faults


def tags(memory: dict[str, list[Value | None]], value: Value) -> list[Value | None]:
    """The tags of the value's bytes, 64 at a time; none for the caller's own."""
    if value.buffer is None:
        return []
    return memory[value.buffer.space][value.buffer.offset >> 6 : -(-value.buffer.end >> 6)]


@st.composite
def functions(draw: st.DrawFn) -> Module:
    """Random ops on values of several widths: views, in-place chances, sharing, dead values."""
    module = Module("random")
    b = GraphBuilder(module, "decode")
    rows = Symbol("B", 3)
    pool = [b.input(name, TensorType((rows, 32), F32)) for name in ("x", "y")]
    for _ in range(draw(st.integers(1, 20))):
        pool.append(draw_op(draw, b, pool))
    b.returns(pool[-1])
    return module


def draw_op(draw: st.DrawFn, b: GraphBuilder, pool: list[Value]) -> Value:
    """One more op on values of the pool."""
    x = draw(st.sampled_from(pool))
    width = x.type.max_shape[1]
    kind = draw(st.sampled_from(["silu", "add", "linear", "residual", "reshape", "slice"]))
    made: Value
    if kind == "silu":
        made = b.silu(x)
    elif kind == "slice":
        made = b.slice(x, start=0, stop=draw(st.integers(1, width)))
    elif kind == "reshape":
        made = b.reshape(x, shape=(x.type.shape[0], 1, width))
        made = b.reshape(made, shape=x.type.shape)
    elif kind == "add":
        made = b.add(x, draw_like(draw, pool, x))
    else:
        n = width if kind == "residual" else draw(st.sampled_from([16, 32, 80]))
        weight = b.module.weight(f"w.{n}.{width}", TensorType((n, width), F32))
        residual = draw_like(draw, pool, x) if kind == "residual" else None
        made = b.linear(x, [weight], residual=residual)
    return made


def draw_like(draw: st.DrawFn, pool: list[Value], x: Value) -> Value:
    """A value of the pool that has the type of `x`."""
    return draw(st.sampled_from([value for value in pool if value.type == x.type]))


@given(module=functions())
@settings(max_examples=150, deadline=None)
def test_random_programs_are_planned_soundly(module: Module) -> None:
    PlanMemory().run(module)
    function = module.functions["decode"]
    assert misread(function) == []
    assert arena_bytes(function) >= live_bytes(function)
