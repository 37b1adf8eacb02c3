"""What this machine offers: processor features that the operating system enabled, and how many
threads.

Features are compared by a canonical spelling, because Linux (`avx512_vnni`, `asimddp`) and LLVM
(`avx512vnni`, `dotprod`) name them differently. A processor's own name is never looked at: inside
virtual machines it lies.
"""

import os
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ggufc.runtime.bundle import NativeObject
from ggufc.runtime.errors import MachineError

# Linux's word where it differs from LLVM's by more than punctuation.
ALIASES = {
    "bmi1": "bmi",
    "abm": "lzcnt",
    "pni": "sse3",
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
    "fp16": "fullfp16",
}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def canonical(feature: str) -> str:
    """One spelling for every name of a feature."""
    plain = feature.lower().translate({ord(c): None for c in "_-."})
    return ALIASES.get(plain, plain)


def machine() -> str:
    """The processor family as Linux names it."""
    name = platform.machine().lower()
    return MACHINES.get(name, name)


@cache
def features() -> frozenset[str]:
    """The canonical names of all features that are usable on this machine."""
    try:
        return parse_cpuinfo(Path("/proc/cpuinfo").read_text("utf-8", "replace"))
    except OSError:
        return features_by_llvm()


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Features in the text of /proc/cpuinfo, where Linux lists only what it enabled. Processors
    of one machine may differ, so only what all of them have counts."""
    per_processor = [
        frozenset(canonical(word) for word in line.partition(":")[2].split())
        for line in text.splitlines()
        if line.partition(":")[0].strip() in ("flags", "Features")
    ]
    return frozenset.intersection(*per_processor) if per_processor else frozenset()


def features_by_llvm() -> frozenset[str]:
    """Features as LLVM's query gives them; it asks the processor what the operating system
    enabled."""
    from llvmlite import binding

    try:
        found = binding.get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    return frozenset(canonical(name) for name, enabled in found.items() if name and enabled)


def missing_features(needs: Iterable[str], offered: frozenset[str]) -> list[str]:
    """What `needs` asks for beyond `offered`, in the order given."""
    return [name for name in needs if canonical(name) not in offered]


def choose_object(objects: Iterable[NativeObject], isa: str | None = None) -> NativeObject:
    """The first object (they are listed best first) that this machine can run, or the one named
    `isa`.

    Raises MachineError that names, for every object, the features that are missing.
    """
    candidates = list(objects)
    named = [o for o in candidates if isa in (None, o.isa)]
    if not named:
        names = ", ".join(o.isa for o in candidates)
        raise MachineError(f"no code for {isa}; the bundle holds {names}")
    reasons = []
    for candidate in named:
        reason = obstacle(candidate, machine(), features())
        if reason is None:
            return candidate
        reasons.append(f"{candidate.isa} {reason}")
    hint = "" if isa else "; compile with --target portable to run anywhere"
    raise MachineError(f"this machine cannot run the bundle's code: {'; '.join(reasons)}{hint}")


def obstacle(candidate: NativeObject, family: str, offered: frozenset[str]) -> str | None:
    """Why an object cannot run on a machine, or None."""
    if candidate.machine != family:
        return f"is for {candidate.machine}, not {family}"
    missing = missing_features(candidate.needs, offered)
    return f"needs {', '.join(missing)}" if missing else None


def default_threads(root: Path = Path("/")) -> int:
    """Threads to use: processors this process may run on, or the whole part of its control
    group's quota if that is less, and at least one. `root` is where /proc and /sys lie."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = cgroup_quota(root)
    limit = count or 1
    return max(1, limit if quota is None else min(limit, int(quota)))


def cgroup_quota(root: Path) -> float | None:
    """The smallest quota, in processors, of this process's control groups and their parents."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            quotas += quotas_v2(root / "sys/fs/cgroup", path)
        elif "cpu" in controllers.split(","):
            for mount in ("cpu", controllers):
                quotas += quotas_v1(root / "sys/fs/cgroup" / mount, path)
    return min(quotas, default=None)


def folders_upwards(mount: Path, path: str) -> list[Path]:
    """The folder of a control group and its parents up to the mount. In a container the path may
    be the host's and not exist: then only the mount itself is left."""
    relative = Path(path.lstrip("/"))
    return [mount / relative, *(mount / parent for parent in relative.parents)]


def quotas_v2(mount: Path, path: str) -> list[float]:
    """Quotas of version 2: `cpu.max` holds QUOTA PERIOD, or max PERIOD."""
    found = []
    for folder in folders_upwards(mount, path):
        words = read_words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            found.append(int(words[0]) / int(words[1]))
    return found


def quotas_v1(mount: Path, path: str) -> list[float]:
    """Quotas of version 1: two files in microseconds; -1 is none."""
    found = []
    for folder in folders_upwards(mount, path):
        quota = read_words(folder / "cpu.cfs_quota_us")
        period = read_words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            found.append(int(quota[0]) / int(period[0]))
    return found


def read_words(path: Path) -> list[str]:
    """The words of a small file; none where there is no such file."""
    try:
        return path.read_text().split()
    except OSError:
        return []
