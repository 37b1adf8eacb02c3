"""Everything that is declared is documented, has a meaning and is tried."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from ggufc.ir import OPS, QUANTS, STAGES, GraphBuilder, Module, Pure, StateEffect
from ggufc.ir.quant_reference import _DECODERS
from tests.support.op_samples import op_samples

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_is_complete(name: str) -> None:
    op = OPS[name]
    assert op.doc, "docstring"
    assert op.has(Pure) != op.has(StateEffect), "either pure or an effect"
    assert op.stages, "stages"
    assert set(op.stages) <= set(STAGES)
    names = [spec.name for spec in op.operands] + [spec.name for spec in op.attributes]
    assert list(inspect.signature(op.reference).parameters) == names
    if "types" not in inspect.signature(op.infer).parameters:
        assert list(inspect.signature(op.infer).parameters) == names
    assert op_samples(name), "sample"
    assert all(
        any(step.name == name for step in s.module.functions["main"].ops) for s in op_samples(name)
    )


@pytest.mark.parametrize("name", sorted(OPS))
def test_states_are_operands_of_ops_with_effects_only(name: str) -> None:
    has_states = any(spec.kind == "state" for spec in OPS[name].operands)
    assert has_states == OPS[name].touches_state


def test_every_op_is_in_the_architecture_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([a-z_]+)\(", page))
    assert set(OPS) <= documented


def test_every_quant_type_has_a_decoder() -> None:
    assert set(_DECODERS) == set(QUANTS)


def test_the_builder_has_a_method_per_op() -> None:
    builder = GraphBuilder(Module("m"), "f")
    assert set(OPS) <= set(dir(builder))
    for name in OPS:
        assert callable(getattr(builder, name))
    with pytest.raises(AttributeError, match=r"no op 'matmul'; known: add, attention"):
        _ = builder.matmul
