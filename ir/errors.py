"""Exceptions of the IR. Every message is one line: what, where, what was found, what is allowed."""

from __future__ import annotations


class IRError(Exception):
    """Base of every error that this package raises on purpose."""


class VerifyError(IRError):
    """A module breaks a rule of the IR; the message names function, op and operand."""


class OperandError(VerifyError):
    """One operand, attribute or result of an op is wrong; `part` says which (`operand 'x'`)."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(f"{part}: {message}")
        self.part = part


class ParseError(IRError):
    """Text that is not IR; carries the 1-based `line` and `column` of the offending token."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class RewriteError(IRError):
    """A rewrite would leave a value without definition or does not come to an end."""
