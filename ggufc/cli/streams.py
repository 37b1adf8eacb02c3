"""Standard streams and output files of the commands."""

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


class ClosedStream(io.RawIOBase):
    """What stands for a standard stream that was closed before the program started: to read or
    write it is an error that names it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def readable(self) -> bool:
        """So that reading is tried, and fails with the right error."""
        return True

    def writable(self) -> bool:
        """As `readable`."""
        return True

    def readinto(self, _buffer: object) -> int:
        """Raises OSError."""
        raise OSError(errno.EBADF, "is closed", self._name)

    def write(self, _data: object) -> int:
        """Raises OSError."""
        raise OSError(errno.EBADF, "is closed", self._name)


def replace_closed_streams() -> None:
    """Put something in place of standard streams that were closed when the program started: Python
    leaves None, and the next file that is opened would get their number. What is written to a
    closed standard error is lost."""
    missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in missing:
        placeholder = os.open(os.devnull, os.O_RDWR)
        if name == "stdin":
            raw = ClosedStream("standard input")
            sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), "utf-8")
        elif name == "stdout":
            raw = ClosedStream("standard output")
            sys.stdout = io.TextIOWrapper(raw, "utf-8", write_through=True)
        else:
            sys.stderr = open(placeholder, "w", encoding="utf-8")


@contextmanager
def output_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write a result to. If that fails, nothing half-written stays behind, and the
    OSError names the path."""
    file = open(path, "wb")
    is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    try:
        with file:
            yield file
    except BaseException as error:
        if is_regular:
            os.unlink(path)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)
        raise
