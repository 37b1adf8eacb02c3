"""Reading a list of tokens from left to right, with errors that say what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ggufc.ir.lexer import Token, tokenize

_T = TypeVar("_T")


class TokenStream:
    """A position in the tokens of a text; the base of the parser."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._index = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._next
        self._index += token.kind != "end"
        return token

    def _at(self, text: str) -> bool:
        return self._next.text == text and self._next.kind in ("mark", "word")

    def _accept(self, text: str) -> bool:
        if self._at(text):
            self._index += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        if not self._at(text):
            raise self._next.unexpected(repr(text))
        return self._take()

    def _kind(self, kind: str, expected: str) -> Token:
        if self._next.kind != kind:
            raise self._next.unexpected(expected)
        return self._take()

    def _name(self, sigil: str, expected: str) -> str:
        if not (self._next.kind == "name" and self._next.text.startswith(sigil)):
            raise self._next.unexpected(f"{expected} ({sigil}name)")
        token = self._take()
        return token.string() if token.text[1] == '"' else token.text[1:]

    def _integer(self, expected: str) -> int:
        token = self._kind("number", expected)
        value = number(token)
        if not isinstance(value, int):
            raise token.unexpected(expected)
        return value

    def _list(self, item: Callable[[], _T], end: str) -> list[_T]:
        """Items separated by commas up to the mark `end`, which is taken."""
        items: list[_T] = []
        while not self._accept(end):
            if items:
                self._expect(",")
            items.append(item())
        return items


def number(token: Token) -> int | float:
    """The value of a number token: an int unless it has a point, an exponent or is inf."""
    try:
        return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)
    except ValueError:
        raise token.error("a number of too many digits") from None
