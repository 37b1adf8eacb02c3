"""Writes a bundle beside its destination and renames it into place, so that no other program ever
sees half of one.

The unfinished folder is `.NAME.partial.TOKEN`. It is locked for as long as its writer lives;
whoever compiles the same bundle next removes the folders that nobody holds, which killed compiles
left.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ggufc.compiler.errors import CompileError, shown
from ggufc.runtime.bundle import CHUNK_BYTES, MANIFEST, WEIGHTS, Checksums, FileEntry, Manifest

Bytes = npt.NDArray[np.uint8]
MARGIN_BYTES = 4 << 20
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BundleWriter:
    """A bundle in the making. Use as a context manager: without `publish` everything is removed
    again."""

    def __init__(self, destination: Path, *, force: bool = False) -> None:
        """`force` allows to replace a bundle at `destination`. Raises CompileError where none may
        be written."""
        self.destination = Path(os.path.abspath(destination))
        self.files: list[FileEntry] = []
        self._force = force
        self._published = False
        self._check_destination()

    def _check_destination(self) -> None:
        parent, name = self.destination.parent, shown(str(self.destination), 400)
        if not parent.is_dir():
            raise CompileError(f"{shown(str(parent), 400)}: no such folder to write the bundle to")
        if not os.access(parent, os.W_OK):
            raise CompileError(f"{shown(str(parent), 400)}: the folder is not writable")
        if not os.path.lexists(self.destination):
            return
        if not replaceable(self.destination):
            raise CompileError(f"{name}: exists and is not a bundle; it is never replaced")
        if not self._force:
            raise CompileError(f"{name}: exists; --force replaces it")

    def __enter__(self) -> "BundleWriter":
        remove_stale(self.destination)
        self.folder = beside(self.destination, "partial")
        with disk_errors(self.folder):
            self.folder.mkdir()
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if not self._published:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def check_space(self, needed: int) -> None:
        """Raise CompileError unless the disk has room for `needed` bytes and a little more."""
        free = shutil.disk_usage(self.folder).free
        if free < needed + MARGIN_BYTES:
            raise CompileError(
                f"{shown(str(self.destination.parent), 400)}: the bundle needs about "
                f"{needed + MARGIN_BYTES} more bytes, the disk has {free} left"
            )

    def add(self, path: str, content: bytes) -> None:
        """Write one file; `path` is relative, with forward slashes."""
        target = self.folder / path
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                file.write(content)
                sync(file)
        self.files.append(FileEntry(path, len(content), hashlib.sha256(content).hexdigest()))

    def adopt(self) -> None:
        """Take into the manifest the files that others wrote into the folder."""
        known = {entry.path for entry in self.files}
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            relative = path.relative_to(self.folder).as_posix()
            if relative not in known:
                with disk_errors(path), open(path, "rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                    sync(file)
                self.files.append(FileEntry(relative, path.stat().st_size, digest))

    @contextmanager
    def weights(self) -> Iterator["WeightFile"]:
        """weights.bin, open for writing one weight after another."""
        target = self.folder / WEIGHTS
        with disk_errors(target), open(target, "xb") as file:
            weights = WeightFile(file)
            yield weights
            sync(file)
        self.checksums = weights.checksums()
        self.files.append(FileEntry(WEIGHTS, weights.position, weights.sha256.hexdigest()))

    def publish(self, manifest: Manifest) -> None:
        """Write the manifest and rename the folder to its destination."""
        target = self.folder / MANIFEST
        with disk_errors(target):
            with open(target, "xb") as file:
                file.write(manifest.to_bytes())
                sync(file)
            for folder in [self.folder, *(p for p in self.folder.rglob("*") if p.is_dir())]:
                sync_folder(folder)
            self._move()
        self._published = True

    def _move(self) -> None:
        """Put the folder in place; a bundle that is replaced is put back if that fails."""
        old: Path | None = None
        if os.path.lexists(self.destination):
            old = beside(self.destination, "partial")
            os.rename(self.destination, old)
        try:
            os.rename(self.folder, self.destination)
        except BaseException:
            if old is not None:
                os.rename(old, self.destination)
            raise
        sync_folder(self.destination.parent)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


class WeightFile:
    """weights.bin as it is written: keeps its SHA-256 and the CRC-32 of each chunk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.position = 0
        self.sha256 = hashlib.sha256()
        self._crc32: list[int] = []

    def write_at(self, offset: int, data: Bytes) -> None:
        """Write bytes at `offset`, which is not before the end of what was written; zeros fill
        the gap."""
        self._append(np.zeros(offset - self.position, np.uint8))
        self._append(data)

    def _append(self, data: Bytes) -> None:
        while len(data):
            used = self.position % CHUNK_BYTES
            if used == 0:
                self._crc32.append(0)
            part, data = data[: CHUNK_BYTES - used], data[CHUNK_BYTES - used :]
            self._file.write(part.data)
            self.sha256.update(part.data)
            self._crc32[-1] = zlib.crc32(part.data, self._crc32[-1])
            self.position += len(part)

    def checksums(self) -> Checksums:
        """Of all that was written."""
        return Checksums(CHUNK_BYTES, tuple(self._crc32))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Errors of the operating system as CompileErrors that name the path."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in FULL_DISK else "cannot write"
        place = shown(os.fsdecode(error.filename or path), 400)
        raise CompileError(f"{place}: {reason}: {error.strerror}") from None


def beside(destination: Path, kind: str) -> Path:
    """A new hidden name in the same folder as `destination`."""
    return destination.parent / f".{destination.name}.{kind}.{secrets.token_hex(4)}"


def replaceable(path: Path) -> bool:
    """Whether `path` is a bundle or an empty folder: nothing else is ever removed."""
    if path.is_symlink() or not path.is_dir():
        return False
    return (path / MANIFEST).is_file() or not any(path.iterdir())


def remove_stale(destination: Path) -> None:
    """Remove unfinished folders of this destination whose writer is gone."""
    prefix = f".{destination.name}.partial."
    for entry in os.scandir(destination.parent):
        if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
            remove_unless_locked(Path(entry.path))


def remove_unless_locked(folder: Path) -> None:
    """Remove a folder unless another process holds its lock, or it is not ours to remove."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


def sync(file: Any) -> None:
    """Make sure that a file's content is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
