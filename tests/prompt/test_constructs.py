"""What templates may be written with: the same text as plain jinja2 in transformers' set-up, or an
error where that fails, each with who wrote what."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ggufc.runtime.prompt import PromptError
from ggufc.runtime.prompt.errors import TemplateError, TemplateRefusal, TemplateSyntaxError
from tests.support.prompts import DATA, content_of, render, text, written_by
from tests.support.reference_jinja import PINNED, reference_render

VALUES: dict[str, Any] = {
    "x": "aXbéc <&> \n d",
    "n": 7,
    "f": 2.5,
    "e": 1e20,
    "t": True,
    "none_": None,
    "l": ["b", "A", "c"],
    "nums": [3, 1, 2, 2],
    "d": {"b": 1, "a": "z", "C": None},
    "nested": {"p": [1, {"q": 'é"\\</script>'}], "r": {}, "s": []},
    "people": [{"n": "Zoe", "a": 2}, {"n": "amy", "a": 1}, {"n": "Bob", "a": 2}],
}

# Printed with `{{ }}`, one a line, and compared with the reference, errors included.
EXPRESSIONS = (DATA / "expressions.txt").read_text(encoding="utf-8").splitlines()
# Whole templates, one a line; `\\n` and `\\r` stand for the characters.
TEMPLATES = [
    line.replace("\\n", "\n").replace("\\r", "\r")
    for line in (DATA / "constructs.txt").read_text(encoding="utf-8").splitlines()
]


def reference(template: str) -> str | Exception:
    variables = {
        **VALUES, "messages": [{"role": "user", "content": "hello"}], "tools": None,
        "documents": None, "add_generation_prompt": True,
    }  # fmt: skip
    try:
        return reference_render(template, variables)
    except Exception as error:
        return error


def ours(template: str) -> str | PromptError:
    try:
        return render(template, variables=VALUES).text
    except PromptError as error:
        return error


def check(template: str) -> None:
    wanted, found = reference(template), ours(template)
    assert isinstance(found, Exception) == isinstance(wanted, Exception), (found, wanted)
    if isinstance(found, str):
        assert without_addresses(found) == without_addresses(str(wanted))
        return
    assert isinstance(found, TemplateError)
    assert " at 0x" not in str(found)
    assert isinstance(found, TemplateRefusal) or "\n" not in str(found)


def without_addresses(text: str) -> str:
    """Objects that print their address do not print it here."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    check("{{ " + expression + " }}")


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates(template: str) -> None:
    check(template)


def test_the_tables_cover_success_and_failure() -> None:
    failing = [e for e in EXPRESSIONS if isinstance(reference("{{ " + e + " }}"), Exception)]
    assert 20 < len(failing) < len(EXPRESSIONS) / 4


PROBES = {
    "{% for m in 'abc'[::-1] %}{{ m }}{% endfor %}": "cba",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}": "1",
    "{{ ['a', 'b']|reject('in', ['a'])|join }}": "b",
    "{{ 'x</think>\n\ny'.split('</think>')[-1].lstrip('\n') }}": "y",
    "{% set x %}a{% endset %}{{ x }}": "a",
    "{% macro m(a, b=1) %}{{ a }}-{{ b }}{% endmacro %}{{ m(b=1, a=2) }}": "2-1",
    "{% set a = 0 %}{% for i in [1, 2] %}{% set a = i %}{% endfor %}{{ a }}": "0",
    "{% set n = namespace(a=0) %}{% for i in [1, 2] %}{% set n.a = i %}{% endfor %}{{ n.a }}": "2",
    "{% generation %}hi{% endgeneration %}!": "hi!",
    "{{ strftime_now('%Y') }}": str(PINNED.year),
    "{{ '%s-%d' % ('a', 3) }}": "a-3",
    "{{ {} is mapping }}": "True",
    "{{ [1]|tojson(indent=2) }}": "[\n  1\n]",
    '{{ {"b": "<a> & \'q\' — é/😀", "a": [1]}|tojson }}': '{"b": "<a> & \'q\' — é/😀", "a": [1]}',
    "{{ 1.0|tojson }}{{ true|tojson }}{{ none|tojson }}{{ '\\\\'|tojson }}": '1.0truenull"\\\\"',
    "{{ '<t>' + ({'a': '<'}|tojson) + '</t>' }}": '<t>{"a": "<"}</t>',
    "{{ 'é'|tojson(ensure_ascii=False) }}": '"é"',
    "{{ '\u2028'|tojson }}": '"\u2028"',
    "{{ {'b': {'a': [1, 1e20]}}|tojson(indent=2) }}": (
        '{\n  "b": {\n    "a": [\n      1,\n      1e+20\n    ]\n  }\n}'
    ),
}  # fmt: skip


@pytest.mark.parametrize("template", PROBES)
def test_probes(template: str) -> None:
    assert text(template) == PROBES[template]


