"""Text of the IR -> tokens, each with its line and column."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ggufc.ir.errors import ParseError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<name>[%@$](?:[A-Za-z0-9_./-]+|"(?:[^"\\\n]|\\.)*"))
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>-?(?:inf\b|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
  | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<mark><=|[{}()\[\]:,=])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """`kind` is name, string, number, word, mark or end; `text` as it stands in the source."""

    kind: str
    text: str
    line: int
    column: int

    def error(self, message: str) -> ParseError:
        """A ParseError at this token."""
        return ParseError(self.line, self.column, message)

    def unexpected(self, expected: str) -> ParseError:
        """A ParseError that says what was expected here and what was found."""
        found = "the end of the text" if self.kind == "end" else _shortened(self.text)
        return self.error(f"expected {expected}, found {found}")

    def string(self) -> str:
        """The text that a string token (or the quoted part of a name) stands for."""
        try:
            value = json.loads(self.text[self.text.index('"') :])
        except ValueError as error:
            raise self.error(f"bad string: {error}") from None
        return str(value)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def tokenize(text: str) -> list[Token]:
    """All tokens, then one of kind `end`; a ParseError at a character that starts none."""
    tokens = []
    offset, line, line_start = 0, 1, 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        column = offset - line_start + 1
        if match is None or match.lastgroup is None:
            raise ParseError(line, column, f"unexpected character {text[offset]!r}")
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match[0], line, column))
        newlines = match[0].count("\n")
        if newlines:
            line += newlines
            line_start = offset + match[0].rindex("\n") + 1
        offset = match.end()
    tokens.append(Token("end", "", line, offset - line_start + 1))
    return tokens
