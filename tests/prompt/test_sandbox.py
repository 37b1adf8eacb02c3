"""Templates are code from a downloaded file: nothing of Python or of the machine is in reach,
wherever the template comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ggufc.compiler.errors import CompileError
from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError
from ggufc.runtime.prompt.errors import TemplateError, TemplateSecurityError
from tests.support.cli import assert_one_line, run_here
from tests.support.prompts import imported, render, text, vocabulary_file

CANARY = "/tmp/ggufc-template-was-here"

# None of these renders; those that reach for something are security errors.
UNSAFE = (
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''|attr('__class__') }}",
    "{{ ''|attr('__cl' ~ 'ass__') }}",
    "{{ x.__class__.__base__.__subclasses__() }}",
    "{{ [''.__class__] }}",
    "{{ ['']|map(attribute='__class__')|list }}",
    "{{ ['']|map('attr', '__class__')|list }}",
    "{{ ['']|selectattr('__class__')|list }}",
    "{{ ['']|sort(attribute='__class__') }}",
    "{{ ['']|groupby('__class__') }}",
    "{{ ['']|sum(attribute='__class__') }}",
    "{{ ['']|join(attribute='__class__') }}",
    "{{ ['']|min(attribute='__class__') }}",
    "{{ ['']|unique(attribute='__class__')|list }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ '{0[__class__]}'.format('') }}",
    "{{ '{a.__globals__}'.format(a=raise_exception) }}",
    "{{ '{a.__class__}'.format_map({'a': ''}) }}",
    "{{ ('{0.__class__}'|attr('format'))('') }}",
    "{{ '{0.__class__}'['format']('') }}",
    "{{ (['{0.__class__}']|map(attribute='format')|list)[0]('') }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ cycler('a').__init__ }}",
    "{{ cycler('a').next.__func__ }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ namespace(a=1).__class__ }}",
    "{{ namespace(__class__=1) }}",
    "{{ namespace({'__class__': 1}) }}",
    "{% set n = namespace() %}{% set n.__class__ = 1 %}",
    "{% set n = namespace() %}{% set n._Namespace__attrs = 1 %}",
    "{{ namespace()._Namespace__attrs }}",
    "{{ dict.__class__ }}",
    "{{ dict.mro() }}",
    "{{ range.__class__ }}",
    "{{ range(1).__reduce__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ raise_exception.__code__ }}",
    "{{ raise_exception['__globals__'] }}",
    "{{ strftime_now.__self__ }}",
    "{{ strftime_now.__globals__.__builtins__ }}",
    "{{ lipsum.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{% block b %}{% endblock %}{{ self.b._context }}",
    "{% block b %}{% endblock %}{{ self.b._stack }}",
    "{{ self.b.__call__ }}",
    "{% macro m() %}{% endmacro %}{{ m.__call__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func }}",
    "{% macro m() %}{% endmacro %}{{ m._environment }}",
    "{% for i in [1] %}{{ loop._iterable }}{% endfor %}",
    "{% for i in [1] %}{{ loop.__class__ }}{% endfor %}",
    "{{ ''.join.__self__ }}",
    "{{ ''.join.__func__.__globals__ }}",
    "{{ ([]|map('upper')).gi_frame }}",
    "{{ ([]|map('upper')).gi_code }}",
    "{{ ([]|map('upper')).send }}",
    "{{ (1).__class__ }}",
    "{{ (1).to_bytes(4, 'big') }}",
    "{{ (1.5).fromhex('0x1') }}",
    "{{ ''.encode() }}",
    "{{ ''.maketrans('a', 'b') }}",
    "{{ ''._marks }}",
    "{{ messages[0].content._marks }}",
    "{{ messages[0].content._like('x', 'y') }}",
    "{{ messages[0].content._cut(0, 1) }}",
    "{{ messages.append(1) }}",
    "{{ messages.pop() }}",
    "{{ messages.clear() }}",
    "{{ messages.extend([1]) }}",
    "{{ messages.sort() }}",
    "{{ messages.__class__ }}",
    "{{ messages[0].update(role='x') }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages[0].setdefault('a', 1) }}",
    "{{ messages[0].clear() }}",
    "{{ messages[0].__class__ }}",
    "{{ messages[1:].append(1) }}",
    "{{ [].extend([1]) }}",
    "{{ [].__class__ }}",
    "{{ {}.update(a=1) }}",
    "{{ {}.fromkeys('ab') }}",
    "{{ none.__class__ }}",
    "{{ true.__class__ }}",
    "{{ nothing.__class__ }}",
    "{{ nothing._fail_with_undefined_error() }}",
    "{{ environment }}{{ context.environment }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ request.application.__globals__ }}",
    "{{ namespace|attr('__init__')|attr('__globals__') }}",
    "{{ x|map('system')|list }}",
    "{% include '/etc/passwd' %}",
    "{% include ['/etc/passwd', 'a'] ignore missing %}",
    "{% import '/etc/passwd' as p %}",
    "{% from '/etc/passwd' import p %}",
    "{% extends '/etc/passwd' %}",
    "{% autoescape true %}{% endautoescape %}",
    "{% do messages.append(1) %}",
    "{% trans %}a{% endtrans %}",
    "{% debug %}",
    "{{ cycler.__init__.__globals__.os.system('touch " + CANARY + "') }}",
    "{{ ().__class__.__base__.__subclasses__()[0] }}",
)


@pytest.mark.parametrize("template", UNSAFE)
def test_nothing_is_reached(template: str) -> None:
    with pytest.raises(TemplateError) as error:
        render(template, variables={"x": "abc"})
    for part in ("\n", " at 0x", "ggufc."):
        assert part not in str(error.value)
    assert not Path(CANARY).exists()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ ''.__class__ }}", "access to attribute '__class__' of 'str' object is not allowed"),
        ("{{ messages.append }}", "access to attribute 'append' of 'list' object is not allowed"),
        ("{{ (1).to_bytes }}", "access to attribute 'to_bytes' of 'int' object is not allowed"),
        ("{{ [].extend }}", "attribute 'extend' of 'list' object"),
        ("{{ cycler.mro }}", "access to attribute 'mro' of 'type' object is not allowed"),
        ("{{ strftime_now.__call__ }}", "attribute '__call__' of 'function' object"),
    ],
)
def test_what_was_reached_for_is_named(template: str, message: str) -> None:
    with pytest.raises(TemplateSecurityError, match=message.replace("(", r"\(")):
        render(template)


def test_keys_may_have_any_name() -> None:
    """What a request calls its own is data, not an attribute."""
    messages = [{"role": "user", "content": "", "_own": "a", "odd": {"__class__": "b"}}]
    assert text("{{ messages[0]._own }}{{ messages[0].odd['__class__'] }}", messages) == "ab"


def test_a_request_is_not_changed_by_a_template() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": ["a", {"type": "text"}]}]
    before = json.dumps(messages)
    template = "{% set l = [messages[0]] %}{% set _ = l.append(1) %}{{ l.pop(0).content }}{{ l }}"
    assert text(template, messages) == "['a', {'type': 'text'}][1]"
    assert json.dumps(messages) == before


def test_templates_do_not_share_anything() -> None:
    chat = ChatTemplate({"chat_template": "{% set n = namespace(a=[]) %}{% set _ = n.a.append(1) %}"
                         "{% set q = 1 %}{{ n.a }}{{ leftover }}"})  # fmt: skip
    conversation = Conversation([{"role": "user", "content": ""}])
    assert [chat.render(conversation).text for _ in range(3)] == ["[1]"] * 3
    ChatTemplate({"chat_template": "{% set leftover = 1 %}"}).render(conversation)
    assert chat.render(conversation).text == "[1]"


# Every way by which a template gets to be rendered.
ESCAPE = "{{ cycler.__init__.__globals__.os.system('touch " + CANARY + "') }}"


def test_a_template_in_a_model_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="not allowed"):
        imported(vocabulary_file(tmp_path, ESCAPE))
    fine = "{{ messages[0].content }}"
    named = imported(vocabulary_file(tmp_path, fine, **{"chat_template.tool_use": ESCAPE}))
    assert "not allowed" in named.report["templates"]["tool_use"]["user"]
    assert not Path(CANARY).exists()


def test_a_template_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.jinja").write_text(ESCAPE)
    (tmp_path / "m.json").write_text('[{"role": "user", "content": "x"}]')
    code, out, error = run_here(
        capsys, "render", tmp_path / "m.json", "--chat-template", tmp_path / "t.jinja"
    )
    assert (code, out) == (1, "")
    assert_one_line(error, "chat template, line 1", "not allowed")
    assert not Path(CANARY).exists()


def test_a_template_in_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"messages": [{"role": "user", "content": "x"}], "chat_template": ESCAPE}
    (tmp_path / "lines").write_text(json.dumps(line) + "\n" + json.dumps(line))
    code, out, _ = run_here(capsys, "render", "--jsonl", tmp_path / "lines")
    assert code == 0
    for answer in out.splitlines():
        assert json.loads(answer)["error"]["kind"] == "template_security"
    assert not Path(CANARY).exists()


def test_templates_that_were_asked_for_by_name() -> None:
    chat = ChatTemplate({"chat_template": "fine", "odd": ESCAPE})
    with pytest.raises(PromptError, match="not allowed"):
        chat.render(Conversation([{"role": "user", "content": ""}]), "odd")
    assert not Path(CANARY).exists()
