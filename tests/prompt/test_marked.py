"""Marked text: every method gives the characters that `str` gives, each with its own mark.

Letters tell who wrote a character: upper and lower case `abc` are the template's, `xyz` the
request's, in both cases; so marks can be checked by looking at the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggufc.runtime.prompt.marked import Marked, full_marks, joined, marks_of, plain
from ggufc.runtime.prompt.markup import SafeMarked, escaped
from ggufc.runtime.prompt.sources import (
    TEMPLATE,
    UNKNOWN,
    Author,
    SourceTable,
    author_of,
    weakest,
)

REQUEST = SourceTable().add(Author.REQUEST, "messages[0].content")
ASSISTANT = SourceTable().add(Author.ASSISTANT, "messages[1].content")
LETTERS = {**dict.fromkeys("abcABC", TEMPLATE), **dict.fromkeys("xyzXYZ", REQUEST)}


def marked(text: str) -> Marked:
    """A text whose letters say who wrote them; everything else is the template's."""
    return Marked(text, "".join(LETTERS.get(c, TEMPLATE) for c in text) or TEMPLATE)


texts = st.text("abcxyzABCXYZ |<> \n", max_size=12).map(marked)
letters = st.text("abcxyz", min_size=1, max_size=3).map(marked)
numbers = st.integers(-14, 14)

METHODS: list[Callable[[Any, Any, Any, int, int], Any]] = [
    lambda s, o, n, i, j: s + o,
    lambda s, o, n, i, j: s * max(i, 0),
    lambda s, o, n, i, j: s[i:j],
    lambda s, o, n, i, j: s[::-1],
    lambda s, o, n, i, j: s[:: i or 1],
    lambda s, o, n, i, j: s[i] if -len(s) <= i < len(s) else s,
    lambda s, o, n, i, j: s.strip(),
    lambda s, o, n, i, j: s.strip(o),
    lambda s, o, n, i, j: s.lstrip(o),
    lambda s, o, n, i, j: s.rstrip(o),
    lambda s, o, n, i, j: s.removeprefix(s[:2]),
    lambda s, o, n, i, j: s.removesuffix(s[-2:]),
    lambda s, o, n, i, j: list(s),
    lambda s, o, n, i, j: s.split(),
    lambda s, o, n, i, j: s.split(None, i),
    lambda s, o, n, i, j: s.rsplit(None, i),
    lambda s, o, n, i, j: s.split(n),
    lambda s, o, n, i, j: s.split(n, i),
    lambda s, o, n, i, j: s.rsplit(n, i),
    lambda s, o, n, i, j: s.splitlines(),
    lambda s, o, n, i, j: s.splitlines(True),
    lambda s, o, n, i, j: s.partition(n),
    lambda s, o, n, i, j: s.rpartition(n),
    lambda s, o, n, i, j: s.replace(n, o),
    lambda s, o, n, i, j: s.replace(n, o, i),
    lambda s, o, n, i, j: s.replace("", o, i),
    lambda s, o, n, i, j: s.join([o, n, s]),
    lambda s, o, n, i, j: s.join([]),
    lambda s, o, n, i, j: s.join([o]),
    lambda s, o, n, i, j: s.upper(),
    lambda s, o, n, i, j: s.lower(),
    lambda s, o, n, i, j: s.title(),
    lambda s, o, n, i, j: s.capitalize(),
    lambda s, o, n, i, j: s.swapcase(),
    lambda s, o, n, i, j: s.casefold(),
    lambda s, o, n, i, j: s % () if "%" not in s else s,
]


def parts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@pytest.mark.parametrize("method", METHODS, ids=range(len(METHODS)))
@given(text=texts, other=texts, needle=letters, i=numbers, j=numbers)
def test_methods(method: Any, text: Marked, other: Marked, needle: Marked, i: int, j: int) -> None:
    wanted = method(plain(text), plain(other), plain(needle), i, j)
    found = method(text, other, needle, i, j)
    assert type(found) is type(wanted) or isinstance(found, Marked)
    assert parts(found) == parts(wanted)
    for part in parts(found):
        assert isinstance(part, Marked)
        marks = zip(plain(part), full_marks(part), strict=True)
        assert all(LETTERS.get(c, TEMPLATE) == mark for c, mark in marks)


@given(text=texts, fill=st.sampled_from("-x"), width=st.integers(0, 20))
def test_padding_is_no_more_trusted_than_what_it_pads(text: Marked, fill: str, width: int) -> None:
    for found, wanted in (
        (text.center(width, marked(fill)), plain(text).center(width, fill)),
        (text.ljust(width, marked(fill)), plain(text).ljust(width, fill)),
        (text.rjust(width, marked(fill)), plain(text).rjust(width, fill)),
        (text.center(width), plain(text).center(width)),
    ):
        assert plain(found) == wanted
        trusted = weakest(set(full_marks(text) + marks_of(marked(fill))))
        for char, mark in zip(plain(found), full_marks(found), strict=True):
            assert mark in (LETTERS.get(char, TEMPLATE), trusted, weakest(full_marks(text)))
            assert char not in "xyz" or mark == REQUEST


