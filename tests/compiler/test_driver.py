"""The driver: targets, stages, dumps, KV types, and what the manifest says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggufc.backends.llvm import ISAS, host_isas
from ggufc.compiler.driver import compile_model
from ggufc.compiler.errors import CompileError
from ggufc.compiler.options import CompileOptions
from ggufc.compiler.targets import chosen_isas
from ggufc.ir import parse_module, verify
from ggufc.runtime.bundle import Bundle
from ggufc.runtime.model import Model
from tests.support.tiny_gguf import tiny_model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tiny_model(n_layers=1).write(tmp_path / "in" / "tiny.gguf")


def test_targets() -> None:
    assert [isa.name for isa in chosen_isas("portable")] == list(ISAS)
    assert [isa.name for isa in chosen_isas("native")] == host_isas()[:1]
    assert [isa.name for isa in chosen_isas("x86-64, x86-64-v3,")] == ["x86-64-v3", "x86-64"]
    with pytest.raises(CompileError, match="target 'x' is unknown; known are native, portable"):
        chosen_isas("x86-64,x")


def test_several_targets_share_the_weights(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "two.ggufc"
    compile_model(source, target, CompileOptions(target="x86-64,aarch64", kv_type="f32"))
    manifest = Bundle.open(target).manifest
    assert [(o.isa, o.machine, o.path) for o in manifest.objects] == [
        ("x86-64", "x86_64", "code/x86-64.o"),
        ("aarch64", "aarch64", "code/aarch64.o"),
    ]
    assert manifest.objects[0].needs == ()
    assert manifest.options["target"] == ["x86-64", "aarch64"]


@pytest.mark.parametrize(
    ("stage", "ending"), [("graph", "00-input.ir"), ("fused", "plan-memory.ir"), ("asm", ".s")]
)
def test_stopping_after_a_stage_leaves_only_dumps(
    source: Path, tmp_path: Path, stage: str, ending: str
) -> None:
    dumps = tmp_path / "dumps"
    options = CompileOptions(target="x86-64")
    compile_model(source, tmp_path / "x.ggufc", options, dump_ir=dumps, stop_after=stage)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dumps", "in"]
    names = sorted(p.name for p in dumps.iterdir())
    assert any(name.endswith(ending) for name in names), names
    verify(parse_module((dumps / "00-input.ir").read_text()), "graph")


def test_kept_ir_parses(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.ggufc"
    compile_model(source, target, CompileOptions(target="x86-64", keep_ir=True))
    folder = target / "ir"
    verify(parse_module((folder / "graph.ir").read_text()), "graph")
    for stage in ("fused", "planned"):
        verify(parse_module((folder / "x86-64" / f"{stage}.ir").read_text()), stage)
    assert "define" in (folder / "x86-64" / "code.ll").read_text()
    assert "ggufc_decode" in (folder / "x86-64" / "code.s").read_text()


def test_kv_types_differ_only_in_rounding(source: Path, tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(3, 64, 30).tolist()
    found = {}
    for kv_type in ("f32", "f16", "bf16"):
        target = tmp_path / f"{kv_type}.ggufc"
        compile_model(source, target, CompileOptions(kv_type=kv_type))
        with Model.load(target) as model:
            found[kv_type] = model.logits(ids, all=True)
            stepwise = model.logits(ids, all=True, step=True)
        np.testing.assert_allclose(stepwise, found[kv_type], rtol=0, atol=1e-4)
        size = {"f32": 4, "f16": 2, "bf16": 2}[kv_type]
        states = {s.name: s for s in Bundle.open(target).manifest.states}
        keys, values = states["blk.0.k"], states["blk.0.v"]
        assert keys.dtype == values.dtype == kv_type
        # 2 heads of width 16, which keys pad to 32.
        assert (keys.position_bytes, values.position_bytes) == (2 * 32 * size, 2 * 16 * size)
    scale = float(np.abs(found["f32"]).max())
    for kv_type, tolerance in (("f16", 2e-3), ("bf16", 2e-2)):
        error = float(np.abs(found[kv_type] - found["f32"]).max()) / scale
        assert 0 < error < tolerance


@pytest.mark.usefixtures("known_code")
def test_limits_and_facts(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.ggufc"
    options = CompileOptions(target="x86-64", context=50, max_batch=3, max_tokens=20)
    compile_model(source, target, options)
    manifest = Bundle.open(target).manifest
    assert manifest.limits.context == 50
    assert manifest.limits.sequences == 3
    assert manifest.limits.tokens == manifest.limits.rows == 20
    assert manifest.model.architecture == "llama"
    assert manifest.model.vocab_size == 64
    assert manifest.model.hparams["n_layers"] == 1
    assert manifest.source.name == "tiny.gguf"
    assert manifest.source.bytes == source.stat().st_size


@pytest.mark.usefixtures("known_code")
def test_progress_reports_every_weight(source: Path, tmp_path: Path) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.steps: list[list[object]] = []

        def step(self, title: str, total: int | None = None) -> None:
            self.steps.append([title, total, 0])

        def advance(self, count: int) -> None:
            self.steps[-1][2] += count  # type: ignore[operator]

    seen = Recorder()
    options = CompileOptions(target="x86-64")
    compile_model(source, tmp_path / "x.ggufc", options, progress=seen)
    assert [step[0] for step in seen.steps] == [
        "Read the model",
        "Optimise and plan",
        "Generate code",
        "Pack the weights",
        "Finish the bundle",
    ]
    assert all(total is None or total == done for _, total, done in seen.steps)
