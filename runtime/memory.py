"""Memory of a running model: anonymous buffers that are touched only as they fill, and the weights.

Weights are read, not mapped, by default: huge pages exist only for anonymous memory, and a decode
step that streams all weights through 4 KB pages takes about twice as long. `mapped` trades that
for memory shared between processes.
"""

import mmap
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggufc.runtime.bundle import WEIGHTS, Bundle, Checksums
from ggufc.runtime.errors import BundleError, MachineError

HUGE_PAGE = 2 << 20
Bytes = npt.NDArray[np.uint8]


def allocate(size: int, *, huge: bool = False) -> Bytes:
    """`size` zero bytes, aligned to 2 MB. Nothing is resident before it is touched; `huge` asks
    for 2 MB pages, otherwise pages stay small so that memory grows with use. Raises
    MachineError."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        region = mmap.mmap(-1, size + HUGE_PAGE, flags=flags)
    except (OSError, OverflowError, ValueError):
        raise MachineError(f"cannot reserve {size} bytes of memory") from None
    advise(region, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE")
    whole = np.frombuffer(region, dtype=np.uint8)
    start = -address(whole) % HUGE_PAGE
    return whole[start : start + size]


def advise(region: mmap.mmap, name: str) -> None:
    """Give the kernel a hint where it knows it."""
    try:
        region.madvise(getattr(mmap, name))
    except (AttributeError, OSError):
        return


def address(array: npt.NDArray[np.generic]) -> int:
    """Where the elements of a contiguous array lie."""
    return int(array.__array_interface__["data"][0])


def huge_part(array: Bytes, smaps: Path = Path("/proc/self/smaps")) -> float | None:
    """The part of an array's memory that lies on huge pages; None where the system does not tell.

    Neighbouring regions may have become one: the part is that of the whole region."""
    try:
        lines = smaps.read_text().splitlines()
    except OSError:
        return None
    at, size, inside = address(array), 0, False
    for line in lines:
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            low, high = (int(end, 16) for end in words[0].split("-"))
            inside = low <= at < high
        elif inside and words[0] == "Rss:":
            size = int(words[1])
        elif inside and words[0] == "AnonHugePages:":
            return min(1.0, int(words[1]) / size) if size else None
    return None


def load_weights(bundle: Bundle, *, threads: int, mapped: bool = False) -> Bytes:
    """The content of weights.bin, each chunk compared with its checksum. Raises BundleError."""
    path = bundle.locate(bundle.manifest.file(WEIGHTS))
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if mapped and size:
            target = np.frombuffer(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), np.uint8)
            fill: Filler = fill_nothing
        else:
            target, fill = allocate(size, huge=True), file_filler(file.fileno())
        fill_and_check(target, fill, bundle.manifest.checksums, path, threads)
    return target


Filler = Callable[[Bytes, int], None]
"""Fills a part of the weights from its offset in the file."""


def fill_nothing(_part: Bytes, _offset: int) -> None:
    """The filler of mapped weights, whose bytes are there."""


def file_filler(descriptor: int) -> Filler:
    """A filler that reads from a file without moving its position, so that threads can share it."""

    def fill(part: Bytes, offset: int) -> None:
        view = part.data
        while view:
            count = os.preadv(descriptor, [view], offset)
            if count == 0:
                raise BundleError(f"ends at byte {offset}: cut while it was read")
            view, offset = view[count:], offset + count

    return fill


def fill_and_check(
    target: Bytes, fill: Filler, checksums: Checksums, path: Path, threads: int
) -> None:
    """Fill `target` chunk by chunk on several threads; a chunk is checked while the cache holds
    it."""
    step = checksums.chunk_bytes
    if step <= 0 or len(checksums.crc32) != -(-len(target) // step):
        raise BundleError(
            f"{path}: {len(checksums.crc32)} checksums of {step} bytes do not cover it"
        )

    def one(index: int) -> None:
        part = target[index * step : (index + 1) * step]
        fill(part, index * step)
        found = zlib.crc32(part.data)
        if found != checksums.crc32[index]:
            raise BundleError(
                f"{path}: crc32 of the {len(part)} bytes at {index * step} is {found:08x}, "
                f"the manifest says {checksums.crc32[index]:08x}: damaged"
            )

    on_threads(one, len(checksums.crc32), threads)


def on_threads(task: Callable[[int], None], count: int, threads: int) -> None:
    """Run task(0) ... task(count - 1) on several threads, in order of starting; raises the first
    error."""
    errors: list[BaseException] = []
    indices = iter(range(count))

    def work() -> None:
        try:
            for index in indices:
                if errors:
                    return
                task(index)
        except BaseException as error:
            errors.append(error)

    helpers = [threading.Thread(target=work) for _ in range(1, min(threads, count))]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
