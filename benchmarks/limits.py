"""Measure what this machine can do, now, in a process of its own: one JSON object.

python benchmarks/limits.py ISA THREADS
"""

from __future__ import annotations

import json
import sys

from ggufc.profiling.measure import measure_limits


def main() -> None:
    """Print bytes per second by place, operations per second by unit."""
    read, operations = measure_limits(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"read": read, "operations": operations}))


if __name__ == "__main__":
    main()
