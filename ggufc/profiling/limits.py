"""What a machine can do at best, measured once and kept in the user's cache.

A file of the cache is named after all that a measurement depends on: the processor, its features,
the instruction set, the number of threads and ggufc's version.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ggufc import __version__
from ggufc.cache import cache_folder
from ggufc.profiling.measure import measure_limits
from ggufc.runtime.cpu import features

FOLDER = "limits"


@dataclass(frozen=True)
class Limits:
    """Bytes per second that `threads` threads read together, by where they lie (`2m`, `4k`: memory
    on pages of that size; `cache`: a few megabytes that are read again and again), and operations
    per second, two for each multiply-add, by unit (`int8_dot`, `bf16_tiles`, ...)."""

    isa: str
    threads: int
    read: dict[str, float]
    operations: dict[str, float]


def machine_limits(isa: str, threads: int, *, again: bool = False) -> Limits:
    """The limits of this machine: the known ones, or measured now (in a few seconds)."""
    path = limits_path(isa, threads)
    known = None if again else read_limits(path)
    if known is not None:
        return known
    found = Limits(isa, threads, *measure_limits(isa, threads))
    write_limits(path, found)
    return found


def limits_path(isa: str, threads: int) -> Path:
    """Where the limits of this machine are kept."""
    words = [__version__, processor(), isa, str(threads), str(os.cpu_count()), *sorted(features())]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    return cache_folder() / FOLDER / f"{isa}-{threads}-{digest}.json"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system gives it; empty where it gives none."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else ""


def read_limits(path: Path) -> Limits | None:
    """The limits in a file; None where there are none, or none that make sense."""
    try:
        found = json.loads(path.read_text())
        limits = Limits(found["isa"], found["threads"], found["read"], found["operations"])
        values = [*limits.read.values(), *limits.operations.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return limits if values and all(is_speed(value) for value in values) else None


def is_speed(value: Any) -> bool:
    """Whether something is a number above zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def write_limits(path: Path, limits: Limits) -> None:
    """Keep limits for the next time; a cache that cannot be written only costs time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(asdict(limits), indent=1) + "\n")
        partial.replace(path)
