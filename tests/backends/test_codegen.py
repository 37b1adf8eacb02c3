"""Code generation of modules: names, sharing of kernels, barriers, and what is refused."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from ggufc.backends.llvm import CodegenError, compile_module, generate, isa_named, module_text
from ggufc.backends.llvm.barriers import Access, access, barriers
from ggufc.backends.llvm.kernel import EMITTERS
from ggufc.backends.llvm.placement import Place, arena_bytes
from ggufc.ir import Function, Module, parse_module
from tests.support.planned_models import planned_model

ISA = "x86-64-v3"

# %a and %b may be computed side by side; %c reads both; %d overwrites %a, which %c reads.
TEXT = """
module "m" {{arch = "test"}} {{
  weight @freqs : f32[16] layout raw at 0:64
  weight @bias : f32[32] layout raw at 64:192

  func @prefill(%positions: i32[T<=32], %tokens: i32[T], %rows: i32[R<=32]) {{
    %a = rope_table(%positions, @freqs) {{scale = 1.0}} : f32[T, 32] in arena[0:4096]
    %b = rope_table(%positions, @freqs) {{scale = 2.0}} : f32[T, 32] in arena[4096:8192]
    %c = add(%a, %b) : f32[T, 32] in arena[8192:12288]
    %d = {op} : f32[T, 32] in arena[0:4096]
    %e = reshape(%d) {{shape = [T, 4, 8]}} : f32[T, 4, 8] in arena[0:4096]
    %f = mul(%e, %e) : f32[T, 4, 8] in arena[4096:8192]
    %g = reshape(%f) {{shape = [T, 32]}} : f32[T, 32] in arena[4096:8192]
    %h = take_rows(%g, %rows) : f32[R, 32]
    return %h
  }}
}}
"""


def module(op: str = "bias_add(%c, @bias)") -> Module:
    return parse_module(TEXT.format(op=op))


def test_kernels_have_readable_names_and_views_have_none() -> None:
    names = generate(module(), isa_named(ISA)).ops["prefill"]
    assert names == (
        "rope_table.32.prefill.0",
        "rope_table.32.prefill.1",
        "add.32.prefill.2",
        "bias_add.32.prefill.3",
        None,
        "mul.4x8.prefill.4",
        None,
        "take_rows.32.prefill.5",
    )


def test_ops_with_equal_signatures_share_a_kernel() -> None:
    model = planned_model("llama")
    compiled = compile_module(model.planned, ISA)
    decode = compiled.ops["decode"]
    assert len(decode) == len(model.planned.functions["decode"].ops)
    layers = len(model.planned.states) // 2
    assert layers == 2
    linears = [name for name in decode if name and name.startswith("linear_glu")]
    assert len(linears) == layers
    assert len(set(linears)) == 1
    assert compiled.n_kernels < sum(map(len, compiled.ops.values()))
    for name in filter(None, decode):
        assert compiled.llvm_ir.count(f'define internal void @"{name}"(') == 1


def test_linears_name_types_and_sizes() -> None:
    compiled = compile_module(planned_model("llama", "q8_0").planned, ISA)
    names = {name for names in compiled.ops.values() for name in names if name}
    assert any(re.fullmatch(r"linear_glu\.q8_0\.192x64\.decode\.\d+", name) for name in names)
    assert any(re.fullmatch(r"linear\.q8_0\.64x96\.prefill\.\d+", name) for name in names)


def test_barriers_stand_where_memory_is_shared_and_nowhere_else() -> None:
    # Before %c (reads %a, %b), %d (reads %c), %f (reads %d) and %h (reads %f).
    assert barriers(module().functions["prefill"]) == {2, 3, 5, 7}


def test_overwriting_what_another_thread_may_still_read_needs_a_barrier() -> None:
    found = module("rope_table(%positions, @freqs) {scale = 3.0}")
    function = found.functions["prefill"]
    # %d reads nothing that is written, but lies where %a lies, which %c reads.
    assert 3 in barriers(function)
    assert access(function, function.ops[3]).writes == {Place("arena", 0, 4096)}


@pytest.mark.parametrize("seed", range(20))
def test_no_two_conflicting_ops_run_without_a_barrier_between(seed: int) -> None:
    function = random_function(random.Random(seed))
    stops = barriers(function)
    for a, b in itertools.combinations(range(len(function.ops)), 2):
        if any(stop in range(a + 1, b + 1) for stop in stops):
            continue
        first, second = (access(function, function.ops[i]) for i in (a, b))
        assert not overlap(first.writes, second.reads | second.writes)
        assert not overlap(first.reads, second.writes)


def overlap(some: frozenset[Place], others: frozenset[Place]) -> bool:
    """Byte by byte, unlike `Place.overlaps`."""
    return any(
        a.space == b.space and set(range(a.start, a.end)) & set(range(b.start, b.end))
        for a in some
        for b in others
    )


def random_function(rng: random.Random) -> Function:
    lines, defined = [], ["%positions"]
    for i in range(30):
        start = 64 * rng.randrange(8)
        place = f": f32[T, 4] in arena[{start}:{start + 64}]"
        if len(defined) < 3 or rng.random() < 0.3:
            lines.append(f"%v{i} = rope_table(%positions, @w) {{scale = 1.0}} {place}")
        else:
            a, b = rng.choice(defined[1:]), rng.choice(defined[1:])
            lines.append(f"%v{i} = add({a}, {b}) {place}")
        defined.append(f"%v{i}")
    body = "\n".join([*lines, f"%out = add({defined[-1]}, {defined[-1]}) : f32[T, 4]"])
    text = f"""module "m" {{
      weight @w : f32[2] layout raw at 0:8
      func @prefill(%positions: i32[T<=4]) {{
        {body}
        return %out
      }}
    }}"""
    return parse_module(text).functions["prefill"]


def test_states_are_kept_in_order() -> None:
    function = planned_model("llama").planned.functions["decode"]
    names = [op.name for op in function.ops]
    write, read = names.index("rope_kv_write"), names.index("attention")
    assert any(write < stop <= read for stop in barriers(function))


def test_an_op_that_says_nothing_of_its_effect_is_taken_to_write() -> None:
    busy = Access(frozenset({Place("arena", 0, 4)}))
    assert busy.conflicts(Access(writes=frozenset({Place("arena", 3, 8)})))
    assert not busy.conflicts(Access(reads=frozenset({Place("arena", 3, 8)})))
    assert not busy.conflicts(Access(writes=frozenset({Place("$kv", 0, 4)})))


def test_the_arena_ends_with_the_last_buffer() -> None:
    assert arena_bytes(list(module().functions.values())) == 12288
    assert compile_module(module(), ISA).arena_bytes == 12288


def refusal(found: Module) -> str:
    with pytest.raises(CodegenError) as error:
        generate(found, isa_named(ISA))
    message = str(error.value)
    assert "\n" not in message
    return message


def test_an_op_without_a_kernel_is_named_with_its_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(EMITTERS, "bias_add")
    message = refusal(module())
    assert "no kernel for bias_add(x=f32[T<=32, 32], bias=f32[32] raw) {}" in message
    assert "there are kernels for add, " in message


def test_a_kernel_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise NotImplementedError("no vectors of 32 elements")

    monkeypatch.setitem(EMITTERS, "bias_add", fail)
    assert refusal(module()) == (
        "x86-64-v3: bias_add(x=f32[T<=32, 32], bias=f32[32] raw) {}: no vectors of 32 elements"
    )


def test_a_module_that_is_not_planned_is_refused() -> None:
    found = module()
    found.functions["prefill"].ops[2].result.buffer = None
    assert "%c has no buffer" in refusal(found)
    found = module()
    found.weights["bias"].offset = None
    assert "@bias has no layout and offset" in refusal(found)


def test_functions_and_inputs_beyond_the_interface_are_refused() -> None:
    found = module()
    found.functions["prefill"].name = "encode"
    assert "function 'encode' is none of prefill, decode, embed" in refusal(found)
    text = TEXT.format(op="bias_add(%c, @bias)").replace("%positions", "%places")
    assert "input %places is none of the interface's inputs tokens" in refusal(parse_module(text))


def test_text_of_one_graph_and_of_one_kernel() -> None:
    model = planned_model("llama").planned
    whole, graph = (module_text(model, ISA, "llvm", f) for f in (None, "decode"))
    assert "@ggufc_decode" in whole.replace('"', "")
    assert "@ggufc_prefill" in whole.replace('"', "")
    assert "ggufc_prefill" not in graph
    kernel = next(n for n in generate(model, isa_named(ISA)).ops["decode"] if n)
    optimised = module_text(model, ISA, "llvm-opt", kernel)
    assert f"define void @{kernel}(" in optimised.replace('"', "")
    assert "alloca" not in optimised
    assert f"{kernel}:" in module_text(model, ISA, "asm", kernel).replace('"', "")
    with pytest.raises(CodegenError, match=r"no kernel 'nothing'; the kernels are .*embed"):
        module_text(model, ISA, "llvm", "nothing")
    with pytest.raises(CodegenError, match="stage 'bitcode' is unknown; known: llvm, llvm-opt"):
        module_text(model, ISA, "bitcode")  # type: ignore[arg-type]
