"""The pool of all sessions of an engine."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ggufc.runtime.engine import Engine
from ggufc.runtime.session import Session


class SessionPool:
    """All sequences of an engine. A borrower gets the idle one whose cache it can reuse most of,
    and waits while none is idle. A forked child starts with all of them idle."""

    def __init__(self, engine: Engine) -> None:
        self._idle = [Session(engine, index) for index in range(engine.sequences)]
        self._all = list(self._idle)
        self._changed = threading.Condition()
        self._pid = os.getpid()

    @contextmanager
    def borrow(self, ids: Sequence[int]) -> Iterator[Session]:
        """A session for the prompt `ids`, given back at the end of the `with` block."""
        session = self.take(ids)
        assert session is not None
        try:
            yield session
        finally:
            self.give_back(session)

    def give_back(self, session: Session) -> None:
        """Let others have a session again."""
        with self._changed:
            self._idle.append(session)
            self._changed.notify()

    def take(self, ids: Sequence[int], *, wait: bool = True) -> Session | None:
        """A session for the prompt `ids`, to be given back; None where none is idle and there is
        to be no waiting."""
        self._after_fork()
        with self._changed:
            while not self._idle:
                if not wait:
                    return None
                self._changed.wait()
            best = max(self._idle, key=lambda s: (s.reusable(ids), -s.position))
            self._idle.remove(best)
            return best

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        for session in self._all:
            if session not in self._idle:
                session.clear()
        self._idle, self._changed, self._pid = list(self._all), threading.Condition(), os.getpid()
