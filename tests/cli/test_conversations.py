"""`run` with the chat template, and `chat`, on a model that always answers xyz."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ggufc.compiler.driver import compile_model
from ggufc.compiler.options import CompileOptions
from ggufc.runtime.model import Model
from ggufc.runtime.prompt import Conversation, PromptError
from tests.support.bundles import alphabet_model
from tests.support.cli import Capture, assert_one_line, run_here

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.name }} {% endfor %}"
    "{% if enable_thinking %}think {% endif %}"
    "{% for m in messages %}"
    "{% if m.content == 'bad' %}{{ raise_exception('no bad words') }}{% endif %}"
    "{{ m.role }} {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}w{% endif %}"
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "template").write_text(TEMPLATE)
    source = alphabet_model(context=100).write(folder / "m.gguf")
    options = CompileOptions(chat_template=folder / "template", kv_type="f32")
    compile_model(source, folder / "m.ggufc", options)
    return folder / "m.ggufc"


def prompt_of(bundle: Path, capsys: Capture, *flags: str | Path) -> str:
    """The prompt that `run` makes."""
    code, out, err = run_here(capsys, "run", bundle, "-p", "hi", "--json", *flags)
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["text"] == "xyz"
    with Model.load(bundle, sequences=1) as model:
        return model.tokenizer.decode_text(report["prompt_ids"])


def test_run_uses_the_template(bundle: Path, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "tools").write_text('[{"name": "clock"}]')
    assert prompt_of(bundle, capsys) == "user hi w"
    assert prompt_of(bundle, capsys, "--system", "be") == "system be user hi w"
    assert prompt_of(bundle, capsys, "--think") == "think user hi w"
    assert prompt_of(bundle, capsys, "--no-think") == "user hi w"
    assert prompt_of(bundle, capsys, "--tools", tmp_path / "tools") == "clock user hi w"


def test_a_template_that_refuses(bundle: Path, capsys: Capture) -> None:
    code, out, err = run_here(capsys, "run", bundle, "-p", "bad")
    assert (code, out) == (1, "")
    assert_one_line(err, "no bad words")


@pytest.mark.parametrize(("text", "problem"), [("{", "not JSON"), ("{}", "expected a JSON list")])
def test_bad_tools(bundle: Path, capsys: Capture, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "tools").write_text(text)
    code, _, err = run_here(capsys, "run", bundle, "-p", "hi", "--tools", tmp_path / "tools")
    assert code == 2
    assert_one_line(err, problem)


def converse(
    bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, said: bytes, *flags: str
) -> tuple[int, str, str]:
    """What `chat` prints for these lines of input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    return run_here(capsys, "chat", bundle, *flags)


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        (b"hi\nyou\n", 2),
        (b"hi\n\n  \nyou", 2),
        (b"hi\n/exit\nyou\n", 1),
        (b"hi\n/clear\nyou\n", 2),
        (b"", 0),
    ],
)
def test_chat(
    bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, said: bytes, answers: int
) -> None:
    assert converse(bundle, capsys, monkeypatch, said) == (0, "xyz\n" * answers, "")


def test_an_error_ends_only_its_turn(
    bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = b"hi\nbad\n" + b"x" * 120 + b"\nyou\n"
    code, out, err = converse(bundle, capsys, monkeypatch, said)
    assert (code, out) == (0, "xyz\n" * 2)
    lines = err.splitlines()
    assert "no bad words" in lines[0]
    assert "the context holds 100" in lines[1]
    assert len(lines) == 2


@pytest.fixture
def model(bundle: Path) -> Iterator[Model]:
    with Model.load(bundle, sequences=1) as loaded:
        yield loaded


def test_the_second_turn_reuses_the_first(model: Model) -> None:
    messages = [{"role": "user", "content": "hi"}]
    first = model.chat(messages)
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "you"},
    ]
    second = model.chat(messages)
    # All of "user hi" and its first turn's end; how " a" merges differs between the two.
    assert first.usage.cached_tokens == 0
    assert len(model.tokenizer.encode("user hi")) <= second.usage.cached_tokens < 8
    again = model.chat(messages)
    assert again.ids == second.ids
    assert again.usage.cached_tokens == again.usage.prompt_tokens - 1


def test_whole_conversations(model: Model) -> None:
    spoken = Conversation([{"role": "user", "content": "hi"}], variables={"enable_thinking": True})
    assert model.tokenizer.decode_text(model.encode_chat(spoken)) == "think user hi w"
    with pytest.raises(PromptError, match="no chat template 'x'"):
        model.chat(spoken, template="x")


def test_content_is_never_a_control_token(model: Model) -> None:
    forged = [{"role": "user", "content": "</s>"}]
    end = next(iter(model.tokenizer.stop_ids))
    assert end not in model.encode_chat(forged)
    assert end in model.encode_chat(forged, control_tokens="native")
    with pytest.raises(PromptError, match=r"messages\[0\].content contains the control token"):
        model.chat(forged, control_tokens="reject")
