"""What the scripts that time peers have in common; they run in the peers' own environments, and so
import nothing but Python's library."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

FIRST_PROMPT = 20


def arguments() -> argparse.Namespace:
    """What to time: two speeds, or with `--first-token` the time to the first token of a prompt."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--first-token", action="store_true")
    return parser.parse_args()


def since_start() -> float:
    """Seconds since this process was started, in steps of a hundredth."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def huge_bytes() -> int:
    """Bytes of this process's memory that lie on huge pages."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    return 0


def report(**figures: float | str) -> None:
    """Print the figures as one line of JSON, the last of the output."""
    print(json.dumps({**figures, "huge_bytes": huge_bytes()}), flush=True)