@given(text=texts, width=st.integers(0, 20))
def test_zfill_and_tabs(text: Marked, width: int) -> None:
    assert plain(text.zfill(width)) == plain(text).zfill(width)
    tabbed = text.replace(" ", Marked("\t", TEMPLATE))
    assert plain(tabbed.expandtabs(width)) == plain(tabbed).expandtabs(width)
    for found in (text.zfill(width), tabbed.expandtabs(width)):
        marks = zip(plain(found), full_marks(found), strict=True)
        assert all(mark == REQUEST for char, mark in marks if char in "xyzXYZ")


@pytest.mark.parametrize(
    "method", ["upper", "lower", "title", "capitalize", "swapcase", "casefold"]
)
@pytest.mark.parametrize("text", ["straße", "ﬁn", "İx", "ǆ", "ΑΣ", "ŉ"])
def test_case_that_changes_length(method: str, text: str) -> None:
    half = Marked(text, TEMPLATE) + Marked(text, REQUEST)
    found = getattr(half, method)()
    wanted = getattr(text * 2, method)()
    assert plain(found) == wanted
    same = len(wanted) == 2 * len(text)
    assert marks_of(found) == (marks_of(half) if same else REQUEST)


def test_plain_text_counts_as_the_requests() -> None:
    text = Marked("a", TEMPLATE)
    assert full_marks(text + "b") == TEMPLATE + UNKNOWN
    assert full_marks("b" + text) == UNKNOWN + TEMPLATE
    assert full_marks(text.join(["x", "y"])) == UNKNOWN + TEMPLATE + UNKNOWN
    assert full_marks(text.replace("a", "bb")) == UNKNOWN * 2
    assert full_marks(joined(["x", text])) == UNKNOWN + TEMPLATE
    assert author_of(UNKNOWN) is Author.REQUEST


def test_str_keeps_marks() -> None:
    text = Marked("a", TEMPLATE)
    assert str(text) is text
    assert type(plain(text)) is str


def test_what_plain_strings_refuse() -> None:
    text = Marked("a", TEMPLATE)
    with pytest.raises(TypeError, match=r'can only concatenate str \(not "list"\) to str'):
        text.__add__([])  # type: ignore[operator]
    with pytest.raises(TypeError, match=r'can only concatenate str \(not "int"\) to str'):
        text + 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="expected str instance, int found"):
        text.join([1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="empty separator"):
        text.split("")
    with pytest.raises(TypeError):
        text.format(1)


def test_translate() -> None:
    text = marked("axb")
    found = text.translate({ord("a"): None, ord("b"): marked("xy")})
    assert plain(found) == "xxy"
    assert set(full_marks(found)) == {REQUEST}


def test_weakest() -> None:
    assert weakest([TEMPLATE, ASSISTANT, REQUEST]) == REQUEST
    assert weakest([TEMPLATE, ASSISTANT]) == ASSISTANT
    assert weakest([TEMPLATE, UNKNOWN, ASSISTANT]) == UNKNOWN
    assert weakest([]) == TEMPLATE


def test_sources_run_out_of_marks() -> None:
    table = SourceTable()
    table._next[Author.REQUEST] = 0x10FFFE
    last = table.add(Author.REQUEST, "last", "t")
    assert table[last].path == "last"
    assert table.add(Author.REQUEST, "one more") == UNKNOWN


@given(text=texts, other=texts)
def test_safe_text_escapes_what_meets_it(text: Marked, other: Marked) -> None:
    from markupsafe import Markup, escape

    safe, reference = SafeMarked(plain(text), marks_of(text)), Markup(plain(text))
    pairs: list[tuple[Any, Any]] = [
        (safe + other, reference + plain(other)),
        (other + safe, plain(other) + reference),
        (safe * 2, reference * 2),
        (safe.join([other, safe]), reference.join([plain(other), reference])),
        (safe.replace("a", other), reference.replace("a", plain(other))),
        (safe.upper() + other, reference.upper() + plain(other)),
        (safe[1:] + other, reference[1:] + plain(other)),
        (escaped(other), escape(plain(other))),
    ]
    for found, wanted in pairs:
        assert isinstance(found, SafeMarked)
        assert plain(found) == str(wanted)
    assert type(str(safe)) is Marked
    for char in safe:
        assert type(char) is Marked
