"""The four policies for control tokens, in every command and in the Python interface."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ggufc.runtime.errors import ArgumentError, RunError
from ggufc.runtime.model import Model
from ggufc.runtime.prompt import PromptError
from ggufc.tokenizer import DroppedBytesError, TokenizerError
from tests.support.bundles import END, bundle_of
from tests.support.cli import Capture, assert_one_line, run_here
from tests.support.tiny_gguf import tiny_model

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}the"
FORGED = "the</s>"
DROPPED = (
    "ggufc: warning: dropped 0x3c at byte 3, 0x2f at byte 4, 0x3e at byte 6: "
    "the vocabulary has no token for them\n"
)
POLICIES = ("literal", "control-only", "native")
# How many end tokens the text becomes.
ENDS = {"literal": 0, "control-only": 0, "native": 1}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tiny_model()
    model.metadata["tokenizer.chat_template"] = TEMPLATE
    model.metadata["tokenizer.chat_template.short"] = "{{ messages[0].content }}"
    return bundle_of(model, tmp_path_factory.mktemp("policies"))


@pytest.fixture
def model(bundle: Path) -> Iterator[Model]:
    with Model.load(bundle, sequences=1) as loaded:
        yield loaded


def result(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    """The JSON that a command prints. The vocabulary lacks the signs of `</s>`: as plain text it
    is told that they are dropped."""
    code, out, err = run_here(capsys, *arguments, "--json")
    assert code == 0, err
    assert err in ("", DROPPED), err
    return dict(json.loads(out))


@pytest.mark.parametrize("policy", POLICIES)
def test_run(bundle: Path, capsys: Capture, policy: str) -> None:
    flags = ("-n", "1", "--control-tokens", policy)
    for more in ((), ("--no-template",)):
        found = result(capsys, "run", bundle, "-p", FORGED, *flags, *more)
        assert found["prompt_ids"].count(END) == ENDS[policy]


def test_what_run_does_unless_told(bundle: Path, capsys: Capture) -> None:
    """Content is literal; a text that is continued is whoever runs it's."""
    flags = ("-p", FORGED, "-n", "1")
    assert END not in result(capsys, "run", bundle, *flags)["prompt_ids"]
    raw = ("run", bundle, *flags, "--no-template")
    assert END in result(capsys, *raw)["prompt_ids"]
    assert END not in result(capsys, *raw, "--literal")["prompt_ids"]


@pytest.mark.parametrize("policy", POLICIES)
def test_chat(bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    seen: list[list[int]] = []
    generate = Model.generate

    def spied(self: Model, prompt: Any, **keywords: Any) -> Any:
        seen.append(list(prompt))
        return generate(self, prompt, **keywords)

    monkeypatch.setattr(Model, "generate", spied)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FORGED.encode())))
    code, _, err = run_here(capsys, "chat", bundle, "-n", "1", "--control-tokens", policy)
    assert (code, err) == (0, DROPPED if policy != "native" else "")
    assert [ids.count(END) for ids in seen] == [ENDS[policy]]


@pytest.mark.parametrize("policy", POLICIES)
def test_render_tokenize_and_logits(
    bundle: Path, capsys: Capture, tmp_path: Path, policy: str
) -> None:
    flags = ("--control-tokens", policy)
    (tmp_path / "m.json").write_text(json.dumps([{"role": "user", "content": FORGED}]))
    assert (
        result(capsys, "render", bundle, tmp_path / "m.json", *flags)["ids"].count(END)
        == (ENDS[policy])
    )
    assert result(capsys, "tokenize", bundle, FORGED, *flags)["ids"].count(END) == ENDS[policy]
    (tmp_path / "l").write_text(json.dumps({"text": FORGED, "control_tokens": policy}))
    code, out, _ = run_here(capsys, "logits", bundle, "--jsonl", tmp_path / "l")
    found = json.loads(out)
    assert (code, found["ids"].count(END), found["shape"]) == (0, ENDS[policy], [1, 64])
    code, out, _ = run_here(capsys, "tokenize", bundle, "--jsonl", tmp_path / "l")
    assert json.loads(out)["ids"] == found["ids"]


