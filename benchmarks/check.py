"""Has a change lost speed? Compares results with the recorded baseline.

    python benchmarks/check.py [RESULTS]            compare
    python benchmarks/check.py [RESULTS] --record   make these results the baseline

It exits with 1 where a ratio to a peer has lost more than 5 %.
It exits with 3 where rounds differ too much to tell, and with 2 where there is nothing to compare:
no results, no baseline, or one of another machine. Timing is never part of the test suite.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from baseline import Change, changes, load, record, save
from machine import same_machine
from results import Results, load_all

HERE = Path(__file__).parent
RESULTS = HERE.parent / ".cache" / "benchmarks" / "results"
BASELINE = HERE / "baseline.json"
LOST, NOTHING, UNCLEAR = 1, 2, 3


def main(argv: list[str] | None = None) -> int:
    """Check or record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="folder of results")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--record", action="store_true", help="write the baseline, compare nothing")
    args = parser.parse_args(argv)
    try:
        all_results = load_all(args.results)
        if not all_results:
            raise ValueError(f"{args.results}: no results; run benchmarks/compare.py first")
        if args.record:
            save(args.baseline, record(all_results))
            return 0
        return compare(args.baseline, all_results)
    except (ValueError, KeyError, TypeError, OSError) as error:
        print(error, file=sys.stderr)
        return NOTHING


def compare(path: Path, all_results: list[Results]) -> int:
    """Print every ratio, and return what the exit code is to be. Raises ValueError."""
    baseline = load(path)
    machine = baseline["machine"]
    for results in all_results:
        if not same_machine(results.machine, machine):
            raise ValueError(
                f"{results.model}: measured on {results.machine['processor']}, the baseline on "
                f"{machine['processor']}, with other features or processors: record one here"
            )
    found = list(changes(baseline, all_results))
    for change in found:
        print(change)
    return verdict(found)


def verdict(found: list[Change]) -> int:
    """The exit code."""
    states = {change.state for change in found}
    if states & {"lost", "missing"}:
        return LOST
    return UNCLEAR if "unclear" in states else 0


if __name__ == "__main__":
    raise SystemExit(main())
