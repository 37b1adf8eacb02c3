"""What a compile proves about chat templates, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ggufc.compiler.errors import CompileError
from ggufc.runtime.bundle import Bundle
from ggufc.runtime.prompt import ChatTemplate, special_tokens
from ggufc.runtime.prompt.canaries import CANARIES, check_template
from tests.support.bundles import bundle_of
from tests.support.cli import assert_one_line, leftovers, run_here
from tests.support.prompts import fixture, imported, vocabulary_file
from tests.support.tiny_gguf import tiny_model
from tests.support.vocabularies import vocabulary

Capture = pytest.CaptureFixture[str]
CAPABILITIES = [canary.capability for canary in CANARIES]
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def verdicts(template: str, vocabulary_name: str = "smollm2") -> dict[str, str]:
    tokenizer = vocabulary(vocabulary_name)
    chat = ChatTemplate({"chat_template": template}, special_tokens(tokenizer))
    return check_template(chat, "chat_template", tokenizer)


def test_the_capabilities_of_published_templates() -> None:
    """Those that support everything are said to; the others lack what they are known to lack."""
    templates = fixture("templates")
    everything = dict.fromkeys(CAPABILITIES, "ok")
    for name in ("MiniMax-M2", "Qwen3.5-4B", "GLM-4.7-Flash", "Kimi-K2-Instruct"):
        assert verdicts(templates[name]["template"], "qwen3") == everything, name
    qwen3 = verdicts(templates["Qwen-Qwen3-0.6B"]["template"], "qwen3")
    assert [c for c in CAPABILITIES if qwen3[c] != "ok"] == ["content as parts"]
    assert "line 20: 'list object' has no attribute 'startswith'" in qwen3["content as parts"]
    gemma = verdicts(templates["google-gemma-2-2b-it"]["template"], "gemma3")
    assert gemma["user"] == "ok"
    assert gemma["system"].startswith("System role not supported (line 1: ")
    llama = verdicts(templates["meta-llama-Llama-3.1-8B-Instruct"]["template"], "llama3.1")
    assert llama["content as parts"] == "the parts are printed as a Python list"
    smollm2 = verdicts(templates["gguf-SmolLM2-Instruct"]["template"])
    assert smollm2["tools"] == "the prompt does not show 'canary_tool'"
    assert "can only concatenate str" in smollm2["content as parts"]


@pytest.mark.parametrize(
    ("template", "capability", "verdict"),
    [
        (PLAIN, "user", "ok"),
        (PLAIN, "reasoning in history", "ok"),
        (PLAIN, "tools", "the prompt does not show 'canary_tool'"),
        ("no messages", "user", "the prompt does not show 'canary-question'"),
        ("{{ messages[0].content", "user", "chat template, line 1: unexpected end of template"),
        ("\n{{ a.b }}", "user", "chat template, line 2: 'a' is undefined in {{ a.b }}"),
        ("\n{{ raise_exception('No!') }}", "tools", "No! (line 2: {{ raise_exception('No!') }})"),
        ("{% for i in range(10**9) %}{% endfor %}", "user", "chat template, line 1: the template"),
        ("{{ messages[0].content|no }}", "user", "chat template, line 1: No filter named 'no'."),
    ],
)
def test_verdicts(template: str, capability: str, verdict: str) -> None:
    assert verdicts(template)[capability].startswith(verdict)


def test_a_hopeless_template_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    render = ChatTemplate.render

    def counted(*arguments: Any, **keywords: Any) -> Any:
        tried.append(1)
        return render(*arguments, **keywords)

    monkeypatch.setattr(ChatTemplate, "render", counted)
    for template in ("{% if %}", "{{ 'x' * 10**9 }}"):
        tried.clear()
        assert len(set(verdicts(template).values())) == 1
        assert len(tried) == 1


def test_so_many_templates(tmp_path: Path) -> None:
    names = {f"chat_template.t{number}": "x" for number in range(33)}
    with pytest.raises(CompileError, match="33 chat templates, allowed are 32"):
        imported(vocabulary_file(tmp_path, **names))


def test_begin_tokens_are_counted() -> None:
    template = "{{ bos_token }}{{ bos_token }}" + PLAIN
    assert verdicts(template, "gemma3")["user"] == "the prompt begins with 2 begin tokens"
    assert verdicts("{{ bos_token }}" + PLAIN, "gemma3")["user"] == "ok"
    assert verdicts(PLAIN, "gemma3")["user"] == "ok"


def test_the_report(tmp_path: Path) -> None:
    fine = imported(vocabulary_file(tmp_path, PLAIN, **{"chat_template.rag": "x"}))
    assert fine.notices == ()
    assert fine.report["source"] == "model"
    assert fine.report["templates"]["chat_template"]["system"] == "ok"
    assert fine.report["templates"]["rag"]["user"].startswith("the prompt does not show")
    assert fine.report["end_tokens"] == [{"id": 2, "text": "</s>"}]
    assert len(fine.report["missing_bytes"]) > 128


def test_a_model_without_a_template(tmp_path: Path) -> None:
    found = imported(vocabulary_file(tmp_path))
    assert found.templates == {}
    assert found.notices == ("the model has no chat template; conversations are written in ChatML",)
    assert found.report["source"] == "ChatML"
    assert found.report["templates"]["chat_template"]["user"] == "ok"


@pytest.mark.parametrize("template", ["", "{% if %}", "{{ raise_exception('no') }}", "{{ a.b.c }}"])
def test_no_user_turn_no_bundle(tmp_path: Path, template: str) -> None:
    with pytest.raises(CompileError, match="the chat template cannot render one user turn: "):
        imported(vocabulary_file(tmp_path, template))


def test_one_capability_is_enough_for_a_bundle(tmp_path: Path) -> None:
    needs_tools = (
        "{% if not tools %}{{ raise_exception('no tools') }}{% endif %}{{ tools }}" + PLAIN
    )
    found = imported(vocabulary_file(tmp_path, needs_tools)).report["templates"]["chat_template"]
    assert found["user"].startswith("no tools (line 1: ")
    assert found["tools"] == "ok"


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    """`--chat-template` replaces the model's, broken or not."""
    (tmp_path / "own.jinja").write_bytes(PLAIN.replace("\n", "\r\n").encode())
    found = imported(vocabulary_file(tmp_path, "{% if %}"), tmp_path / "own.jinja")
    assert found.templates == {"chat_template": PLAIN.replace("\n", "\r\n")}
    with pytest.raises(CompileError, match=r"no\.jinja: cannot read the chat template"):
        imported(vocabulary_file(tmp_path), tmp_path / "no.jinja")
    (tmp_path / "bad.jinja").write_bytes(b"ab\xff")
    with pytest.raises(CompileError, match=r"bad\.jinja: the byte at offset 2 is not UTF-8"):
        imported(vocabulary_file(tmp_path), tmp_path / "bad.jinja")