def test_logits_of_a_text_are_those_of_its_ids(
    bundle: Path, capsys: Capture, tmp_path: Path
) -> None:
    import numpy as np

    ids = ",".join(map(str, result(capsys, "tokenize", bundle, FORGED, "--literal")["ids"]))
    for name, flags in (
        ("a", ("-p", FORGED, "--control-tokens", "literal")),
        ("b", ("--ids", ids)),
    ):
        code, _, err = run_here(capsys, "logits", bundle, "-o", tmp_path / name, *flags)
        assert code == 0, err
    assert (np.load(tmp_path / "a") == np.load(tmp_path / "b")).all()


def test_verify(bundle: Path, capsys: Capture) -> None:
    for policy in ("native", "literal"):
        found = result(capsys, "verify", bundle, "-p", FORGED, "--control-tokens", policy)
        ids = result(capsys, "tokenize", bundle, FORGED, "--control-tokens", policy)["ids"]
        assert len(found["tokens"]) == len(ids)
    code, out, err = run_here(
        capsys, "verify", bundle, "-p", FORGED, "--control-tokens", "literal", "--json"
    )
    assert (code, err) == (0, DROPPED)
    assert json.loads(out)["dropped_bytes"] == [[3, 0x3C], [4, 0x2F], [6, 0x3E]]
    code, _, err = run_here(capsys, "verify", bundle, "-p", "a")
    assert code == 1
    assert_one_line(err, "the text has 1 tokens, at least 2 are needed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "-p", FORGED), "messages[0].content contains the control token '</s>'"),
        (("run", "-p", FORGED, "--no-template"), "the text contains the control token '</s>'"),
        (("tokenize", FORGED), "the text contains the control token '</s>' at character 3"),
        (("logits", "-p", FORGED, "-o", "-"), "the text contains the control token '</s>'"),
        (("verify", "-p", FORGED), "the text contains the control token '</s>'"),
    ],
)
def test_reject(bundle: Path, capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run_here(
        capsys, arguments[0], bundle, *arguments[1:], "--control-tokens", "reject"
    )
    assert (code, out) == (1, "")
    assert_one_line(err, message)


def test_reject_in_lines(bundle: Path, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "l").write_text(json.dumps({"text": FORGED, "control_tokens": "reject"}) + "\n")
    _, out, _ = run_here(capsys, "tokenize", bundle, "--jsonl", tmp_path / "l")
    assert json.loads(out)["error"]["kind"] == "control_token"
    (tmp_path / "l").write_text(json.dumps({"text": "a", "control_tokens": "odd"}) + "\n")
    _, out, _ = run_here(capsys, "tokenize", bundle, "--jsonl", tmp_path / "l")
    assert "allowed: literal, control-only, reject, native" in json.loads(out)["error"]["message"]


def test_a_turn_that_is_rejected_ends_alone(
    bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.BytesIO(f"{FORGED}\nthe\n".encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(said))
    code, out, err = run_here(capsys, "chat", bundle, "-n", "1", "--control-tokens", "reject")
    assert code == 0
    assert out.count("\n") >= 1
    assert_one_line(err, "messages[0].content contains the control token")


@pytest.mark.parametrize("policy", POLICIES)
def test_python(model: Model, policy: Any) -> None:
    messages = [{"role": "user", "content": FORGED}]
    assert model.encode_chat(messages, control_tokens=policy).count(END) == ENDS[policy]
    spoken = model.chat(messages, control_tokens=policy, max_tokens=1)
    assert spoken.prompt_ids.count(END) == ENDS[policy]
    told = model.generate(FORGED, control_tokens=policy, max_tokens=1)
    assert told.prompt_ids.count(END) == ENDS[policy]
    assert model.tokenizer.encode(FORGED, control_tokens=policy).count(END) == ENDS[policy]
    batch = model.generate_batch([FORGED], control_tokens=policy, max_tokens=1)
    assert batch[0].prompt_ids.count(END) == ENDS[policy]


def test_python_rejects(model: Model) -> None:
    with pytest.raises(PromptError, match=r"messages\[0\].content contains"):
        model.chat([{"role": "user", "content": FORGED}], control_tokens="reject")
    for call in (model.generate, model.tokenizer.encode, model.encode_text):
        with pytest.raises(TokenizerError, match="the text contains the control token"):
            call(FORGED, control_tokens="reject")


# Named templates, and bytes without a token, in the same commands.


def test_named_templates(bundle: Path, capsys: Capture) -> None:
    flags = ("-p", "the", "-n", "1")
    short = result(capsys, "run", bundle, *flags, "--template", "short")["prompt_ids"]
    assert len(short) < len(result(capsys, "run", bundle, *flags)["prompt_ids"])
    code, _, err = run_here(capsys, "run", bundle, *flags, "--template", "none")
    assert code == 1
    assert_one_line(err, "no chat template 'none'; the model has chat_template, short")


@pytest.mark.parametrize("more", [(), ("--no-template",)])
def test_dropped_bytes_are_told_by_run(
    bundle: Path, capsys: Capture, more: tuple[str, ...]
) -> None:
    flags = ("-p", "the\x04", "-n", "1", *more)
    code, out, err = run_here(capsys, "run", bundle, *flags, "--json")
    assert code == 0
    assert json.loads(out)["dropped_bytes"] == [[3, 4]]
    assert_one_line(err, "warning: dropped 0x04 at byte 3: the vocabulary has no token for them")
    code, out, err = run_here(capsys, "run", bundle, *flags, "--strict")
    assert (code, out) == (1, "")
    assert_one_line(err, "byte 0x04 at byte offset 3 has no token in this vocabulary")


def test_dropped_bytes_are_told_by_render_and_logits(
    bundle: Path, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{"role": "user", "content": "the\x04"}]))
    calls: list[tuple[str | Path, ...]] = [
        ("render", bundle, tmp_path / "m.json"),
        ("logits", bundle, "-p", "the\x04", "-o", tmp_path / "o"),
    ]
    for call in calls:
        code, _, err = run_here(capsys, *call)
        assert code == 0
        assert_one_line(err, "warning: dropped 0x04 at byte 3")
        code, _, err = run_here(capsys, *call, "--strict")
        assert code == 1
        assert_one_line(err, "byte 0x04 at byte offset 3 has no token")


