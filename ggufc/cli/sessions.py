"""`--session FILE`: what a command evaluated is kept in a file, and there the next time."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.runtime.errors import SessionFileError

if TYPE_CHECKING:
    from ggufc.runtime.model import Model
    from ggufc.runtime.session import Session

ROLES = ("system", "user", "assistant")
Messages = list[dict[str, Any]]


@dataclass
class Kept:
    """The session to work in, None where any will do, and the conversation that was held in it."""

    session: "Session | None" = None
    messages: Messages = field(default_factory=list)


def add_session_argument(parser: argparse.ArgumentParser, help: str) -> None:
    """Declare `--session`."""
    parser.add_argument("--session", type=session_path, metavar="FILE", help=help)


def session_path(text: str) -> Path:
    """The type of `--session`. Raises ArgumentTypeError for an empty name."""
    if not text:
        raise argparse.ArgumentTypeError("'' names no file to keep a session in")
    return Path(text)


def check_session(path: Path | None) -> None:
    """Find out whether a session can be kept there, before there is any work to lose. Raises
    SessionFileError, OSError."""
    if path is None:
        return
    from ggufc.runtime.session_file import check_can_save

    if not path.absolute().parent.is_dir():
        raise SessionFileError(f"{path}: there is no such folder to keep a session in")
    check_can_save(path)


@contextmanager
def kept_session(model: "Model", path: Path | None) -> Iterator[Kept]:
    """What the file holds, if it is there; whatever ends the block, it is written again. Raises
    SessionFileError, OSError."""
    if path is None:
        yield Kept()
        return
    with model.session() as session:
        note = session.restore(path) if path.exists() else None
        kept = Kept(session, messages_in(note, path))
        try:
            yield kept
        finally:
            if session.position:
                note = {"messages": kept.messages} if kept.messages else None
                session.save(path, note=note)


def messages_in(note: Any, path: Path) -> Messages:
    """The conversation in a session's note. Raises SessionFileError."""
    if note is None:
        return []
    messages = note.get("messages") if isinstance(note, dict) else None
    if not isinstance(messages, list) or not all(map(is_message, messages)):
        raise SessionFileError(f"{path}: its note is not a conversation")
    return messages


def is_message(message: Any) -> bool:
    """Whether this is a turn as `chat` keeps it."""
    return (
        isinstance(message, dict)
        and set(message) == {"role", "content"}
        and message["role"] in ROLES
        and isinstance(message["content"], str)
    )
