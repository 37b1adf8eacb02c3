"""`--session FILE` of `run` and `chat`, on a model that always answers xyz."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ggufc.cli.sessions import check_session
from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from tests.cli.test_conversations import TEMPLATE, converse
from tests.support.bundles import alphabet_model
from tests.support.cli import Capture, assert_one_line, run_here


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "template").write_text(TEMPLATE)
    source = alphabet_model(context=100).write(folder / "m.gguf")
    options = CompileOptions(chat_template=folder / "template", kv_type="f32")
    compile_model(source, folder / "m.ggufc", options)
    return folder / "m.ggufc"


def run_with(bundle: Path, capsys: Capture, prompt: str, session: Path) -> dict[str, Any]:
    code, out, err = run_here(
        capsys, "run", bundle, "--no-template", "--json", "-p", prompt, "--session", session
    )
    assert (code, err) == (0, "")
    return dict(json.loads(out))


def test_run_begins_with_what_the_file_holds(
    bundle: Path,
    capsys: Capture,
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    first = run_with(bundle, capsys, "hello w", path)
    then = run_with(bundle, capsys, "hello wxy", path)
    assert (first["usage"]["cached_tokens"], then["usage"]["cached_tokens"]) == (0, 7)
    assert then["text"] == "z"
    other = run_with(bundle, capsys, "help w", path)
    assert other["usage"]["cached_tokens"] == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_chat_goes_on(
    bundle: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    flags = ("--session", str(path))
    assert converse(bundle, capsys, monkeypatch, b"hi\n", *flags) == (0, "xyz\n", "")
    assert converse(bundle, capsys, monkeypatch, b"you\n", *flags) == (0, "xyz\n", "")
    whole = "user hi assistant xyz user you w"
    with Model.load(bundle) as model, model.restore(path) as session:
        assert model.tokenizer.decode_text(session.ids) == whole + "xyz"
    assert converse(bundle, capsys, monkeypatch, b"/clear\nhi\n", *flags)[:2] == (0, "xyz\n")
    with Model.load(bundle) as model, model.restore(path) as session:
        assert model.tokenizer.decode_text(session.ids) == "user hi wxyz"


def test_a_conversation_keeps_its_system_message(
    bundle: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "s")
    said = (bundle, capsys, monkeypatch, b"hi\n", "--session", path, "--system")
    assert converse(*said, "be")[0] == 0
    assert converse(*said, "be")[0] == 0
    code, out, err = converse(*said, "go")
    assert (code, out) == (2, "")
    assert_one_line(err, f"{path}: the conversation has another system message")


def test_an_error_keeps_the_conversation(
    bundle: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "s")
    code, out, err = converse(bundle, capsys, monkeypatch, b"hi\nbad\n", "--session", path)
    assert (code, out) == (0, "xyz\n")
    assert_one_line(err, "no bad words")
    with Model.load(bundle) as model, model.session() as session:
        note = session.restore(path)
    assert [m["content"] for m in note["messages"]] == ["hi", "xyz"]


@pytest.mark.parametrize("command", ["run", "chat"])
def test_files_that_are_no_sessions(
    bundle: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    path = tmp_path / "s"
    path.write_text("my diary " * 50)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hi\n")))
    for name, problem in [(path, "not a session"), (tmp_path / "no" / "s", "no such folder")]:
        code, out, err = run_here(capsys, command, bundle, "--session", name)
        assert (code, out) == (1, "")
        assert_one_line(err, f"{name}: {problem}" if problem == "not a session" else problem)
    assert path.read_text().startswith("my diary")


@pytest.mark.parametrize(
    "note", ["hello", [], {"messages": 1}, {"messages": [{"role": "tool", "content": ""}]}]
)
def test_notes_that_are_no_conversations(
    bundle: Path,
    capsys: Capture,
    tmp_path: Path,
    note: Any,
) -> None:
    with Model.load(bundle) as model, model.session() as session:
        session.save(tmp_path / "s", note=note)
    code, _, err = run_here(capsys, "run", bundle, "-p", "a", "--session", tmp_path / "s")
    assert code == 1
    assert_one_line(err, "its note is not a conversation")


@pytest.mark.parametrize("command", ["run", "chat"])
@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("", 2, "argument --session: '' names no file to keep a session in"),
        ("folder", 1, "folder: not a regular file; a session is not written over it"),
        ("no/s", 1, "no/s: there is no such folder to keep a session in"),
        ("loop", 1, "loop: Too many levels of symbolic links"),
        ("loop/s", 1, "loop/s: there is no such folder to keep a session in"),
        ("lost", 1, "lost: No such file or directory"),
        ("/proc/self/s", 1, "/proc/self/s: "),
    ],
)
def test_places_that_take_no_session_are_told_before_the_model_is_loaded(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    name: str,
    code: int,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("lost").symlink_to("no/s")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hi\n")))
    found, out, err = run_here(capsys, command, "no such bundle", "--session", name)
    assert (found, out) == (code, "")
    assert_one_line(err, problem)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "loop", "lost"]


def test_finding_out_whether_a_session_can_be_kept_leaves_nothing(tmp_path: Path) -> None:
    check_session(tmp_path / "s")
    (tmp_path / "old").write_text("old")
    check_session(tmp_path / "old")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"