def test_names_of_templates_have_to_be_names_of_files(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="a template's name has 1 to 64 of"):
        imported(vocabulary_file(tmp_path, PLAIN, **{"chat_template.a/b": "x"}))


def test_a_compile_fails_with_the_reason_and_leaves_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    model = tiny_model()
    model.metadata["tokenizer.chat_template"] = "{{ messages[0].content }}\n{{ nothing.here }}"
    source = model.write(tmp_path / "m.gguf")
    code, _, error = run_here(capsys, "compile", source, "-o", tmp_path / "m.ggufc")
    assert code == 1
    assert_one_line(error, "cannot render one user turn", "line 2", "'nothing' is undefined")
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "m.ggufc").exists()


def test_manifest_and_inspect(tmp_path: Path, capsys: Capture) -> None:
    model = tiny_model()
    model.metadata["tokenizer.chat_template"] = PLAIN
    bundle = bundle_of(model, tmp_path)
    report = Bundle.open(bundle).manifest.prompt
    assert set(report["templates"]["chat_template"]) == set(CAPABILITIES)
    for path in (bundle, tmp_path / "tiny.gguf"):
        code, out, error = run_here(capsys, "inspect", path)
        assert (code, error) == (0, "")
        assert "ends       </s> (2)" in out
        assert "  tools                  the prompt does not show 'canary_tool'" in out
        assert "  user                   ok" in out
        code, out, error = run_here(capsys, "inspect", path, "--json")
        assert json.loads(out)["prompt"] == json.loads(json.dumps(dict(report)))
    assert dataclasses.asdict(Bundle.open(bundle).manifest)["prompt"] == report


def test_inspect_shows_a_template_that_does_not_work(tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run_here(capsys, "inspect", vocabulary_file(tmp_path, "{% if %}"))
    assert code == 0
    assert "  user                   chat template, line 1: Expected an expression" in out


def test_inspect_says_that_chatml_stands_in(tmp_path: Path, capsys: Capture) -> None:
    _, out, _ = run_here(capsys, "inspect", vocabulary_file(tmp_path))
    assert "template   chat_template (ChatML, since the model has none)" in out
