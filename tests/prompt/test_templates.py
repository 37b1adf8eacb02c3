"""Chat templates of published models: the same text as transformers renders, or a refusal at the
same line."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from typing import Any

import pytest

from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError
from ggufc.runtime.prompt.errors import TemplateRefusal
from tests.support.prompts import fixture
from tests.support.reference_jinja import PINNED, reference_render

TEMPLATES = fixture("templates")

# Where we do better: lists of the template may be changed; there is a filter from_json; and
# arguments that come as JSON text can be read as an object.
CHANGES_LISTS = ("Kimi-K2-Instruct",)
READS_ARGUMENTS = (
    "GLM-4.7-Flash",
    "LFM2.5-8B-A1B",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Qwen3.5-4B",
    "StepFun3.5-Flash",
    "deepseek-ai-DeepSeek-V3.2",
    "deepseek-ai-DeepSeek-V4-Flash-0731",
    "inclusionai-ling-3.0-flash",
    "openbmb-MiniCPM5-1B",
)
JSON_ARGUMENTS = "tool-call-json-string"


def render(chat: ChatTemplate, case: dict[str, Any], now: datetime = PINNED) -> str:
    conversation = Conversation(
        case["messages"],
        case.get("tools"),
        case.get("documents"),
        variables=case.get("kwargs") or {},
        add_generation_prompt=case["add_generation_prompt"],
        continue_final_message=case.get("continue_final_message", False),
        now=now,
    )
    return chat.render(conversation).text


def outcome(chat: ChatTemplate, case: dict[str, Any]) -> str:
    """What is wrong about one case, empty if nothing is."""
    try:
        text = render(chat, case)
    except PromptError as error:
        return wrong_refusal(error, case)
    if "error" in case:
        return "rendered" if expected_better(chat, case, text) else f"no error: {case['error']}"
    return "" if text == case["rendered"] else f"{text!r} is not {case['rendered']!r}"


def wrong_refusal(error: PromptError, case: dict[str, Any]) -> str:
    if "error" not in case:
        return f"refused: {error}"
    wanted = case["error"]
    assert "\n" not in str(error) or isinstance(error, TemplateRefusal)
    if wanted["class"] == "TemplateError" and str(error) != wanted["message"]:
        return f"{error} is not {wanted['message']}"
    if error.template_line != wanted["template_line"]:
        return f"line {error.template_line}, not {wanted['template_line']}: {error}"
    return ""


def expected_better(chat: ChatTemplate, case: dict[str, Any], text: str) -> bool:
    """Whether a text is what the reference would write if it could."""
    special, source = chat.special_tokens, next(iter(chat.templates.values()))
    messages = copy.deepcopy(case["messages"])
    for message in messages:
        for call in message.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            if isinstance(arguments, str) and "ids.append" not in source:
                call["function"]["arguments"] = json.loads(arguments)
    kept = [{k: v for k, v in message.items() if v is not None} for message in messages]
    variables = {
        **special, "messages": kept, "tools": case.get("tools"), "documents": None,
        "add_generation_prompt": case["add_generation_prompt"],
    }  # fmt: skip
    return text == reference_render(source, variables, mutable=True)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_conversation(name: str) -> None:
    fixtures = TEMPLATES[name]
    chat = ChatTemplate({"chat_template": fixtures["template"]}, fixtures["special_tokens"])
    better = set()
    for case in fixtures["cases"]:
        found = outcome(chat, case)
        if found == "rendered":
            better.add(case["name"])
            continue
        assert found == "", case["name"]
    if name in CHANGES_LISTS:
        assert better == {JSON_ARGUMENTS, "tool-call-parallel", "tool-result-parts", "tool-steps"}
    else:
        assert better == ({JSON_ARGUMENTS} if name in READS_ARGUMENTS else set())


def test_the_check_itself_finds_a_difference() -> None:
    fixtures = TEMPLATES["gguf-Qwen2"]
    chat = ChatTemplate({"chat_template": fixtures["template"] + "!"}, fixtures["special_tokens"])
    rendered = [c for c in fixtures["cases"] if "rendered" in c and "prefill" not in c["name"]]
    assert all(outcome(chat, case) for case in rendered)
    refused = next(case for case in fixtures["cases"] if "error" in case)
    moved = {**refused, "error": {**refused["error"], "template_line": 99}}
    assert outcome(chat, moved)
