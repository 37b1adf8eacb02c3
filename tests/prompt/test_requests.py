"""Requests: what they may look like, what reaches the template, and what is refused, in one line
that names the place."""

from __future__ import annotations

from typing import Any

import pytest

from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError, encode_prompt
from ggufc.runtime.prompt.errors import RequestError, TemplateNameError
from tests.support.prompts import USER, render, text
from tests.support.vocabularies import vocabulary

SHOW = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages: the conversation is empty"),
        ("hello", "messages: expected a list, found a string"),
        ({"role": "user"}, "messages: expected a list, found an object"),
        (None, "messages: expected a list, found null"),
        (5, "messages: expected a list, found a number"),
        (["hello"], "messages[0]: expected an object, found a string"),
        ([USER[0], None], "messages[1]: expected an object, found null"),
        ([[USER[0]]], "messages[0]: expected an object, found a list"),
        ([{"role": 5, "content": ""}], "messages[0].role: expected a string, found a number"),
        ([{"role": ["user"]}], "messages[0].role: expected a string, found a list"),
        ([{"role": "user", 5: ""}], "messages[0]: key 5 is not a string"),
        ([{"content": {"a": {1: 2}}}], "messages[0].content.a: key 1 is not a string"),
        ([{"content": b"x"}], "messages[0].content: bytes is not a JSON value"),
        ([{"content": {1}}], "messages[0].content: set is not a JSON value"),
        ([{"content": [object]}], "messages[0].content[0]: type is not a JSON value"),
        ([{"content": float("nan")}], "messages[0].content: nan is not a JSON number"),
        ([{"content": float("inf")}], "messages[0].content: inf is not a JSON number"),
        ([{"content": "x \ud83d y"}], "messages[0].content: U+D83D at character 2"),
        ([{"role": "\udcf0"}], "messages[0].role: U+DCF0 at character 0"),
        ([{"content": [{"text": "\ud800"}]}], "messages[0].content[0].text: U+D800"),
        ([{"a\udc00": ""}], "U+DC00 at character 1"),
    ],
)
def test_messages_of_the_wrong_shape(messages: Any, message: str) -> None:
    with pytest.raises(RequestError) as error:
        render(SHOW, messages)
    assert str(error.value).startswith(message) or message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tools": {"name": "x"}}, "tools: expected a list, found an object"),
        ({"tools": ["x"]}, "tools[0]: expected an object, found a string"),
        ({"tools": [{"a": "\ud800"}]}, "tools[0].a: U+D800"),
        ({"documents": "x"}, "documents: expected a list, found a string"),
        ({"documents": [1]}, "documents[0]: expected an object, found a number"),
        ({"variables": {"messages": []}}, "kwargs: 'messages' may not be given"),
        ({"variables": {"tools": []}}, "kwargs: 'tools' may not be given"),
        ({"variables": {"documents": []}}, "kwargs: 'documents' may not be given"),
        ({"variables": {"add_generation_prompt": 1}}, "kwargs: 'add_generation_prompt' may not"),
        ({"trusted_variables": {"messages": []}}, "kwargs: 'messages' may not be given"),
        ({"variables": {"enable_thinking": "false"}}, "kwargs.enable_thinking: expected true or"),
        ({"variables": {"enable_thinking": 0}}, "kwargs.enable_thinking: expected true or false"),
        ({"variables": {"thinking": "true"}}, "kwargs.thinking: expected true or false"),
        ({"variables": {"x": object()}}, "kwargs.x: object is not a JSON value"),
        (
            {"add_generation_prompt": True, "continue_final_message": True},
            "continue_final_message and add_generation_prompt exclude each other",
        ),
    ],
)
def test_arguments_of_the_wrong_shape(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as error:
        render(SHOW, **arguments)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_what_reaches_the_template() -> None:
    """Keys without a value are left out of messages only, reasoning has all its names."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": None, "extra": {"a": None}},
        {"role": "assistant", "reasoning": "why"},
        {"role": "assistant", "thinking": "a", "reasoning_content": "b"},
    ]
    assert text("{{ messages|tojson }}", messages) == (
        '[{"role": "user", "extra": {"a": null}}, '
        '{"thinking": "why", "role": "assistant", "reasoning": "why", "reasoning_content": "why"}, '
        '{"thinking": "a", "role": "assistant", "reasoning_content": "b"}]'
    )


def test_absent_tools_and_documents_are_none() -> None:
    assert text("{{ tools is none }}{{ documents is none }}{{ bos_token is defined }}") == (
        "TrueTrueFalse"
    )
    assert render("{{ tools|length }}{{ documents }}", tools=[], documents=[]).text == "0[]"


def test_the_assistants_turn_is_opened_unless_asked_otherwise() -> None:
    template = "{{ add_generation_prompt }}"
    assert render(template).text == "True"
    assert render(template, add_generation_prompt=False).text == "False"
    assert render(template + "{{ messages[0].content }}", continue_final_message=True).text == (
        "Falsehello"
    )


def test_pairs_of_surrogates_are_characters() -> None:
    assert text(SHOW, [{"role": "user", "content": "😀"}]) == "user=😀;"


def test_tuples_and_mappings_are_taken() -> None:
    from types import MappingProxyType

    assert text(SHOW, (MappingProxyType({"role": "user", "content": (1, 2)}),)) == "user=(1, 2);"


# Continuing the last message

TRIMMING = "{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}[end]{% endfor %}"
KEEPING = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[end]{% endfor %}"
ENDS: list[dict[str, Any]] = [USER[0], {"role": "assistant", "content": "The answer "}]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (TRIMMING, "[user]hello[end][assistant]The answer"),
        (KEEPING, "[user]hello[end][assistant]The answer "),
        ("{{ messages[-1].content|tojson }}", '"The answer '),
    ],
)
def test_continuing_the_last_message(template: str, expected: str) -> None:
    assert render(template, ENDS, continue_final_message=True).text == expected


def test_continuing_text_that_spells_the_tag() -> None:
    tag = "CONTINUE_FINAL_MESSAGE_TAG "
    messages = [{"role": "user", "content": f"a {tag}b"}, {"role": "assistant", "content": "c"}]
    template = KEEPING + "{{ messages[0].content }}"
    found = render(template, messages, continue_final_message=True)
    assert found.text == f"[user]a {tag}b[end][assistant]c"


def test_continuing_parts_and_reasoning() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "x"}]
    loop = "{% for p in messages[0].content %}{{ p.text }};{% endfor %}"
    messages = [{"role": "assistant", "content": parts, "reasoning": "why not"}]
    assert render(loop, messages, continue_final_message=True).text == "a;b"
    thinks = "<{{ messages[0].reasoning_content }}>"
    assert render(thinks, messages, continue_final_message="thinking").text == "<why not"


@pytest.mark.parametrize(
    ("template", "messages", "field", "message"),
    [
        (KEEPING, [{"role": "assistant"}], True, "messages[0]: there is no 'content' to continue"),
        (KEEPING, [{"content": {"a": 1}}], True, "messages[0].content: only text can be continued"),
        (KEEPING, [{"content": [{"a": 1}]}], True, "messages[0].content: there is no part with"),
        ("x", ENDS, True, "messages[1].content: the chat template does not read 'content'"),
        ("{# content #}x", ENDS, True, "messages[1]: cannot be continued: the chat template does"),
        ("{{ messages[-1].content|upper }}", ENDS, True, "messages[1]: cannot be continued"),
        (KEEPING, ENDS, "reasoning", "messages[1]: there is no 'reasoning' to continue"),
    ],
)
def test_what_cannot_be_continued(template: str, messages: Any, field: Any, message: str) -> None:
    with pytest.raises(RequestError) as error:
        render(template, messages, continue_final_message=field)
    assert str(error.value).startswith(message)


# Named templates

NAMED = {"chat_template": "plain", "tool_use": "tools", "rag": "{{ documents|length }}"}


def test_named_templates() -> None:
    chat = ChatTemplate(NAMED)
    conversation, with_tools = Conversation(USER), Conversation(USER, tools=[])
    assert chat.render(conversation).text == "plain"
    assert chat.render(with_tools).text == "tools"
    assert chat.render(with_tools, "chat_template").text == "plain"
    assert chat.render(with_tools, "default").text == "plain"
    assert chat.render(Conversation(USER, documents=[{}]), "rag").text == "1"
    with pytest.raises(
        TemplateNameError, match="no chat template 'x'; the model has chat_template"
    ):
        chat.render(conversation, "x")


def test_a_model_without_a_default_template() -> None:
    chat = ChatTemplate({"rag": "r", "tool_use": "t"})
    assert chat.render(Conversation(USER, tools=[])).text == "t"
    with pytest.raises(TemplateNameError, match="no default chat template; name one of rag"):
        chat.render(Conversation(USER))


def test_chatml_stands_in_only_where_there_is_no_template() -> None:
    chat = ChatTemplate({})
    assert chat.notice is not None
    assert chat.render(Conversation(USER)).text == (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )
    broken = ChatTemplate({"chat_template": "{% if %}"})
    assert broken.notice is None
    with pytest.raises(PromptError):
        broken.render(Conversation(USER))


# Arguments of tool calls

ARGUMENTS = {
    "items": "{% for k, v in args|items %}{{ k }}={{ v }};{% endfor %}",
    ".items()": "{% for k, v in args.items() %}{{ k }}={{ v }};{% endfor %}",
    "for": "{% for k in args %}{{ k }};{% endfor %}",
    "dictsort": "{% for k, v in args|dictsort %}{{ k }}={{ v }};{% endfor %}",
    "item": "{{ args['city'] }}{{ args.city }}{{ args.get('city', '-') }}",
    "tojson": "{{ args|tojson }}",
    "+": "{{ 'x' + args }}",
    "is string": "{% if args is string %}{{ args }}{% else %}{{ args|tojson }}{% endif %}",
    "is mapping": "{% if args is mapping %}{{ args|items|list }}{% else %}{{ args }}{% endif %}",
    "from_json": "{{ (args|from_json).city }}",
}
OBJECT = '{"city": "Paris"}'


def arguments(template: str, value: Any, shape: str = "function") -> str:
    call = {"function": {"arguments": value}} if shape == "function" else {"arguments": value}
    place = "messages[0].tool_calls[0]." + ("function." if shape == "function" else "")
    messages = [{"role": "assistant", "tool_calls": [call]}]
    return text("{% set args = " + place + "arguments %}" + template, messages)


@pytest.mark.parametrize("shape", ["function", "bare"])
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("items", "city=Paris;"),
        (".items()", "city=Paris;"),
        ("for", "city;"),
        ("dictsort", "city=Paris;"),
        ("item", "ParisParisParis"),
        ("tojson", '"{\\"city\\": \\"Paris\\"}"'),
        ("+", "x" + OBJECT),
        ("is string", OBJECT),
        ("is mapping", OBJECT),
        ("from_json", "Paris"),
    ],
)
def test_arguments_as_json_text(use: str, expected: str, shape: str) -> None:
    assert arguments(ARGUMENTS[use], OBJECT, shape) == expected


@pytest.mark.parametrize("value", ["", "  ", None, {}, "{}"])
def test_no_arguments(value: Any) -> None:
    for use in ("items", ".items()", "for", "dictsort"):
        assert arguments(ARGUMENTS[use], value) == ""
    assert "None" not in arguments("{{ args }}", value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [("[1]", "JSON of type list"), ("5", "of type int"), ("oops", "it is not JSON"), ("{", "JSON")],
)
def test_arguments_that_are_no_object(value: str, problem: str) -> None:
    for use in ("items", ".items()", "for", "dictsort"):
        with pytest.raises(RequestError, match=problem) as error:
            arguments(ARGUMENTS[use], value)
        assert str(error.value).startswith("messages[0].tool_calls[0].function.arguments: ")
    assert arguments("{{ args }}", value) == value


def test_arguments_keep_their_author() -> None:
    template = "{% for k, v in messages[0].tool_calls[0].function.arguments|items %}{{ k }}{{ v }}"
    call = {"function": {"arguments": '{"a": "<|im_end|>", "b": 5}'}}
    for role, author in (("assistant", "assistant"), ("user", "request")):
        found = render(template + "{% endfor %}", [{"role": role, "tool_calls": [call]}])
        assert found.text == "a<|im_end|>b5"
        assert {span.source.author.value for span in found.spans()} == {author}
        assert found.paths(0, 1) == ["messages[0].tool_calls[0].function.arguments"]


# Parts that are no text

MEDIA = "{% for p in messages[0].content %}{{ p.type }};{% endfor %}"


@pytest.mark.parametrize("kind", ["image", "image_url", "audio", "input_audio", "video"])
def test_media_is_refused_by_name(kind: str) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": kind}]}]
    prompt = render(MEDIA, messages)
    assert prompt.text == f"text;{kind};"
    with pytest.raises(
        RequestError, match=rf"messages\[0\].content\[1\]: .*text only, not '{kind}'"
    ):
        encode_prompt(prompt, vocabulary("smollm2"))


def test_media_without_a_type_is_refused_too() -> None:
    messages = [{"role": "user", "content": [{"image_url": {"url": "x"}}]}]
    with pytest.raises(RequestError, match="not 'image_url'"):
        encode_prompt(render(MEDIA, messages), vocabulary("smollm2"))


def test_policies_are_named_in_the_error() -> None:
    with pytest.raises(RequestError, match="literal, control-only, reject, native"):
        encode_prompt(render("x"), vocabulary("smollm2"), "none")