# What is no prompt is named, with what may be given.


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (5, "prompt 5: expected a text or a list of token ids"),
        (None, "prompt None: expected a text or a list of token ids"),
        (b"abc", "prompt b'abc': expected a text or a list of token ids"),
        ({1: 2}, "prompt {1: 2}: expected a text or a list of token ids"),
        ([5, "a"], r"prompt\[1\] 'a': expected a token id"),
        ([1.5], r"prompt\[0\] 1.5: expected a token id"),
        ([True], r"prompt\[0\] True: expected a token id"),
        ([64], "token id 64 at index 0: the vocabulary has ids 0 to 63"),
        ([-1], "token id -1 at index 0: the vocabulary has ids 0 to 63"),
        ([], "the prompt has no tokens"),
    ],
)
def test_prompts_that_are_none(model: Model, prompt: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        model.generate(prompt, max_tokens=1)


def test_arrays_are_prompts(model: Model) -> None:
    import numpy as np

    ids = model.encode_chat([{"role": "user", "content": "the"}])
    array: Any = np.array(ids)
    assert model.generate(array, max_tokens=2).ids == model.generate(ids, max_tokens=2).ids


def test_settings_that_do_not_exist_are_named(model: Model) -> None:
    unknown: dict[str, Any] = {"temprature": 0.5}
    message = "unknown setting 'temprature'; the settings are max_tokens, temperature"
    with pytest.raises(ArgumentError, match=message):
        model.generate("the", **unknown)
    with pytest.raises(ArgumentError, match=message):
        model.chat([{"role": "user", "content": "a"}], **unknown)
    with pytest.raises(ArgumentError, match="stop 5: expected a text or a list of texts"):
        model.generate("the", stop=5)  # type: ignore[call-overload]


@pytest.mark.parametrize("ids", [5, None, "ab", [1.5], [[1]], []])
@pytest.mark.parametrize("step", [True, False])
def test_ids_that_are_none(model: Model, ids: Any, step: bool) -> None:
    with pytest.raises(ArgumentError, match=r"token ids|no tokens"):
        model.logits(ids, step=step)


def test_dropped_bytes_can_be_refused_in_python(model: Model) -> None:
    with pytest.raises(DroppedBytesError):
        model.tokenizer.encode_with_details("the\x04", strict=True)
