"""The filters of templates: jinja2's, those on text written anew to keep marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import filters as jinja
from jinja2.exceptions import FilterArgumentError
from jinja2.runtime import Undefined
from jinja2.utils import pass_environment

from ggufc.runtime.prompt.emitted import TemplateList
from ggufc.runtime.prompt.guards import Function, guarded, listed, small
from ggufc.runtime.prompt.limits import charge_items, charge_text, check_padding
from ggufc.runtime.prompt.marked import Marked, joined, marks_of, plain
from ggufc.runtime.prompt.markup import SafeMarked, escaped
from ggufc.runtime.prompt.operators import binary, iterate
from ggufc.runtime.prompt.sources import TEMPLATE
from ggufc.runtime.prompt.values import JsonText, parse_json, survey, text_of

EMPTY = Marked("", TEMPLATE)
NEWLINE = Marked("\n", TEMPLATE)
_WORD_STARTS = re.compile(r"([-\s({\[<]+)")


def soft_text(value: Any) -> Marked:
    """The text of a value; what is text already stays as safe as it is."""
    return value if isinstance(value, Marked) else text_of(value)


@pass_environment
def join(environment: Any, value: Any, d: Any = EMPTY, attribute: Any = None) -> Marked:
    """The texts of all items, with `d` between them."""
    items = iterate(value)
    if attribute is not None:
        getter = jinja.make_attrgetter(environment, attribute)
        items = map(getter, items)
    return text_of(d).join(text_of(item) for item in items)


def replace(value: Any, old: Any, new: Any, count: int | None = None) -> Marked:
    """Every `old` replaced by `new`, the first `count` only if that is given."""
    limit = -1 if count is None else count
    return text_of(value).replace(text_of(old), text_of(new), limit)


def upper(value: Any) -> Marked:
    """Upper case."""
    return soft_text(value).upper()


def lower(value: Any) -> Marked:
    """Lower case."""
    return soft_text(value).lower()


def capitalize(value: Any) -> Marked:
    """The first character in upper case, the others in lower case."""
    return soft_text(value).capitalize()


def title(value: Any) -> Marked:
    """Each word begins in upper case."""
    text = soft_text(value)
    charge_items(4 * len(text))
    words, position = [], 0
    for piece in _WORD_STARTS.split(plain(text)):
        word = text[position : position + len(piece)]
        words += [word[:1].upper(), word[1:].lower()]
        position += len(piece)
    return joined(words)


def trim(value: Any, chars: str | None = None) -> Marked:
    """Without white space (or `chars`) at both ends."""
    return soft_text(value).strip(chars)


def center(value: Any, width: int = 80) -> Marked:
    """In the middle of `width` characters."""
    return soft_text(value).center(width)


def percent(value: Any, *args: Any, **kwargs: Any) -> Marked:
    """`value % args`."""
    if args and kwargs:
        raise FilterArgumentError("can't handle positional and keyword arguments at the same time")
    return soft_text(value) % (kwargs or args)


def indent(value: str, width: int | str = 4, first: bool = False, blank: bool = False) -> Marked:
    """Every line but the first moved to the right; empty ones only if `blank`."""
    if not isinstance(value, str):
        value + NEWLINE  # fails as the reference does
    text = soft_text(value)
    if isinstance(width, str):
        indention = text._operand(soft_text(width))
    else:
        check_padding(width)
        indention = Marked(" " * width, TEMPLATE)
    lines = (text + NEWLINE).splitlines()
    pieces: list[str] = [indention] if first else []
    for number, line in enumerate(lines):
        if number:
            pieces += [NEWLINE, indention] if line or blank else [NEWLINE]
        pieces.append(line)
    whole = joined(pieces)
    return text._like(plain(whole), marks_of(whole))


def reverse(value: Any) -> Any:
    """A text or sequence from its end."""
    if isinstance(value, str):
        return soft_text(value)[::-1]
    return jinja.do_reverse(value)


def mark_safe(value: Any) -> SafeMarked:
    """A text that is escaped already."""
    text = text_of(value)
    return SafeMarked(plain(text), text._marks)


def escape(value: Any) -> SafeMarked:
    """The text with HTML's five characters replaced, unless it is safe."""
    return escaped(soft_text(value))


