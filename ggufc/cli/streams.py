"""Standard streams and output files of the commands."""

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


STDOUT = "standard output"


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
            raw = ClosedStream(STDOUT)
            sys.stdout = io.TextIOWrapper(raw, "utf-8", write_through=True)
        else:
            sys.stderr = open(placeholder, "w", encoding="utf-8")


class NamedOutput(io.FileIO):
    """Standard output, whose errors say that it is that: a full disk, most of all."""

    def write(self, data: "Buffer") -> int:
        """As of files. Raises OSError."""
        try:
            return super().write(data) or 0
        except OSError as error:
            error.filename = STDOUT
            raise


def drop_output() -> None:
    """Write what is still to be written nowhere: Python flushes once more when it ends."""
    if isinstance(getattr(sys.stdout, "buffer", None), io.BufferedWriter | NamedOutput):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def name_standard_output() -> None:
    """Let errors of writing to standard output name it, if it is what the program began with."""
    stream: object = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return
    unbuffered = type(stream.buffer) is io.FileIO
    if not unbuffered and type(getattr(stream.buffer, "raw", None)) is not io.FileIO:
        return
    raw = NamedOutput(stream.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


@contextmanager
def opened(path: Path, mode: Literal["rb", "wb"]) -> Iterator[BinaryIO]:
    """A file, or a standard stream for `-`."""
    if str(path) == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    # What could not be written is tried once more, and fails once more, where the file is closed.
    with named_errors(str(path)), open(path, mode) as file:
        yield file


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Errors of the system that name no file get this name."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


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


def check_output(path: str | None) -> None:
    """Find out, by trying, whether a result can be written there, before there is any work to lose.
    Raises OSError."""
    if path is None or path == "-":
        return
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return  # a pipe waits for its reader when it is opened
    with open(path, "ab"):
        pass
    if mode is None:
        os.unlink(os.path.realpath(path))
