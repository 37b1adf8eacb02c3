"""Bundles of GGUF files that were given where a bundle is expected: compiled once, kept in the
user's cache.

A cached bundle is found by the file's content, the default options, the version and this
machine's features. The hash of a file is remembered by its path, size and time of change, so that
a second start does not read it.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ggufc import __version__
from ggufc.runtime.bundle import MANIFEST, Bundle, sha256_of
from ggufc.runtime.cpu import features
from ggufc.runtime.errors import BundleError

MAGICS = (b"GGUF", b"FUGG")
PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")

Compile = Callable[[Path, Path], None]


def resolve(path: Path, compile: Compile) -> Path:
    """`path` itself if it is a bundle; for a GGUF file the cached bundle, made by `compile(source,
    destination)` if there is none. Raises BundleError for anything else."""
    if not path.exists():
        raise BundleError(f"{path}: no such file or folder")
    if path.is_dir():
        return path
    if not path.is_file():
        raise BundleError(f"{path}: neither a folder nor a regular file")
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic not in MAGICS:
        raise BundleError(f"{path}: neither a bundle nor a GGUF file: it begins with {magic!r}")
    return cached_bundle(path, compile)


def cached_bundle(source: Path, compile: Compile) -> Path:
    """The bundle of a GGUF file in the cache, compiled now if it is not there or does not open."""
    folder = cache_folder()
    destination = folder / f"{source.stem[:64]}-{content_key(source, folder)}.ggufc"
    if not opens(destination):
        with locked(folder / f"{destination.name}.lock"):
            if not opens(destination):
                compile(source, destination)
    return destination


def opens(bundle: Path) -> bool:
    """Whether a cached bundle is there and can be opened; a damaged one is compiled again."""
    if not (bundle / MANIFEST).exists():
        return False
    try:
        Bundle.open(bundle)
    except BundleError:
        return False
    return True


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/ggufc` or `~/.cache/ggufc`, made if need be. Raises BundleError."""
    folder = base_folder() / "ggufc"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(
            f"{folder}: no folder for compiled models ({error.strerror}); "
            "compile with `ggufc compile MODEL.gguf -o DIR` and run DIR"
        ) from None
    return folder


def base_folder() -> Path:
    """Where programs keep what they can make again: `$XDG_CACHE_HOME`, if it is absolute as it has
    to be, else `.cache` in the home folder. An empty `HOME` is as good as none. Raises
    BundleError."""
    told = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if told.is_absolute():
        return told
    home = os.environ.get("HOME") or home_of_user()
    if not os.path.isabs(home):
        raise BundleError(
            f"HOME is {home!r} and XDG_CACHE_HOME is not set: there is no folder for compiled "
            "models; compile with `ggufc compile MODEL.gguf -o DIR` and run DIR"
        )
    return Path(home) / ".cache"


def home_of_user() -> str:
    """The home folder that the system knows of this user, empty if it knows none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def content_key(source: Path, folder: Path) -> str:
    """Names what a cached bundle depends on: 24 hexadecimal digits."""
    machine = hashlib.sha256(" ".join([__version__, *sorted(features())]).encode()).hexdigest()
    contents = "".join(remembered_sha256(part, folder) for part in parts_of(source))
    return hashlib.sha256((contents + machine).encode()).hexdigest()[:24]


def parts_of(source: Path) -> list[Path]:
    """The file, or all parts of a split one that lie beside it."""
    match = PART.search(source.name)
    if match is None:
        return [source]
    stem = source.name[: match.start()]
    names = (p for p in source.parent.iterdir() if p.name.startswith(stem) and PART.search(p.name))
    return sorted(names)


def remembered_sha256(path: Path, folder: Path) -> str:
    """The SHA-256 of a file, from the memo if the file has not changed since."""
    found = path.stat()
    identity = f"{path.resolve()}|{found.st_size}|{found.st_mtime_ns}|{found.st_ino}"
    memo = (
        folder / "hashes" / hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    )
    try:
        known = memo.read_text()
    except OSError:
        known = ""
    if len(known) == 64:
        return known
    digest = sha256_of(path)
    with suppress(OSError):  # a memo that cannot be kept costs time only
        memo.parent.mkdir(exist_ok=True)
        memo.write_text(digest)
    return digest


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time compile the same model."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
