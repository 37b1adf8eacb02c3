"""Errors of the compiler: every message is one line that says what, where, the value found and
those allowed."""


class CompileError(Exception):
    """A model that cannot be compiled; the base of every error that the compiler raises on
    purpose."""


class OptionError(CompileError):
    """An option with a value that it may not have: wrong usage, not a fault of a model."""

    is_usage = True


class GGUFError(CompileError):
    """A GGUF file that is damaged, incomplete, or of an unknown format."""


class ModelError(CompileError):
    """A readable file whose model is not supported, contradicts itself, or lacks something."""


def shown(text: str, limit: int = 80) -> str:
    """`text`, which may come from a hostile file, as printable characters of one line, cut to
    `limit`."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def quoted(text: str, limit: int = 80) -> str:
    """`text` as `shown`, between single quotes."""
    return f"'{shown(text, limit)}'"


def listing(names: list[str], limit: int = 8) -> str:
    """The first `limit` of `names`, and how many more there are."""
    first = ", ".join(shown(name) for name in names[:limit])
    more = len(names) - limit
    return first if more <= 0 else f"{first} and {more} more"