def force_escape(value: Any) -> SafeMarked:
    """The text with HTML's five characters replaced, even if it is safe."""
    return escaped(text_of(value))


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The pairs of a mapping; none of what is undefined."""
    if isinstance(value, Undefined):
        return
    if isinstance(value, JsonText):
        value = value.mapping()
    if not isinstance(value, Mapping):
        raise TypeError("Can only get item pairs from a mapping.")
    yield from value.items()


def dictsort(value: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
    """The pairs of a mapping in order."""
    mapping = value.mapping() if isinstance(value, JsonText) else value
    return jinja.do_dictsort(mapping, *args, **kwargs)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> Marked:
    """A value as JSON, as `json.dumps` writes it; marked as a whole."""
    mark = survey(value)
    step = len(indent) if isinstance(indent, str) else indent or 0
    check_padding(64 * step)
    text = json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=plain(indent) if isinstance(indent, str) else indent,
        separators=separators and tuple(plain(part) for part in separators),
        sort_keys=sort_keys,
    )
    charge_text(len(text))
    return Marked(text, mark)


def from_json(value: str) -> Any:
    """JSON text as a value. transformers has no such filter; templates that ask for it mean
    this."""
    if not isinstance(value, str):
        raise TypeError(f"from_json expects a string, not {type(value).__name__}")
    return parse_json(value)


def to_list(value: Any) -> TemplateList:
    """The items of anything that has some."""
    source = iterate(value)
    return TemplateList(source)


@pass_environment
def total(environment: Any, values: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of numbers, or of lists if `start` is one."""
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    items = iterate(values)
    if attribute is not None:
        items = map(jinja.make_attrgetter(environment, attribute), items)
    for item in items:
        start = binary("+", start, item)
    return start


def to_int(value: Any, default: int = 0, base: int = 10) -> Any:
    """A whole number, or `default`."""
    return jinja.do_int(plain(value) if isinstance(value, str) else value, default, base)


def round_number(value: Any, precision: int = 0, method: Any = "common") -> Any:
    """A rounded number; the precision is bounded, since powers of ten are computed for it."""
    if isinstance(precision, int) and not -400 <= precision <= 400:
        raise ValueError(f"round: precision {precision} is not between -400 and 400")
    return jinja.do_round(value, precision, method)


@pass_environment
def attribute_of(environment: Any, value: Any, name: Any) -> Any:
    """An attribute by its name."""
    if not isinstance(name, str):
        raise TypeError(f"attribute name must be a string, not {type(name).__name__}")
    return jinja.do_attr(environment, value, name)


def length(value: Any) -> int:
    """The number of items."""
    return len(value)


def truncate(environment: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """A text cut to a length, with dots at its end."""
    ends = {"end": Marked("...", TEMPLATE)} if len(args) < 3 else {}
    return jinja.do_truncate(environment, soft_text(value), *args, **{**ends, **kwargs})


def _table() -> dict[str, Function]:
    own: dict[str, Function] = {
        "capitalize": capitalize, "center": center, "e": escape, "escape": escape,
        "forceescape": force_escape, "format": percent, "from_json": from_json,
        "indent": indent, "items": items, "join": join, "lower": lower, "replace": replace,
        "reverse": reverse, "safe": mark_safe, "string": soft_text, "title": title,
        "tojson": tojson, "trim": trim, "truncate": pass_environment(truncate), "upper": upper,
    }  # fmt: skip
    shallow: dict[str, Function] = {
        "attr": attribute_of, "batch": small(jinja.do_batch), "count": length,
        "d": jinja.do_default, "default": jinja.do_default, "first": jinja.sync_do_first,
        "last": jinja.do_last, "length": length, "list": to_list, "map": jinja.sync_do_map,
        "reject": jinja.sync_do_reject, "rejectattr": jinja.sync_do_rejectattr,
        "select": jinja.sync_do_select, "selectattr": jinja.sync_do_selectattr,
        "slice": small(jinja.sync_do_slice),
    }  # fmt: skip
    comparing: dict[str, Function] = {
        "groupby": jinja.sync_do_groupby, "sort": jinja.do_sort, "unique": jinja.sync_do_unique,
    }  # fmt: skip
    numbers: dict[str, Function] = {
        "abs": abs, "float": jinja.do_float, "int": to_int, "max": jinja.do_max,
        "min": jinja.do_min, "round": round_number, "sum": total,
    }  # fmt: skip
    rare: dict[str, Function] = {
        "filesizeformat": jinja.do_filesizeformat, "pprint": jinja.do_pprint,
        "random": jinja.do_random, "striptags": jinja.do_striptags,
        "urlencode": jinja.do_urlencode, "urlize": jinja.do_urlize,
        "wordcount": jinja.do_wordcount, "wordwrap": jinja.do_wordwrap,
        "xmlattr": jinja.do_xmlattr,
    }  # fmt: skip
    return {
        **{name: guarded(function) for name, function in {**own, **shallow}.items()},
        "dictsort": guarded(dictsort, deep=True),
        **{name: listed(guarded(f, deep=True)) for name, f in comparing.items()},
        **{name: listed(guarded(f, deep=True, number=True)) for name, f in numbers.items()},
        **{name: small(guarded(f, deep=True)) for name, f in rare.items()},
    }


FILTERS = _table()
