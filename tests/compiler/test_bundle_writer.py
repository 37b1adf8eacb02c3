"""Compiles end with a whole bundle or with nothing, and repeat to the byte."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ggufc.compiler import bundle_writer
from ggufc.compiler.bundle_writer import BundleWriter
from ggufc.compiler.driver import compile_model
from ggufc.compiler.errors import CompileError
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.bundle import Bundle
from tests.support.cli import Capture, assert_one_line, leftovers, obey_signals, run_here
from tests.support.tiny_gguf import tiny_model

known_code = pytest.mark.usefixtures("known_code")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tiny_model().write(tmp_path / "in" / "tiny.gguf")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "tiny.ggufc"


def contents(bundle: Path) -> dict[str, bytes]:
    """All files of a bundle."""
    return {
        str(path.relative_to(bundle)): path.read_bytes()
        for path in bundle.rglob("*")
        if path.is_file()
    }


def test_compiling_again_gives_the_same_bytes(source: Path, target: Path) -> None:
    options = CompileOptions(keep_ir=True)
    other = target.with_name("other.ggufc")
    compile_model(source, target, options)
    compile_model(source, other, options)
    assert contents(target) == contents(other)
    listed = {entry.path for entry in Bundle.open(target).manifest.files}
    assert set(contents(target)) == listed | {"manifest.yaml"}


@known_code
def test_permissions_follow_the_umask(source: Path, target: Path) -> None:
    before = os.umask(0o027)
    try:
        compile_model(source, target, CompileOptions())
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o750
    assert (target / "weights.bin").stat().st_mode & 0o777 == 0o640


@known_code
def test_an_existing_bundle_is_replaced_only_when_asked(
    source: Path, target: Path, capsys: Capture
) -> None:
    assert run_here(capsys, "compile", source, "-o", target)[0] == 0
    before = contents(target)
    code, _, err = run_here(capsys, "compile", source, "-o", target, "--kv-type", "f16")
    assert code == 1
    assert_one_line(err, str(target), "exists; --force replaces it")
    assert contents(target) == before
    assert run_here(capsys, "compile", source, "-o", target, "--kv-type", "f16", "--force")[0] == 0
    assert contents(target) != before
    assert leftovers(target.parent) == []


def test_other_folders_are_never_replaced(source: Path, target: Path) -> None:
    target.mkdir()
    (target / "precious").write_text("x")
    with pytest.raises(CompileError, match="exists and is not a bundle; it is never replaced"):
        compile_model(source, target, CompileOptions(), force=True)
    assert (target / "precious").read_text() == "x"


@known_code
def test_an_empty_folder_may_be_filled(source: Path, target: Path) -> None:
    target.mkdir()
    compile_model(source, target, CompileOptions(), force=True)
    assert Bundle.open(target)


def test_no_folder_to_write_to(source: Path, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"none: no such folder to write the bundle to"):
        compile_model(source, tmp_path / "none" / "x.ggufc", CompileOptions())


@known_code
def test_too_little_space_is_noticed_first(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(CompileError, match=r"needs about \d+ more bytes, the disk has 1000 left"):
        compile_model(source, target, CompileOptions())
    assert list(target.parent.iterdir()) == []


@known_code
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, code: int, capsys: Capture
) -> None:
    def full(_file: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(bundle_writer, "sync", full)
    status, _, err = run_here(capsys, "compile", source, "-o", target)
    assert status == 1
    assert_one_line(err, str(target.parent), "the disk is full", os.strerror(code))
    assert list(target.parent.iterdir()) == []


def limited() -> None:
    """No file of the process may grow beyond 20 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_a_file_that_may_not_grow(source: Path, target: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ggufc", "compile", str(source), "-o", str(target)],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert_one_line(done.stderr, "the disk is full", "File too large")
    assert list(target.parent.iterdir()) == []


# Compiles, and sends itself a signal when the weights are being packed.
STRUCK = """
import os, sys
from ggufc import cli
from ggufc.cli import bars
from contextlib import contextmanager

class Strike:
    def step(self, title, total=None):
        if title == "Finish the bundle":
            os.kill(os.getpid(), int(sys.argv[1]))
    def advance(self, count):
        pass

@contextmanager
def striking():
    yield Strike()

bars.bars = striking
sys.exit(cli.main(["compile", *sys.argv[2:]]))
"""


def strike(number: int, source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Compile in a process that gets a signal when all but the manifest is written."""
    command = [sys.executable, "-c", STRUCK, str(number), str(source), "-o", str(target)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, preexec_fn=obey_signals
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing(source: Path, target: Path, number: signal.Signals) -> None:
    done = strike(number, source, target)
    told = f"ggufc: {source}: stopped by {number.name}; no bundle was written\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
    assert list(target.parent.iterdir()) == []


def test_a_killed_compile_leaves_no_bundle_and_the_next_one_tidies_up(
    source: Path, target: Path
) -> None:
    assert strike(signal.SIGKILL, source, target).returncode == -signal.SIGKILL
    assert not target.exists()
    assert len(leftovers(target.parent)) == 1
    compile_model(source, target, CompileOptions())
    assert [p.name for p in target.parent.iterdir()] == ["tiny.ggufc"]


def test_a_compile_that_is_running_is_left_alone(target: Path) -> None:
    with BundleWriter(target) as first, BundleWriter(target) as second:
        assert first.folder.is_dir()
        assert second.folder.is_dir()
    assert leftovers(target.parent) == []


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mödel 模型 (1)\n" / "é#%&'$x"
    folder.mkdir(parents=True)
    return folder


@known_code
@pytest.mark.parametrize("name", ["-x.ggufc", "e\u0301.ggufc", "new\nline.ggufc", "\udcff.ggufc"])
def test_any_path_works(odd_folder: Path, name: str, capsys: Capture) -> None:
    source = tiny_model().write(odd_folder / (name + ".gguf"))
    target = odd_folder / name
    code, _, err = run_here(capsys, "compile", source, "-o", target)
    assert code == 0
    assert all(line.startswith("ggufc: ") for line in err.splitlines()), err
    moved = target.rename(odd_folder / "moved")
    assert run_here(capsys, "logits", moved, "--ids", "3", "-o", odd_folder / "x.npy")[0] == 0
    assert sorted(p.name for p in odd_folder.iterdir()) == sorted([source.name, "moved", "x.npy"])
