"""The whole pipeline keeps what a program means, on transformers of several shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ggufc.compiler.pass_manager import run_pipeline
from ggufc.compiler.passes.quantize_activations import Compute
from ggufc.compiler.pipelines import fused_pipeline, pass_names, to_fused, to_planned
from ggufc.ir import FUSED, PLANNED, Module, parse_module, print_module, verify
from tests.support.programs import SHAPES, RandomWeights, Shape, largest_difference, run, tiny

INT8 = Compute("int8", "int8")
ROUNDING = 2e-5


def ops(module: Module, function: str) -> Counter[str]:
    """How many ops of each kind a function has."""
    return Counter(op.name for op in module.functions[function].ops)


@pytest.fixture(params=sorted(SHAPES))
def shape(request: pytest.FixtureRequest) -> Shape:
    """Each of the shapes in turn."""
    return SHAPES[request.param]


@pytest.mark.parametrize("weight_type", ["f32", "q8_0"])
def test_every_pass_keeps_the_meaning(shape: Shape, weight_type: str) -> None:
    """All passes but the one that rounds activations, one after the other."""
    module = tiny(replace(shape, weight_type=weight_type))
    weights = RandomWeights(module)
    expected = run(module, weights)
    for step in fused_pipeline(INT8):
        if step.name != "quantize-activations":
            run_pipeline(module, [step])
            difference = largest_difference(expected, run(module, weights))
            assert difference < ROUNDING, step.name


@pytest.mark.parametrize(("mode", "bound"), [("int8", 0.04), ("bf16", 0.015)])
def test_rounded_activations_stay_close(shape: Shape, mode: str, bound: float) -> None:
    module = tiny(replace(shape, weight_type="q8_0"))
    weights = RandomWeights(module)
    fused = to_fused(module, Compute(mode, mode))
    difference = largest_difference(run(module, weights), run(fused, weights))
    assert 0 < difference < bound


def test_planning_changes_no_result(shape: Shape) -> None:
    module = tiny(replace(shape, weight_type="q4_0"))
    weights = RandomWeights(module)
    fused = to_fused(module, INT8)
    planned = to_planned(fused)
    verify(fused, FUSED)
    verify(planned, PLANNED)
    assert largest_difference(run(fused, weights), run(planned, weights)) == 0


def test_stages_are_copies(shape: Shape) -> None:
    module = tiny(shape)
    text = print_module(module)
    fused = to_fused(module, INT8)
    fused_text = print_module(fused)
    planned = to_planned(fused)
    assert print_module(module) == text
    assert print_module(fused) == fused_text
    assert print_module(parse_module(print_module(planned))) == print_module(planned)


def test_the_pipeline_is_repeatable(shape: Shape) -> None:
    first, second = (to_planned(to_fused(tiny(shape), INT8)) for _ in range(2))
    assert print_module(first) == print_module(second)


@pytest.mark.parametrize("function", ["prefill", "decode"])
def test_llama_is_fused_completely(function: str) -> None:
    fused = to_fused(tiny(replace(SHAPES["qwen2"], weight_type="q4_0")), INT8)
    layers = SHAPES["qwen2"].n_layers
    # Per layer: q/k/v, output, down; the head. The last layer's output and everything after it
    # works on rows, so prefill takes rows of the residual and of attention.
    expected = {
        "embed": 1,
        "rope_table": 1,
        "rms_norm_quantize": 2 * layers + 1,
        "linear": 3 * layers + 1,
        "rope_kv_write": layers,
        "attention": layers,
        "reshape": layers,
        "quantize": 2 * layers,
        "linear_glu": layers,
    }
    if function == "prefill":
        expected["take_rows"] = 2
    assert ops(fused, function) == expected


def test_gemma_keeps_its_norms_between() -> None:
    fused = to_fused(tiny(replace(SHAPES["gemma"], weight_type="q4_0")), INT8)
    found = ops(fused, "decode")
    layers = SHAPES["gemma"].n_layers
    assert found["scale"] == 0
    assert found["rope_kv_write"] == found["linear_glu"] == layers
    assert found["add"] == found["rms_norm"] == 2 * layers
    attention = next(op for op in fused.functions["decode"].ops if op.name == "attention")
    assert attention.attributes["scale"] == pytest.approx(SHAPES["gemma"].head_dim ** -0.5)


def test_float_weights_take_float_activations(shape: Shape) -> None:
    fused = to_fused(tiny(replace(shape, weight_type="f16")), INT8)
    for function in fused.functions:
        assert not ops(fused, function).keys() & {"quantize", "rms_norm_quantize"}


def test_compute_is_chosen_per_function() -> None:
    module = tiny(replace(SHAPES["llama"], weight_type="q8_0"))
    fused = to_fused(module, Compute(prefill="bf16", decode="int8"))
    chosen = {
        (function.name, str(x.type.shape[0]).partition("<")[0], x.type.dtype.name)
        for function in fused.functions.values()
        for x in (op.value("x") for op in function.ops if op.name == "linear")
    }
    # Rows whose logits are wanted are few: tiles would wait for the weights.
    assert chosen == {("prefill", "T", "bf16a"), ("prefill", "R", "q8a"), ("decode", "B", "q8a")}


def test_an_unknown_compute_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="compute mode 'int4'; allowed: int8, bf16"):
        Compute(prefill="int4")


def test_pass_names_are_file_names() -> None:
    assert len(pass_names()) == 15
    for step in fused_pipeline(INT8):
        module = type(step).__module__.rpartition(".")[2]
        assert module == step.name.replace("-", "_")
        assert type(step).__name__ == "".join(part.title() for part in step.name.split("-"))
