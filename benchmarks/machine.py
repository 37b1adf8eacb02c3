"""What figures are measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from ggufc import __version__
from ggufc.profiling.limits import processor
from ggufc.runtime.cpu import features

ROOT = Path(__file__).parent.parent
# Features that decide which kernels run, by their canonical names.
TELLING = (
    "avx2",
    "avxvnni",
    "avx512f",
    "avx512vnni",
    "avx512bf16",
    "amxint8",
    "amxbf16",
    "dotprod",
    "i8mm",
)


def machine() -> dict[str, Any]:
    """The processor, the memory, the system, and the state of the project."""
    return {
        "processor": processor() or platform.processor(),
        "features": [name for name in TELLING if name in features()],
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "python": platform.python_version(),
        "ggufc": __version__,
        "commit": commit(),
    }


def read(path: str) -> str:
    """A small file of the system; empty where there is none."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def commit() -> str:
    """The commit that the working tree is of, with `+` where it was changed; empty outside of a
    repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def load() -> list[float]:
    """The load averages of the last 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two records are of one kind of machine, whose ratios can be compared."""
    return all(one.get(k) == other.get(k) for k in ("processor", "features", "processors"))
