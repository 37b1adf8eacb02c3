"""One GGUF file on disk: header, metadata and tensor table, nothing taken on trust."""

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ggufc.compiler.errors import GGUFError, shown
from ggufc.compiler.gguf.constants import ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, VERSIONS
from ggufc.compiler.gguf.cursor import Cursor
from ggufc.compiler.gguf.metadata import Metadata, key_count, read_metadata
from ggufc.compiler.gguf.tensors import TensorInfo, place, read_tensor_infos, tensor_count


@dataclass(frozen=True)
class Part:
    """A file that has been read: its map, metadata and tensors."""

    path: Path
    data: mmap.mmap
    version: int
    alignment: int
    metadata: Metadata
    tensors: list[TensorInfo]


def read_part(path: Path) -> Part:
    """Map and read the file `path`; a GGUFError says what is wrong with it."""
    cursor = Cursor(map_file(path), shown(str(path), 400))
    version = read_version(cursor)
    n_tensors = tensor_count(cursor)
    metadata = read_metadata(cursor, key_count(cursor))
    alignment = alignment_of(metadata)
    infos = read_tensor_infos(cursor, n_tensors, path)
    data_start = -(-cursor.position // alignment) * alignment
    tensors = place(cursor, infos, data_start, alignment)
    return Part(path, cursor.data, version, alignment, metadata, tensors)


def map_file(path: Path) -> mmap.mmap:
    """A read-only map of the regular file `path`."""
    label = shown(str(path), 400)
    try:
        # Opening a pipe would wait for a writer: only regular files are opened.
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise GGUFError(f"{label}: not a regular file")
        if status.st_size == 0:
            raise GGUFError(f"{label}: the file is empty, not a GGUF file")
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GGUFError(f"{label}: {reason}") from None


def read_version(cursor: Cursor) -> int:
    """Check the first eight bytes, and return the version of the format."""
    magic = cursor.data[:4]
    if magic != MAGIC:
        raise cursor.fail(f"not a GGUF file: it begins with {magic!r}, wanted {MAGIC!r}")
    cursor.position = 4
    version = cursor.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise cursor.fail("a big-endian GGUF file; only little-endian files can be read")
    if version == 1:
        raise cursor.fail(
            "GGUF version 1 is too old, convert the model again; versions read are 2 and 3"
        )
    if version not in VERSIONS:
        raise cursor.fail(f"unknown GGUF version {version}; versions read are 2 and 3")
    return version


def alignment_of(metadata: Metadata) -> int:
    """The alignment of the data and of every tensor: a power of two."""
    alignment = metadata.get_int(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    if alignment < 1 or alignment & (alignment - 1):
        raise metadata.fail(f"key '{ALIGNMENT_KEY}' is {alignment}, allowed are powers of two")
    return alignment
