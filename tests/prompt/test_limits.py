"""What one rendering may use: steps, text, memory, nesting, time. All errors, no timings."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import pytest

from ggufc.runtime.prompt import ChatTemplate, Conversation, PromptError
from ggufc.runtime.prompt.errors import RequestError, TemplateLimitError, TemplateSyntaxError
from ggufc.runtime.prompt.limits import DEFAULT_LIMITS, Limits
from tests.support.prompts import render, text
from tests.support.shared import ROOT

SMALL = Limits(steps=50_000, memory=16_000_000, output=500_000)

SHARED_LISTS = (
    "{% set n = namespace(a=[0], b=[0]) %}{% for i in range(60) %}"
    "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}"
)
SHARED_TUPLES = (
    "{% set n = namespace(t=(0,)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}"
)
DEEP_TUPLES = (
    "{% set n = namespace(t=(0,)) %}{% for i in range(9000) %}{% set n.t = (n.t,) %}{% endfor %}"
)
DEEP_LISTS = DEEP_TUPLES.replace("(n.t,)", "[n.t]")

BOMBS = (
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(10**30) %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{{ i }}{% endfor %}",
    "{% set n = namespace(t='ab') %}{% for i in range(34) %}{% set n.t = n.t + n.t %}{% endfor %}",
    "{% set n = namespace(t='ab') %}{% for i in range(34) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
    "{% set n = namespace(t=[0]) %}{% for i in range(50) %}{% set n.t = n.t + n.t %}{% endfor %}",
    "{% set n = namespace(i=3) %}{% for i in range(60) %}{% set n.i = n.i * n.i %}{% endfor %}",
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * 'x' }}",
    "{{ [0] * 10**10 }}",
    "{{ (0,) * 10**10 }}",
    "{{ 10**(10**8) }}",
    "{{ 2**100000 }}",
    "{{ (10**600) * (10**700) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%-1000000000s' % 'a' }}",
    "{{ '%.1000000000f' % 1.0 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%.*f' % (1000000000, 1.5) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:>{w}}'.format('a', w=1000000000) }}",
    "{{ '{:.1000000000f}'.format(1.0) }}",
    "{{ '{a:>1000000000}'.format_map({'a': 1}) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.rjust(10**9) }}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ 'a'|center(10**9) }}",
    "{{ 'a\nb'|indent(10**9) }}",
    "{{ ('a\n' * 1000)|indent(60000) }}",
    "{{ 'a b'|wordwrap(10**9) }}",
    "{{ ('a' * 100000)|urlize }}",
    "{{ ('a' * 90000)|replace('', 'b' * 90000) }}",
    "{{ ('a' * 90000).replace('a', 'b' * 90000) }}",
    "{{ ('a' * 90000).translate({97: 'b' * 90000}) }}",
    "{{ ('b' * 90000).join(('a' * 20000)|list) }}",
    "{{ ('a' * 20000)|join('b' * 90000) }}",
    "{{ ('a ' * 90000).split()|length }}",
    "{{ ('f' * 10000)|int(0, 16) }}",
    "{{ 'a'|batch(10**9, 'x')|list }}",
    "{{ [1]|slice(10**9)|list }}",
    "{{ [1]|slice(60000)|map('list')|list|length }}{% for i in range(99999) %}{% endfor %}",
    "{{ {'a': 1}|tojson(indent=10**9) }}",
    "{{ {'a': 1}|tojson(indent='x' * 100000) }}",
    "{{ strftime_now('%Y' * 1000) }}",
    "{% for i in range(99999) %}{{ range(99999)|sum }}{% endfor %}",
    "{% for i in range(99999) %}{{ range(99999)|list|length }}{% endfor %}",
    "{% for i in range(99999) %}{{ range(99999)|map('string')|join|length }}{% endfor %}",
    "{% for i in range(99999) %}{{ range(99999)|select('odd')|first }}{% endfor %}",
    "{% for i in range(99999) %}{{ 'b' in 'a' * 400000 }}{% endfor %}",
    "{% for i in range(99999) %}{{ ('a' * 400000).count('b') }}{% endfor %}",
    "{% for c in 'a' * 400000 %}{% endfor %}",
    "{{ ('a' * 400000)|list|length }}",
    "{{ ('a' * 400000)|batch(60000)|list|length }}",
    "{{ ('a ' * 200000)|title|length }}",
    "{% for i in range(9999) %}{{ ('a' * 400000)|first }}{% endfor %}",
    "{% for i in range(9999) %}{{ ('a' * 400000)|trim|length }}{% endfor %}",
    "{% for i in range(9999) %}{{ ('a' * 400000) is lower }}{% endfor %}",
    "{% for i in range(9999) %}{{ ('<' * 50000)|e|length }}{% endfor %}",
    "{{ (messages[0].content ~ '<' * 90000)|e|length }}{% for i in range(99999) %}{% endfor %}",
    "{{ ('[' ~ '1,' * 200000 ~ '1]')|from_json|length }}",
    "{% set x %}{% for i in range(2000) %}{{ 'a' * 1000 }}{% endfor %}{% endset %}",
    "{% for i in range(2000) %}{{ 'a' * 1000 }}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ m(varargs, varargs) }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}"
    "{% call m() %}{% endcall %}",
    "{% for i in [[[1]]] recursive %}{{ loop([[[1]]]) }}{% endfor %}",
    "{% set n = namespace() %}{% set n.s = n %}{{ n }}",
    "{% block b %}{{ self.b() }}{% endblock %}",
    SHARED_LISTS + "{{ n.a }}",
    SHARED_LISTS + "{{ n.a|string }}",
    SHARED_LISTS + "{{ n.a ~ '' }}",
    SHARED_LISTS + "{{ n.a|tojson }}",
    SHARED_LISTS + "{{ n.a|pprint }}",
    SHARED_LISTS + "{{ n.a == n.b }}",
    SHARED_LISTS + "{{ n.a < n.b }}",
    SHARED_LISTS + "{{ n.a in [n.b] }}",
    SHARED_LISTS + "{{ [n.a].index(n.b) }}",
    SHARED_LISTS + "{{ [n.a].count(n.b) }}",
    SHARED_LISTS + "{{ [n.a, n.b]|sort }}",
    SHARED_LISTS + "{{ [n.a, n.b]|map('list')|sort }}",
    SHARED_LISTS + "{{ [n.a, n.b]|map('list')|max }}",
    SHARED_LISTS + "{{ [n.a]|select('equalto', n.b)|list }}",
    SHARED_LISTS + "{{ n.a is eq n.b }}",
    SHARED_LISTS + "{{ n.a is in [n.b] }}",
    SHARED_LISTS + "{{ [{'k': n.a}, {'k': n.b}]|sort(attribute='k') }}",
    SHARED_LISTS + "{{ [{'k': n.a}, {'k': n.b}]|groupby('k') }}",
    SHARED_LISTS + "{% for i in [1, 2] %}{{ loop.changed(n.a if i == 1 else n.b) }}{% endfor %}",
    SHARED_LISTS + "{{ n }}",
    SHARED_LISTS + "{{ raise_exception(n.a) }}",
    SHARED_TUPLES + "{{ {n.t: 1} }}",
    SHARED_TUPLES + "{{ {}[n.t] }}",
    SHARED_TUPLES + "{{ {}.get(n.t) }}",
    SHARED_TUPLES + "{{ n.t in {} }}",
    SHARED_TUPLES + "{{ dict([(n.t, 1)]) }}",
    SHARED_TUPLES + "{{ dict([[n.t, 1]]|map('list')) }}",
    SHARED_TUPLES + "{{ dict.fromkeys([n.t]) }}",
    SHARED_TUPLES + "{{ [n.t]|unique|list }}",
    SHARED_TUPLES + "{{ [n.t]|map('list')|map('first')|unique|list }}",
    SHARED_TUPLES + "{{ '%s' % (n.t,) }}",
    SHARED_TUPLES + "{{ '%r' % (n.t,) }}",
    SHARED_TUPLES + "{{ '{}'.format(n.t) }}",
    SHARED_TUPLES + "{{ '{!r:>5}'.format(n.t) }}",
    SHARED_TUPLES + "{{ [n.t]|join }}",
    SHARED_TUPLES + "{{ n.t|upper }}",
    SHARED_TUPLES + "{{ n.t is lower }}",
    SHARED_TUPLES + "{{ n.t is filter }}",
    SHARED_TUPLES + "{{ n.t is test }}",
    SHARED_TUPLES + "{{ 5|round(0, n.t) }}",
    SHARED_TUPLES + "{{ [1]|map(n.t)|list }}",
    SHARED_TUPLES + "{{ [1]|select(n.t)|list }}",
    SHARED_TUPLES + "{{ [{}]|map(attribute=n.t)|list }}",
    SHARED_TUPLES + "{{ {}|dictsort(by=n.t) }}",
    SHARED_TUPLES + "{{ n.t is eq(n.t[0]) }}",
    SHARED_TUPLES + "{{ {1: n.t} == {1: n.t[0]} }}",
    SHARED_TUPLES + "{{ namespace({n.t: 1}) }}",
    DEEP_TUPLES + "{{ {n.t: 1} }}",
    DEEP_TUPLES + "{{ [1]|map(n.t)|list }}",
    DEEP_TUPLES + "{{ n.t is filter }}",
    DEEP_TUPLES + "{{ n.t in {} }}",
    DEEP_TUPLES + "{{ {}.get(n.t) }}",
    DEEP_TUPLES + "{{ n.t == n.t[0] }}",
    DEEP_TUPLES + "{{ n.t }}",
    DEEP_TUPLES + "{{ [n.t]|unique|list }}",
    DEEP_LISTS + "{{ n.t|tojson }}",
    DEEP_LISTS + "{{ n.t|string|length }}",
    DEEP_LISTS + "{{ n.t == [n.t] }}",
)


@pytest.mark.parametrize("template", BOMBS)
def test_bombs(template: str) -> None:
    with pytest.raises(TemplateLimitError) as error:
        render(template, limits=SMALL)
    assert "\n" not in str(error.value)


def test_bombs_do_not_go_off_at_the_normal_limits_either() -> None:
    """In a process that may not take much memory: each ends, most of them with an error."""
    program = (
        "import sys; from tests.prompt.test_limits import *\n"
        "for template in BOMBS[int(sys.argv[1])::int(sys.argv[2])]:\n"
        "    try: render(template)\n"
        "    except PromptError: pass\n"
    )

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = subprocess.run(
        [sys.executable, "-c", program, "3", "6"],
        cwd=ROOT,
        capture_output=True,
        preexec_fn=set_limit,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


HEAVY_SOURCES = {
    "if blocks": "{% if x %}" * 9000,
    "parentheses": "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}",
    "lists": "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "signs": "{{ " + "-" * 9000 + "1 }}",
    "not": "{{ " + "not " * 9000 + "1 }}",
    "sums": "{{ 1" + "+1" * 9000 + " }}",
    "attributes": "{{ x" + ".a" * 9000 + " }}",
    "filters": "{{ x" + "|upper" * 9000 + " }}",
    "loops": "{% for x in y %}" * 30 + "{% endfor %}" * 30,
    "conditions": "{{ " + "1 if 1 else " * 2000 + "1 }}",
    "dictionaries": "{{ " + "{1:" * 2000 + "1" + "}" * 2000 + " }}",
    "subscripts": "{{ " + "x[" * 2000 + "1" + "]" * 2000 + " }}",
    "set blocks": "{% set x %}" * 2000 + "{% endset %}" * 2000,
    "call blocks": "{% call x() %}" * 2000 + "{% endcall %}" * 2000,
    "digits": "{{ " + "1" * 9000 + " }}",
    "too long": "x" * (DEFAULT_LIMITS.template + 1),
}


@pytest.mark.parametrize("name", HEAVY_SOURCES)
def test_sources_that_no_compiler_should_take(name: str) -> None:
    with pytest.raises((TemplateLimitError, TemplateSyntaxError)) as error:
        render(HEAVY_SOURCES[name])
    assert "\n" not in str(error.value)


def test_nothing_is_computed_while_a_template_is_compiled() -> None:
    """jinja2 folds constants; ours waits for the limits of a rendering."""
    for folded in ("'x' * 10**9", "2**(10**8)", "'a'|center(10**9)", "['a'] * 10**9"):
        never = "{% if false %}{{ " + folded + " }}{% set x = " + folded + " %}{% endif %}ok"
        assert text(never) == "ok"


def test_messages_name_the_limit() -> None:
    for template, limits, message in (
        ("{% for i in range(999) %}{% endfor %}", Limits(steps=50), "takes more than .* steps"),
        ("{{ 'a' * 11 }}", Limits(output=10), "string of 11 characters, allowed are 10"),
        ("{{ 'a' * 6 }}{{ 'a' * 6 }}", Limits(output=10), "writes more than 10 characters"),
        ("{{ 'a' * 999 }}", Limits(memory=1000), "values of more than 1000 bytes"),
        (
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            Limits(depth=5),
            "calls .* than 5 deep",
        ),
        ("{{ 1 }}", Limits(template=3), "has 7 characters, allowed are 3"),
        ("{% for i in range(99999) %}{% endfor %}", Limits(seconds=0), "more than .* seconds"),
    ):
        with pytest.raises(TemplateLimitError, match=message):
            render(template, limits=limits)


def test_a_long_conversation_may_take_longer() -> None:
    template = "{% for m in messages %}{{ m.role }}: {{ m.content|trim }}\n{% endfor %}"
    messages = [{"role": "user", "content": "x" * 100} for _ in range(3000)]
    limits = Limits(steps=1000)
    assert len(render(template, messages, limits=limits).text) == 3000 * 107
    with pytest.raises(TemplateLimitError):
        render("{% for i in range(3000) %}{{ i }}{{ i }}{% endfor %}", limits=limits)


def test_an_error_ends_one_request_only() -> None:
    chat = ChatTemplate({"chat_template": "{{ 'x' * messages[0].n }}"})
    bad = Conversation([{"role": "user", "n": 10**9}])
    good = Conversation([{"role": "user", "n": 3}])
    for _ in range(2):
        with pytest.raises(TemplateLimitError):
            chat.render(bad)
        assert chat.render(good).text == "xxx"


@pytest.mark.parametrize("kind", ["list", "object"])
def test_requests_may_not_be_nested_deeply(kind: str) -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value] if kind == "list" else {"a": value}
    with pytest.raises(RequestError, match="nested more than 128 deep"):
        render("{{ messages }}", [{"role": "user", "content": value}])


def test_json_text_may_not_be_nested_deeply() -> None:
    with pytest.raises(PromptError, match="nested"):
        render("{{ ('[' * 9000 + ']' * 9000)|from_json }}")
    with pytest.raises(PromptError, match="nested more than 128 deep"):
        render("{{ ('[' * 200 + ']' * 200)|from_json }}")


def test_numbers_of_a_request_are_bounded() -> None:
    with pytest.raises(RequestError, match="an integer of 5001 bits"):
        render("{{ messages }}", [{"role": "user", "content": 2**5000}])


def test_the_limits_let_real_work_through() -> None:
    assert text("{{ range(100000)|list|length }}") == "100000"
    assert len(text("{{ 'a' * 5000000 }}")) == 5_000_000
    assert text("{{ 2**1000 }}") == str(2**1000)
    assert text("{{ 'a'.ljust(60000)|length }}") == "60000"
    nested = "{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}"
    assert text(nested).endswith("210")
