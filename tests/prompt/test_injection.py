"""Content that spells control tokens: it never becomes one, whatever the template does to it."""

from __future__ import annotations

from typing import Any

import pytest

from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError, Rendered, encode_prompt
from ggufc.runtime.prompt.errors import ControlTokenError
from ggufc.tokenizer import Tokenizer
from tests.support.prompts import fixture
from tests.support.reference_jinja import PINNED
from tests.support.vocabularies import vocabulary

INJECTION = fixture("injection")
TEMPLATES = fixture("templates")


def rendered(case: dict[str, Any], template: dict[str, Any] | None) -> Rendered:
    source = template["template"] if template else case["template"]
    special = template["special_tokens"] if template else {}
    chat = ChatTemplate({"chat_template": source}, special, own=False)
    return chat.render(
        Conversation(
            case["messages"],
            case.get("tools"),
            case.get("documents"),
            trusted_variables=case.get("kwargs") or {},
            add_generation_prompt=case["add_generation_prompt"],
            now=PINNED,
        )
    )


def refusal(prompt: Rendered, tokenizer: Tokenizer) -> ControlTokenError | None:
    try:
        encode_prompt(prompt, tokenizer, "reject", complete=False)
    except ControlTokenError as error:
        return error
    return None


def check(case: dict[str, Any], prompt: Rendered, tokenizer: Tokenizer) -> None:
    assert prompt.text == case["rendered"]
    joint = encode_prompt(prompt, tokenizer, "control-only", complete=False)
    assert joint.ids == case["ids_joint"]
    literal = encode_prompt(prompt, tokenizer, complete=False)
    assert [i for i in literal.ids if tokenizer.is_control(i)] == case["control_ids"]
    native = encode_prompt(prompt, tokenizer, "native", complete=False)
    assert native.ids == case["ids_unsafe"]
    error = refusal(prompt, tokenizer)
    assert (error is not None) == case["refuse"]
    if error is not None:
        assert str(error).startswith(f"{error.path} contains the control token {error.token!r};")
    assert_no_mark_is_weaker(case, prompt)


def assert_no_mark_is_weaker(case: dict[str, Any], prompt: Rendered) -> None:
    """What the reference calls content is never the template's (the text of numbers and of empty
    lists may be content for us and the template's for the reference)."""
    content = [span["content"] for span in case["spans"] for _ in span["text"]]
    ours = [span.source.author != "template" for span in prompt.spans() for _ in range(len(span))]
    assert all(mine for theirs, mine in zip(content, ours, strict=True) if theirs)


@pytest.mark.parametrize("name", sorted(INJECTION))
def test_every_case(name: str) -> None:
    fixtures = INJECTION[name]
    tokenizer = vocabulary(fixtures["vocab"])
    template = TEMPLATES.get(fixtures["template"])
    for case in fixtures["cases"]:
        if "template_error" not in case:
            check(case, rendered(case, template), tokenizer)
        elif (name, case["name"]) != ("qwen3__Qwen3-Coder", "tool-arg-json"):
            with pytest.raises(PromptError):
                rendered(case, template)


@pytest.mark.parametrize("chat", fixture("seeds")["chats"], ids=range(6))
def test_seed_conversations(chat: dict[str, Any]) -> None:
    qwen3 = TEMPLATES["Qwen-Qwen3-0.6B"]
    template = ChatTemplate({"chat_template": qwen3["template"]}, qwen3["special_tokens"])
    conversation = Conversation(
        chat["messages"], chat["tools"], variables={"enable_thinking": chat["enable_thinking"]}
    )
    prompt = template.render(conversation)
    assert prompt.text == chat["text"]
    assert encode_prompt(prompt, vocabulary("qwen3")).ids == chat["ids"]


@pytest.mark.parametrize("case", fixture("seeds")["provenance"], ids=range(6))
def test_seed_contents(case: dict[str, Any]) -> None:
    qwen3 = TEMPLATES["Qwen-Qwen3-0.6B"]
    template = ChatTemplate({"chat_template": qwen3["template"]}, qwen3["special_tokens"])
    prompt = template.render(Conversation([{"role": "user", "content": case["content"]}]))
    tokenizer = vocabulary("qwen3")
    assert encode_prompt(prompt, tokenizer).ids == case["masked_safe"]
    assert encode_prompt(prompt, tokenizer, "native").ids == case["chatml_native_unsafe"]
