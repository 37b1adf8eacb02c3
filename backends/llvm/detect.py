"""Which instruction sets the machine that we run on can execute."""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ggufc.backends.llvm.isa import ISAS, Isa

_CPUINFO = Path("/proc/cpuinfo")
_SYS_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

# Linux's words for LLVM's features, where they differ by more than `_` and `-`.
_LINUX_NAMES = {
    "bmi": "bmi1",
    "lzcnt": "abm",
    "sse3": "pni",
    "neon": "asimd",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
}


def host_isas() -> list[str]:
    """Names of the instruction sets that run here, the most capable first."""
    machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    return [
        isa.name
        for isa in ISAS.values()
        if isa.machine == machine
        and has_features(isa, _enabled_by_llvm(), _listed_by_linux())
        and (not isa.tiles or _tiles_permitted())
    ]


def has_features(isa: Isa, enabled: frozenset[str], listed: frozenset[str] | None) -> bool:
    """Whether LLVM's query and Linux's list (None: there is none) have all that `isa` needs."""
    if not enabled.issuperset(isa.features):
        return False
    return listed is None or all(_linux_name(name) in listed for name in isa.features)


def _linux_name(feature: str) -> str:
    return _plain(_LINUX_NAMES.get(feature, feature))


def _plain(word: str) -> str:
    return word.translate(str.maketrans("", "", "_-."))


@cache
def _enabled_by_llvm() -> frozenset[str]:
    """LLVM asks the processor, and which registers the operating system saves."""
    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


@cache
def _listed_by_linux() -> frozenset[str] | None:
    """The features that all processors of /proc/cpuinfo have; None where there is no such file."""
    try:
        text = _CPUINFO.read_text("utf-8", "replace")
    except OSError:
        return None
    return listed_features(text)


def listed_features(cpuinfo: str) -> frozenset[str] | None:
    """The features common to all processors of /proc/cpuinfo's text; None where it has none."""
    processors = [
        frozenset(_plain(word) for word in value.split())
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
        if key.strip() in ("flags", "Features")
    ]
    return frozenset.intersection(*processors) if processors else None


@cache
def _tiles_permitted() -> bool:
    """Ask Linux for the use of tile registers; the answer holds for the whole process."""
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    return bool(syscall(_SYS_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA) == 0)
