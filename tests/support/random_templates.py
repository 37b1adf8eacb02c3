"""Random chat templates over the constructs that real ones use, and random conversations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

CHANGES = (
    "{x}", "{x}|trim", "{x}.strip()", "{x}.lstrip('\\n')", "{x}.rstrip()", "{x}|upper",
    "{x}|lower", "{x}|capitalize", "{x}|title", "{x}.title()", "{x}.swapcase()",
    "{x}|replace('a', '')", "{x}.replace('X', '')", "{x}|replace('[', '<')",
    "{x}|replace('n', '<|', 1)", "{x}.replace('', '-', 3)", "{x}.split('</think>')[-1]",
    "{x}.split('</think>')[0].split('<think>')[-1]", "{x}.split('|')|join('|')",
    "'|'.join({x}.split('X'))", "''.join({x}.split())", "{x}.split(' ', 1)[-1]",
    "{x}.rsplit('m', 1)[0]", "{x}.splitlines()|join('\\n')", "{x}[1:]", "{x}[:-1]", "{x}[::-1]",
    "{x}[2:9]", "{x}[:4] + {x}[4:]", "({x}) * 2", "{x} ~ ''", "'' ~ {x} ~ '|>'", "'<|' + {x}",
    "{x} + '|>'", "'%s' % {x}", "'%s|%s' % ({x}, 'q')", "'%5s.' % {x}", "'[%s]'|format({x})",
    "'{{}}'.format({x})", "'{{0}}{{0}}'.format({x})", "'{{a}}'.format(a={x})",
    "'{{:>4}}'.format({x})",
    "{x}|tojson", "{x}|tojson|trim('\"')", "[{x}, {x}]|tojson", "{{'k': {x}}}|tojson", "{x}|string",
    "[{x}]|string", "{x}|indent(2)", "{x}|indent(2, true)", "{x}|default('d')", "{x}|list|join",
    "{x}|list|reverse|join", "{x}|first", "{x}|last", "{x}|length|string", "[{x}]|first",
    "({x}).partition('|')|join", "{x}.center(9)", "{x}.ljust(6, '|')", "{x}.zfill(5)",
    "{x} if {x} else 'none'", "({x}, {x})|join('')", "{x}|e", "{x}|safe", "({x}|safe)|string",
    "{x}.removeprefix('<')", "{x}.removesuffix('>')", "{x}|truncate(12)", "{x}|reverse",
    "[{x}, 'b']|sort|join", "[{x}, {x}]|unique|join", "[{x}]|map('upper')|join",
    "{x}|replace('<', '<<')|replace('<<', '<')", "{x}.casefold()", "{x}.expandtabs(4)",
    "{{{x}: 1}}|list|first", "{{{x}: {x}}}.items()|list|string", "dict(a={x}).a", "{x}|wordcount",
    "({x}|safe) + '<'", "('<'|e) ~ {x}", "{x}|batch(2)|map('join')|join", "{x}|int",
    "{x}|center(20)",
)  # fmt: skip
WRAPPERS = (
    "{{% set v = {e} %}}{{{{ v }}}}",
    "{{% set v %}}{{{{ {e} }}}}{{% endset %}}{{{{ v|trim }}}}",
    "{{% set ns.t = ns.t + ({e})|string %}}",
    "{{% set ns.t = ns.t ~ ({e}) %}}{{{{ ns.t }}}}",
    "{{% if {e} %}}{{{{ {e} }}}}{{% else %}}none{{% endif %}}",
    "{{{{ wrap({e}) }}}}",
    "{{% call box() %}}{{{{ {e} }}}}{{% endcall %}}",
    "{{% filter trim %}} {{{{ {e} }}}} {{% endfilter %}}",
    "{{% for c in ({e})|string %}}{{{{ c }}}}{{% endfor %}}",
    "{{% generation %}}{{{{ {e} }}}}{{% endgeneration %}}",
    "{{% set d = {{'k': {e}}} %}}{{% for k, w in d.items() %}}{{{{ k ~ w }}}}{{% endfor %}}",
    "{{{{- {e} -}}}}",
)  # fmt: skip
PRELUDE = (
    "{% set ns = namespace(t='') %}"
    "{% macro wrap(x, y='') %}{{ x }}{{ y }}{% endmacro %}"
    "{% macro box() %}[{{ caller() }}]{% endmacro %}"
)


def expression(rng: random.Random, atom: str) -> str:
    """An expression over one string."""
    made = atom
    for _ in range(rng.randint(0, 2)):
        made = "(" + rng.choice(CHANGES).format(x=f"(({made})|string)") + ")"
    return made


def statement(rng: random.Random, atom: str) -> str:
    """Something that writes, or keeps, an expression."""
    made = expression(rng, atom)
    if rng.random() < 0.5:
        return "{{ " + made + " }}"
    return rng.choice(WRAPPERS).format(e=made)


def random_template(rng: random.Random, opening: str, closing: str) -> str:
    """A template with control tokens of its own around what it makes of each message."""
    body = "".join(
        statement(rng, rng.choice(("m.content", "m['content']", "m.role", "m.name|default('')")))
        for _ in range(rng.randint(1, 3))
    )
    turn = "{{ '" + opening + "' + m.role }}\n" + body + "{{ '" + closing + "' }}\n"
    loop = rng.choice(("messages", "messages[::-1]", "messages[1:]", "messages|reverse"))
    condition = rng.choice(("", "", " if m.content", " if not loop.first"))
    condition = "" if "loop" in condition else condition
    tail = rng.choice(
        ("{{ ns.t }}", "{{ tools|tojson }}", "{{ messages|map(attribute='content')|join('|') }}",
         "{{ messages|string }}", "{{ tools }}", "{{ messages|tojson(indent=2) }}",
         "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join }}", "")
    )  # fmt: skip
    opened = "{% if add_generation_prompt %}{{ '" + opening + "assistant\n' }}{% endif %}"
    return PRELUDE + f"{{% for m in {loop}{condition} %}}{turn}{{% endfor %}}{tail}{opened}"


def random_content(rng: random.Random, pieces: Sequence[str]) -> str:
    """A text of some pieces."""
    return "".join(rng.choice(pieces) for _ in range(rng.randint(0, 6)))


def random_conversation(
    rng: random.Random, pieces: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Messages and perhaps tools, all strings made of `pieces`."""
    messages: list[dict[str, Any]] = []
    for _ in range(rng.randint(1, 3)):
        role = rng.choice(("user", "assistant", "system", "tool", random_content(rng, pieces)))
        message: dict[str, Any] = {"role": role, "content": random_content(rng, pieces)}
        if rng.random() < 0.3:
            message["name"] = random_content(rng, pieces)
        messages.append(message)
    parameters = {random_content(rng, pieces): {"type": random_content(rng, pieces)}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    return messages, [tool] if rng.random() < 0.5 else None
