"""`ggufc ir`: every stage and format of a tiny model, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ggufc.cli import main
from ggufc.ir import parse_module, verify
from tests.support.bundles import tiny_bundle
from tests.support.tiny_gguf import tiny_model

ISA = "x86-64-v3"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny quantised llama."""
    folder = tmp_path_factory.mktemp("ir")
    return tiny_model(type_name="q8_0", n_layers=1).write(folder / "tiny.gguf")


@pytest.mark.parametrize("stage", ["graph", "fused", "planned"])
def test_text_parses_and_verifies(
    model: Path, stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ir", str(model), "--stage", stage, "--target", ISA]) == 0
    out, err = capsys.readouterr()
    module = parse_module(out)
    verify(module, stage)
    assert set(module.functions) == {"prefill", "decode", "embed"}
    assert err == ""


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("llvm", "define"), ("llvm-opt", "define"), ("asm", "ggufc_decode:")],
)
def test_code_is_shown(
    model: Path, stage: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ir", str(model), "--stage", stage, "--graph", "decode", "--target", ISA]) == 0
    assert expected in capsys.readouterr().out


def test_the_default_is_the_graph(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", str(model)]) == 0
    verify(parse_module(capsys.readouterr().out), "graph")


def test_one_graph_alone(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", str(model), "--graph", "decode"]) == 0
    assert set(parse_module(capsys.readouterr().out).functions) == {"decode"}


def test_json_goes_to_a_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    arguments = ["--stage", "planned", "--format", "json", "-o", str(file), "--target", ISA]
    assert main(["ir", str(model), *arguments]) == 0
    graphs = json.loads(file.read_text())["graphs"]
    assert set(graphs) == {"prefill", "decode", "embed"}
    assert capsys.readouterr().out == ""


def test_dot(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", str(model), "--stage", "fused", "--format", "dot", "--target", ISA]) == 0
    assert capsys.readouterr().out.startswith("digraph ")


@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [("fuse-qkv", "slice", "rope_kv_write"), ("layout-weights", "layout r16.q8_0", "in arena")],
)
def test_print_after(
    model: Path, name: str, present: str, absent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ir", str(model), "--print-after", name, "--target", ISA]) == 0
    out = capsys.readouterr().out
    assert present in out
    assert absent not in out


def test_targets_differ(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ir", str(model), "--stage", "fused", "--graph", "prefill", "--target"]
    assert main([*arguments, "x86-64-amx"]) == 0
    assert 'to = "bf16a"' in capsys.readouterr().out
    assert main([*arguments, ISA]) == 0
    assert 'to = "q8a"' in capsys.readouterr().out


def test_a_bundle_shows_its_own_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tiny_bundle(tmp_path, target=ISA)
    assert main(["ir", str(bundle)]) == 0
    from_bundle = capsys.readouterr().out
    assert "state $blk.0.k : f32" in from_bundle
    assert main(["ir", str(bundle), "--stage", "planned", "--target", ISA]) == 0
    assert "// plan of decode" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--print-after", "fuse"],
            "pass 'fuse' is unknown; the passes are eliminate-common-ops, ",
        ),
        (
            ["--stage", "graph", "--print-after", "fuse-qkv"],
            "pass fuse-qkv does not run before stage graph is reached",
        ),
        (
            ["--stage", "asm", "--format", "dot"],
            "stage asm has no format dot; allowed: format text",
        ),
        (["--target", "z80"], "target 'z80' is unknown; known are native, portable, "),
        (["-o", "/no/such/folder/x"], "/no/such/folder/x: No such file or directory"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ir", str(model), *arguments]) == (1 if "-o" in arguments else 2)
    out, err = capsys.readouterr()
    assert err.startswith(f"ggufc: {message}")
    assert err.count("\n") == 1
    assert out == ""


def test_a_missing_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", str(tmp_path / "none.gguf")]) == 1
    assert "none.gguf" in capsys.readouterr().err
