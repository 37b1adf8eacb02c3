"""Session files: the tokens and the states of one sequence, for the model that computed them.

All numbers are little-endian. `docs/sessions.md` has the format. A file is read as hostile: its
size has to be what its header says, the header has to agree with the model, and nothing larger
than the session's own memory is reserved on its word.
"""

import hashlib
import json
import os
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ggufc.runtime.arguments import refuse
from ggufc.runtime.bundle import Manifest
from ggufc.runtime.errors import SessionFileError
from ggufc.runtime.memory import Bytes

MAGIC = b"ggufcses"
VERSION = 1
START = struct.Struct("<8sII32s")
MAX_HEADER = 16 << 10
MAX_NOTE = 64 << 20
HASHED_FROM = START.size
PIECE = 1 << 20


@dataclass(frozen=True)
class Header:
    """What a file says of itself: `model` is the SHA-256 of the GGUF file, `name` the model's;
    `states` names the shapes of the states; `long` whether it was rotated as a long sequence;
    `note` counts the bytes that the caller added."""

    model: str
    name: str
    kv_type: str
    states: str
    positions: int
    long: bool
    note: int


def header_for(manifest: Manifest, positions: int, long: bool, note: int) -> Header:
    """The header of a session of a model."""
    shapes = repr([astuple(state) for state in manifest.states])
    return Header(
        model=manifest.source.sha256,
        name=manifest.model.name[:200],
        kv_type=str(manifest.options.get("kv_type", "")),
        states=hashlib.sha256(shapes.encode()).hexdigest(),
        positions=positions,
        long=long,
        note=note,
    )


def replaceable(path: Path) -> Path:
    """The file that `path` leads to, which may be missing. Raises OSError, also for links that
    lead back to themselves, and SessionFileError where something else is there."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        regular = True
    if not regular:
        raise SessionFileError(f"{path}: not a regular file; a session is not written over it")
    return Path(os.path.realpath(path))


def new_beside(target: Path, path: Path) -> tuple[int, str]:
    """The descriptor and the name of a new file in the folder of `target`. Raises OSError that
    names `path`."""
    try:
        return tempfile.mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        raise


def check_can_save(path: Path) -> None:
    """Find out, by trying, whether a session can be written to `path`. Raises as `replaced_file`
    does."""
    descriptor, name = new_beside(replaceable(path), path)
    os.close(descriptor)
    os.unlink(name)


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends, whole or not at all; only its
    owner can read it. Raises OSError, and SessionFileError where something else is in the way."""
    target = replaceable(path)
    descriptor, name = new_beside(target, path)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(name, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def write_session(path: Path, header: Header, parts: Iterator[Bytes]) -> None:
    """Write a session; `parts` are its tokens, its states and its note. Raises OSError,
    SessionFileError."""
    text = json.dumps(asdict(header)).encode()
    digest = hashlib.sha256(text)
    with replaced_file(path) as file:
        file.write(START.pack(MAGIC, VERSION, len(text), bytes(32)))
        file.write(text)
        for part in parts:
            digest.update(part.data)
            file.write(part.data)
        file.seek(0)
        file.write(START.pack(MAGIC, VERSION, len(text), digest.digest()))


class SessionReader:
    """A session file being read: `header` first, then its parts in order, then `finish`."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the header. Raises SessionFileError."""
        self._path, self._file = path, file
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise self.error("not a regular file")
        self._bytes = found.st_size
        start = self._take(START.size)
        magic, version, count, self._stated = START.unpack(start)
        if magic != MAGIC:
            raise self.error(f"not a session: it begins with {magic!r}, expected {MAGIC!r}")
        if version != VERSION:
            raise self.error(f"session version {version}, this ggufc reads {VERSION}")
        if not 2 <= count <= MAX_HEADER:
            raise self.error(f"a header of {count} bytes; allowed are 2 to {MAX_HEADER}: damaged")
        text = self._take(count)
        self._digest = hashlib.sha256(text)
        self._at = START.size + count
        self.header = self._parsed(text)

    def error(self, problem: str) -> SessionFileError:
        """An error that names the file."""
        return SessionFileError(f"{self._path}: {problem}")

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise self.error(f"ends at byte {self._file.tell()}: truncated, or not a session")
        return data

    def _parsed(self, text: bytes) -> Header:
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            raise self.error("the header is not JSON: damaged") from None
        wanted = {field.name: field.type for field in fields(Header)}
        if not isinstance(plain, dict) or set(plain) != set(wanted):
            raise self.error(f"the header's keys are not {', '.join(wanted)}: damaged")
        for name, kind in wanted.items():
            if type(plain[name]) is not kind:
                raise self.error(f"{name}: found {plain[name]!r:.40} in the header: damaged")
        return Header(**plain)

    def check(self, expected: Header, context: int, sizes: list[int]) -> None:
        """Compare the header with that of the model, whose states take `sizes` bytes for the
        positions that the header has, once these fit."""
        found = self.header
        if found.model != expected.model:
            raise self.error(
                f"made with {found.name!r:.80} (sha256 {found.model!r:.14}...), "
                f"the model is {expected.name!r:.80} (sha256 {expected.model!r:.14}...)"
            )
        if found.kv_type != expected.kv_type:
            raise self.error(
                f"made with kv type {found.kv_type!r:.20}, the bundle has {expected.kv_type}"
            )
        if found.states != expected.states:
            raise self.error("its states have other shapes: made by another version of ggufc")
        size = self._at + 4 * found.positions + sum(sizes) + found.note
        if size != self._bytes:
            raise self.error(
                f"{self._bytes} bytes, {size} are expected for {found.positions} of up to "
                f"{context} positions: truncated or damaged"
            )

    def check_counts(self, context: int) -> None:
        """Refuse counts that nothing may be reserved for."""
        found = self.header
        if not 0 <= found.positions <= context:
            raise self.error(f"{found.positions!r:.40} positions, the context holds {context}")
        if not 0 <= found.note <= MAX_NOTE:
            raise self.error(f"a note of {found.note!r:.40} bytes; allowed are up to {MAX_NOTE}")

    def part(self, size: int) -> Bytes:
        """The next `size` bytes."""
        data = np.empty(size, np.uint8)
        view = data.data
        while view:
            count = self._file.readinto(view[:PIECE])  # type: ignore[attr-defined]
            if not count:
                raise self.error("cut while it was read")
            self._digest.update(view[:count])
            view = view[count:]
        return data

    def finish(self) -> None:
        """Check that what was read has the hash that the file says."""
        if self._digest.digest() != self._stated:
            raise self.error(
                f"sha256 is {self._digest.hexdigest()}, the file says {self._stated.hex()}: damaged"
            )


def _json(note: Any) -> str:
    return json.dumps(note, ensure_ascii=False, allow_nan=False)


def note_bytes(note: Any) -> Bytes:
    """A note as JSON; None is empty. Raises ArgumentError for what JSON has not, and
    SessionFileError for a note that is too long."""
    try:
        data = b"" if note is None else _json(note).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        refuse("note", note, "what JSON has: texts, finite numbers, lists, objects")
    if len(data) > MAX_NOTE:
        raise SessionFileError(f"a note of {len(data)} bytes; allowed are up to {MAX_NOTE}")
    return np.frombuffer(data, np.uint8)


def note_of(data: Bytes, reader: SessionReader) -> Any:
    """The note in a file. Raises SessionFileError."""
    if not len(data):
        return None
    try:
        return json.loads(data.tobytes())
    except (ValueError, RecursionError):
        raise reader.error("its note is not JSON: damaged") from None
