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
    parser.add_argument("--session", type=Path, metavar="FILE", help=help)


@contextmanager
def kept_session(model: "Model", path: Path | None) -> Iterator[Kept]:
    """What the file holds, if it is there; whatever ends the block, it is written again. Raises
    SessionFileError, OSError."""
    if path is None:
        yield Kept()
        return
    if not path.absolute().parent.is_dir():
        raise SessionFileError(f"{path}: there is no such folder to keep a session in")
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
