"""The bundle: what `manifest.yaml` holds and how a bundle is opened and checked.

This file is the contract between the compiler, which fills in a `Manifest`, and the runtime,
which reads it. The first line of `manifest.yaml` is the SHA-256 of all bytes after it, the
manifest holds the SHA-256 of every other file, and the checksums of the chunks of `weights.bin`
are tested while it is read: a flipped byte anywhere is found on every start.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ggufc.runtime.errors import BundleError
from ggufc.runtime.schema import from_plain, parse_yaml, to_plain, to_yaml

FORMAT_VERSION = 3
ABI_VERSION = 1
MANIFEST = "manifest.yaml"
WEIGHTS = "weights.bin"
GRAPH_IR = "ir/graph.ir"
SELF_HASH_KEY = b"manifest_sha256: "
PLANNED_IR = "ir/{isa}/planned.ir"
PREFILL, DECODE, EMBED = "prefill", "decode", "embed"
CHUNK_BYTES = 8 << 20
CONTEXT_UNIT = 64
AGAIN = "compile the model again"


@dataclass(frozen=True)
class Source:
    """The GGUF file a bundle was compiled from."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ModelFacts:
    """What a model is: its name and architecture in GGUF's words, and its hyperparameters."""

    name: str
    architecture: str
    vocab_size: int
    hparams: Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """The largest value of each dimension the code was compiled for."""

    tokens: int
    """Tokens of one prefill call."""
    rows: int
    """Rows of one prefill call whose logits are wanted."""
    sequences: int
    """Rows of the KV cache, which is also the largest batch of a decode call."""
    context: int
    """Positions of a sequence."""


@dataclass(frozen=True)
class Embedding:
    """How a model makes the embedding of a text: numbers, and the pooling that its file asks for
    (`none`, `mean`, `cls` or `last`), if it does."""

    width: int
    pooling: str | None


@dataclass(frozen=True)
class NativeObject:
    """One object file: the instruction set it was compiled for and what it needs to run."""

    isa: str
    path: str
    machine: str
    """The processor family, as `platform.machine()` names it on Linux: x86_64 or aarch64."""
    needs: tuple[str, ...]
    """Processor features by LLVM's names; all have to be enabled by the operating system."""
    arena_bytes: int


@dataclass(frozen=True)
class State:
    """One array that is kept between calls: an array of the KV cache, `sequences * context *
    position_bytes` bytes, context padded to 64; or a state that every token of a sequence changes,
    `sequences * sequence_bytes`."""

    name: str
    dtype: str
    position_bytes: int
    sequence_bytes: int
    role: str
    """How it lies in memory (docs/architecture.md, States): `keys`, `values`, or `whole` for a
    state without positions."""
    heads: int
    """Rows of a position; 0 for a state without positions."""


@dataclass(frozen=True)
class Weight:
    """Where one weight lies in weights.bin; `shape` is in NumPy order, `type` a GGUF type in
    lower case."""

    name: str
    type: str
    shape: tuple[int, ...]
    layout: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Checksums:
    """The CRC-32 of each chunk of weights.bin, cheap enough to test at every start."""

    chunk_bytes: int
    crc32: tuple[int, ...]


@dataclass(frozen=True)
class FileEntry:
    """One file of the bundle; `path` is relative and uses forward slashes."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All that `manifest.yaml` holds, in its order."""

    format: int
    abi: int
    ggufc: str
    source: Source
    options: Mapping[str, Any]
    model: ModelFacts
    limits: Limits
    graphs: tuple[str, ...]
    """What the code can do: `prefill`, `decode` and `embed`, or for an encoder `embed` alone."""
    embedding: Embedding
    objects: tuple[NativeObject, ...]
    states: tuple[State, ...]
    prompt: Mapping[str, Any]
    """What the template checks at compile time showed."""
    files: tuple[FileEntry, ...]
    checksums: Checksums
    weights: tuple[Weight, ...]

    def to_bytes(self) -> bytes:
        """The content of `manifest.yaml`, the same bytes for the same manifest on any machine."""
        body = to_yaml(to_plain(self)).encode()
        return SELF_HASH_KEY + hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest":
        """Parse and check the content of `manifest.yaml`. Raises BundleError."""
        plain = parse_yaml(checked_body(content))
        found = plain.get("format") if isinstance(plain, dict) else None
        if found != FORMAT_VERSION:
            raise BundleError(
                f"bundle format {found!r}, this ggufc reads {FORMAT_VERSION}: {AGAIN}"
            )
        manifest = from_plain(cls, plain)
        if manifest.abi != ABI_VERSION:
            raise BundleError(
                f"code interface {manifest.abi}, this ggufc calls {ABI_VERSION}: {AGAIN}"
            )
        return manifest

    def file(self, path: str) -> FileEntry:
        """The entry of a file that has to be there. Raises BundleError."""
        for entry in self.files:
            if entry.path == path:
                return entry
        raise BundleError(
            f"no file {path!r}; the files are {', '.join(e.path for e in self.files)}"
        )


