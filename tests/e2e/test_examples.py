"""Every example runs, as a program of its own, and prints what its text promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bundles import bundle_of
from tests.support.embeddings import embedding_fixture
from tests.support.shared import ROOT
from tests.support.tiny_gguf import chain_model, tiny_model

EXAMPLES = ROOT / "examples"


def run_example(folder: Path, name: str, *arguments: str | Path) -> str:
    """Standard output of an example that must succeed; it works in `folder`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model().write(tmp_path / "tiny.gguf")


def test_all_examples_are_tested() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"}
    assert names == {
        "compile_and_run.py",
        "batch.py",
        "chat.py",
        "embed.py",
        "inspect_ir.py",
        "add_an_op.py",
    }


def test_batch(alphabet: Path, tmp_path: Path) -> None:
    output = run_example(tmp_path, "batch.py", alphabet, "a", "t").splitlines()
    assert output == [
        "'a' -> 'bcdefghijklmnopq'",
        "'t' -> 'uvwxyz'",
        "8 of 9 tokens came from the file",
    ]


def test_embed(tmp_path: Path) -> None:
    source = embedding_fixture("bert").path
    texts = ("reading", "the sea", "read more")
    lines = run_example(tmp_path, "embed.py", source, "read more", *texts).splitlines()
    assert lines[0] == "1.000 read more"
    assert {line.partition(" ")[2] for line in lines} == set(texts)
    assert [line[:5] for line in lines] == sorted((line[:5] for line in lines), reverse=True)


@pytest.mark.parametrize("name", ["compile_and_run.py", "chat.py", "embed.py", "inspect_ir.py"])
def test_without_arguments_an_example_says_how_it_is_used(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"python examples/{name} MODEL.gguf" in done.stderr.replace(".ggufc", ".gguf")
    assert "Traceback" not in done.stderr


def test_compile_and_run(tmp_path: Path) -> None:
    source = chain_model([5] * 64).write(tmp_path / "five.gguf")
    for _ in range(2):
        assert run_example(tmp_path, "compile_and_run.py", source, "a") == "a" * 17 + "\n"
    assert (tmp_path / "five.ggufc").is_dir()


def test_chat(tmp_path: Path) -> None:
    bundle = bundle_of(tiny_model(context=1024), tmp_path)
    out = run_example(tmp_path, "chat.py", bundle, "hi", "again")
    assert out.startswith("> hi\n")
    assert out.count("tokens reused)") == 2
    assert "(0 of" in out


def test_inspect_ir(tmp_path: Path, model: Path) -> None:
    lines = run_example(tmp_path, "inspect_ir.py", model).splitlines()
    assert [line.split(":")[0] for line in lines if line[0] != " "] == [
        "graph",
        "fused",
        "planned",
        "object",
    ]
    assert "%embd = embed(%tokens, @token_embd.weight)" in lines[2]


def test_add_an_op(tmp_path: Path) -> None:
    out = run_example(tmp_path, "add_an_op.py")
    assert "%logits = softsign(%embd) : f32[B, 64]" in out
    assert float(out.rsplit(maxsplit=1)[1]) < 1e-6
