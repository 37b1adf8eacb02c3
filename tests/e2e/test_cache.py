"""GGUF files where a bundle is expected: compiled once, found again, never trusted blindly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ggufc.cache as caching
from ggufc.runtime.errors import BundleError
from tests.support.cli import Capture, assert_one_line, run_here
from tests.support.tiny_gguf import tiny_model

pytestmark = pytest.mark.usefixtures("known_code")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ggufc"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tiny_model().write(tmp_path / "tiny.gguf")


def answer(capsys: Capture, model: Path) -> tuple[str, str]:
    """The answer of a run, and what it said on standard error."""
    code, out, err = run_here(capsys, "run", model, "--no-template", "-p", "the", "-n", "3")
    assert code == 0, err
    return out, err


def bundles(cache: Path) -> list[Path]:
    """The cached bundles."""
    return sorted(p for p in cache.iterdir() if p.suffix == ".ggufc")


def test_compiled_once(cache: Path, source: Path, capsys: Capture) -> None:
    first, said = answer(capsys, source)
    assert_one_line(said, f"compiling {source} once, into {cache}")
    assert answer(capsys, source) == (first, "")
    assert len(bundles(cache)) == 1


def test_the_same_content_elsewhere_is_found(cache: Path, source: Path, capsys: Capture) -> None:
    answer(capsys, source)
    copy = source.with_name("tiny-copy.gguf")
    copy.write_bytes(source.read_bytes())
    moved = copy.rename(source)
    assert answer(capsys, moved)[1] == ""


def test_changed_content_is_compiled(cache: Path, source: Path, capsys: Capture) -> None:
    first, _ = answer(capsys, source)
    tiny_model(seed=9).write(source)
    second, said = answer(capsys, source)
    assert "compiling" in said
    assert second != first
    assert len(bundles(cache)) == 2


def test_a_damaged_cache_is_compiled_again(cache: Path, source: Path, capsys: Capture) -> None:
    first, _ = answer(capsys, source)
    (bundle,) = bundles(cache)
    (bundle / "tokenizer.json").write_text("{}")
    again, said = answer(capsys, source)
    assert again == first
    assert "compiling" in said


def test_split_models(cache: Path, tmp_path: Path, capsys: Capture) -> None:
    parts = tiny_model().write_split(tmp_path, 2)
    assert "compiling" in answer(capsys, parts[0])[1]
    assert answer(capsys, parts[0])[1] == ""


def test_no_place_for_a_cache(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, _, err = run_here(capsys, "run", source, "--no-template", "-p", "a")
    assert code == 1
    assert_one_line(err, "no folder for compiled models", "ggufc compile MODEL.gguf -o DIR")


def test_home_is_used_without_the_variable(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    answer(capsys, source)
    assert os.listdir(tmp_path / "home" / ".cache") == ["ggufc"]


@pytest.mark.parametrize("told", ["", "relative/folder"])
def test_a_home_that_is_empty_is_as_good_as_none(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the system's word counts, never `/.cache`; nor does a relative folder count."""
    monkeypatch.setenv("XDG_CACHE_HOME", told)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(caching, "home_of_user", lambda: str(tmp_path))
    assert caching.base_folder() == tmp_path / ".cache"
    monkeypatch.setattr(caching, "home_of_user", lambda: "")
    with pytest.raises(BundleError, match="HOME is '' and XDG_CACHE_HOME is not set"):
        caching.base_folder()


def test_the_system_knows_the_home_of_this_user() -> None:
    assert os.path.isabs(caching.home_of_user())