def checked_body(content: bytes) -> bytes:
    """The manifest after its first line, whose hash it must have."""
    first, _, body = content.partition(b"\n")
    if not first.startswith(SELF_HASH_KEY):
        raise BundleError(
            f"the first line is {first[:80]!r}, expected {SELF_HASH_KEY.decode()}HASH: "
            "damaged, or not a bundle's manifest"
        )
    stated = first[len(SELF_HASH_KEY) :].decode("ascii", "backslashreplace")
    found = hashlib.sha256(body).hexdigest()
    if found != stated:
        raise BundleError(
            f"sha256 of the content is {found}, the first line says {stated}: damaged"
        )
    return body


class Bundle:
    """An opened bundle: every file is there, has its size and, except for the weights, its hash.

    The content of weights.bin is checked by whoever reads it, through `manifest.checksums`, or by
    `verify`.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path) -> "Bundle":
        """Open the bundle in the folder `path`. Raises BundleError that names the file and both
        values."""
        if not path.is_dir():
            problem = "not a folder" if path.exists() else "no such file or folder"
            raise BundleError(f"{path}: {problem}; a bundle is a folder with {MANIFEST}")
        if not (path / MANIFEST).is_file():
            raise BundleError(f"{path}: not a bundle: there is no {MANIFEST} in it")
        try:
            manifest = Manifest.from_bytes((path / MANIFEST).read_bytes())
        except BundleError as error:
            raise BundleError(f"{path / MANIFEST}: {error}") from None
        bundle = cls(path, manifest)
        bundle.check_files(contents_of_weights=False)
        return bundle

    def check_files(self, *, contents_of_weights: bool) -> None:
        """Check path, kind, size and hash of every file; those of the weights only where asked."""
        for entry in self.manifest.files:
            location = self.locate(entry)
            if entry.path != WEIGHTS or contents_of_weights:
                check_hash(location, entry)
        self.manifest.file(WEIGHTS)

    def verify(self) -> None:
        """Check the hash of every file, weights.bin included. Raises BundleError."""
        self.check_files(contents_of_weights=True)

    def locate(self, entry: FileEntry) -> Path:
        """The path of a regular file inside the bundle that has the size it should have."""
        parts = PurePosixPath(entry.path).parts
        if not parts or entry.path.startswith("/") or ".." in parts or "\\" in entry.path:
            raise BundleError(
                f"{self.path / MANIFEST}: path {entry.path!r} does not lie inside the bundle"
            )
        location = self.path
        for part in parts:
            location = location / part
            if location.is_symlink():
                raise BundleError(
                    f"{location}: is a symbolic link; a bundle holds only plain files"
                )
        self.check_size(location, entry)
        return location

    def check_size(self, location: Path, entry: FileEntry) -> None:
        """Refuse a missing file, what is not a regular file, and another size than stated."""
        try:
            found = location.stat()
        except FileNotFoundError:
            raise BundleError(f"{location}: missing, the manifest lists it") from None
        if not stat.S_ISREG(found.st_mode):
            raise BundleError(f"{location}: not a regular file")
        if found.st_size != entry.bytes:
            raise BundleError(
                f"{location}: {found.st_size} bytes, the manifest says {entry.bytes}: damaged"
            )

    def read(self, path: str) -> bytes:
        """The bytes of one file that the manifest lists."""
        return self.locate(self.manifest.file(path)).read_bytes()


def check_hash(location: Path, entry: FileEntry) -> None:
    """Compare the SHA-256 of a file with the manifest's. Raises BundleError."""
    found = sha256_of(location)
    if found != entry.sha256:
        raise BundleError(f"{location}: sha256 {found}, the manifest says {entry.sha256}: damaged")


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, read once."""
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
