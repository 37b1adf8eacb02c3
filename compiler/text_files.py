"""Text that the compiler writes for people to read."""

from pathlib import Path

from ggufc.compiler.errors import CompileError, shown


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders it lies in. Raises CompileError that names the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        place = shown(str(error.filename or path), 400)
        raise CompileError(f"{place}: cannot write: {error.strerror}") from None