def test_unknown_tag_is_an_error_when_the_template_is_compiled() -> None:
    with pytest.raises(TemplateSyntaxError, match="frobnicate") as error:
        render("a\n{% frobnicate %}")
    assert error.value.template_line == 2
    assert error.value.construct == "{% frobnicate %}"


def test_break_outside_of_a_loop_is_no_matter_of_nesting() -> None:
    with pytest.raises(TemplateSyntaxError, match="'break' outside loop"):
        render("{% break %}")


def test_a_refusal_is_in_the_templates_own_words() -> None:
    with pytest.raises(TemplateRefusal) as error:
        render("a\n\n{{ raise_exception('Roles must\nalternate!') }}")
    assert str(error.value) == "Roles must\nalternate!"
    assert error.value.template_line == 3


def test_errors_name_line_and_construct() -> None:
    with pytest.raises(TemplateError) as error:
        render("line 1\n{% if true %}\n{{ messages[0].content\n + nothing.more }}\n{% endif %}")
    assert str(error.value) == "chat template, line 3: 'nothing' is undefined"
    assert error.value.construct == "{{ messages[0].content + nothing.more }}"


MARKS = {
    "{{ m.content }}|{{ 'a' }}": [("request", "c<d"), ("template", "|a")],
    "<|{{ m.role }}|>": [("template", "<|user|>")],
    "{{ m.role ~ m.content }}": [("template", "user"), ("request", "c<d")],
    "{{ m.content|tojson }}": [("request", '"c<d"')],
    "{{ [m.content, 'b'] }}": [("request", "['c<d', 'b']")],
    "{{ ['a', 1] }}": [("template", "['a', 1]")],
    "{{ m.n }}{{ m.n + 1 }}{{ -m.n }}{{ m.n|string }}{{ m.f }}": [("request", "56-552.5")],
    "{{ m.content|length }}{{ loop }}{{ messages|length }}": [("template", "32")],
    "{{ m.yes }}": [("request", "True")],
    "{{ '%s %5s%d' % (m.content, 'x', m.n) }}": [
        ("request", "c<d"), ("template", "     x"), ("request", "5")
    ],
    "{{ '{} {:>4}'.format(m.content, 'x') }}": [("request", "c<d"), ("template", "    x")],
    "{{ m.content.replace('<', '|') }}": [("request", "c"), ("template", "|"), ("request", "d")],
    "{% for k in m.meta %}{{ k }}{% endfor %}": [("request", "key")],
    "{% for k in m if k != 'n' %}{{ k }}{% endfor %}": [
        ("template", "rolecontent"), ("request", "fyesmetakind")
    ],
    "{{ variable }}": [("request", "v")],
    "{{ trusted }}": [("template", "t")],
    "{{ bos_token }}": [("template", "<s>")],
    "{{ strftime_now('%Y') }}": [("template", "2025")],
    "{{ strftime_now(m.content) }}": [("request", "c<d")],
    "{% set x %}a{{ m.content }}{% endset %}{{ x[1:] }}": [("request", "c<d")],
    "{{ messages[1].content }}": [("assistant", "said")],
    "{{ messages[1].content ~ m.content }}": [("assistant", "said"), ("request", "c<d")],
    "{{ [messages[1].content]|tojson }}": [("assistant", '["said"]')],
    "{{ tools|tojson }}": [("request", '[{"name": "t"}]')],
    "{{ tools[0].name ~ documents[0].title }}": [("request", "tT")],
    "{{ m.kind }}": [("request", "text")],
    "{{ dict(a=m.content).a }}": [("request", "c<d")],
    "{{ m.content|int(7) }}{{ m.content|wordcount }}": [("request", "7"), ("template", "2")],
    "{{ m.content|urlencode }}": [("request", "c%3Cd")],
    "{{ m.content|e }}": [("request", "c&lt;d")],
    "{{ 'a'|urlencode }}": [("template", "a")],
}  # fmt: skip


@pytest.mark.parametrize("template", MARKS)
def test_who_wrote_it(template: str) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "c<d", "n": 5, "f": 2.5, "yes": True, "meta": {"key": 1}},
        {"role": "assistant", "content": "said"},
    ]
    messages[0]["kind"] = "text"
    found = render(
        "{% set m = messages[0] %}" + template,
        messages,
        tools=[{"name": "t"}],
        documents=[{"title": "T"}],
        variables={"variable": "v"},
        trusted_variables={"trusted": "t"},
        special_tokens={"bos_token": "<s>"},
    )
    assert written_by(found) == MARKS[template]


def test_paths() -> None:
    parts = [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|>"}]
    found = render(
        "{% for p in messages[0].content %}{{ p.text }}{% endfor %}{{ tools[0]['odd key'] }}",
        [{"role": "user", "content": parts}],
        tools=[{"odd key": "x"}],
    )
    assert found.paths(0, 10) == ["messages[0].content[0].text", "messages[0].content[1].text"]
    assert found.paths(10, 11) == ['tools[0]["odd key"]']
    assert content_of(found) == "<|im_end|>x"
