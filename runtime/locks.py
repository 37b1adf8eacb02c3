"""A lock that a forked child finds open, whatever another thread of the parent was doing."""

import os
import threading
from types import TracebackType


class ForkSafeLock:
    """A mutual exclusion for `with`. The child of a fork has none of the parent's other threads,
    so a lock that one of them held would never open: there it is replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> "ForkSafeLock":
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
        self._lock.acquire()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._lock.release()
