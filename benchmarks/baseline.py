"""Ratios that were reached once, and whether results have lost any of them.

A ratio has the peer of the same rounds below it, so that a slower machine or a busy minute changes
it little. What one round says counts for nothing: medians are compared, and where rounds differ so
much that the median could be an accident, the answer is to measure again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Literal

from machine import same_machine
from results import Results

ALLOWED_LOSS = 0.05
LEAST_ROUNDS = 3
FIGURES = ("prefill", "decode")

State = Literal["kept", "gained", "lost", "unclear", "new", "missing"]


@dataclass(frozen=True)
class Change:
    """A ratio then and now; `spread` is that of the rounds now, from quartile to quartile, over
    their median."""

    name: str
    then: float | None
    now: float | None
    spread: float
    state: State

    def __str__(self) -> str:
        then = "-" if self.then is None else f"{self.then:.3f}"
        now = "-" if self.now is None else f"{self.now:.3f}"
        change = f"{self.now / self.then - 1:+.1%}" if self.now and self.then else ""
        return f"{self.state:8} {self.name}: {then} -> {now} {change} (spread {self.spread:.1%})"


def ratios_of(results: Results) -> dict[str, list[float]]:
    """The ratios of a model by name, round by round."""
    return {
        f"{results.model} {figure}, {ours} over {peer}": found
        for ours in results.ours()
        for peer in results.opponents(ours)
        for figure in FIGURES
        if (found := results.ratios(ours, peer, figure))
    }


def record(all_results: list[Results]) -> dict[str, Any]:
    """What to keep of results. Raises ValueError where they are of several machines, or too few."""
    first = all_results[0]
    ratios: dict[str, dict[str, Any]] = {}
    for results in all_results:
        if not same_machine(results.machine, first.machine):
            raise ValueError(f"{results.model} was measured on another machine than {first.model}")
        if len(results.rounds) < LEAST_ROUNDS:
            raise ValueError(
                f"{results.model} has {len(results.rounds)} rounds, at least {LEAST_ROUNDS} count"
            )
        for name, found in ratios_of(results).items():
            rounds = [round(value, 4) for value in found]
            ratios[name] = {
                "model": results.model,
                "median": round(median(found), 4),
                "rounds": rounds,
            }
    return {"machine": first.machine, "settings": first.settings, "ratios": ratios}


def spread_of(values: list[float]) -> float:
    """From quartile to quartile, over the median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def judge(then: float | None, values: list[float]) -> State:
    """What became of a ratio. A loss is one where most rounds agree that it is one."""
    if then is None:
        return "new"
    if not values:
        return "missing"
    now, allowed = median(values), then * (1 - ALLOWED_LOSS)
    if now >= allowed:
        return "gained" if now > then * (1 + ALLOWED_LOSS) else "kept"
    highest_quartile = quantiles(values, n=4, method="inclusive")[2] if len(values) > 1 else now
    return "lost" if highest_quartile < allowed else "unclear"


def changes(baseline: dict[str, Any], all_results: list[Results]) -> Iterator[Change]:
    """Every ratio of the baseline whose model was measured, and every new one."""
    known = baseline["ratios"]
    models = {results.model for results in all_results}
    found = {name: v for results in all_results for name, v in ratios_of(results).items()}
    expected = [name for name, one in known.items() if one["model"] in models]
    for name in dict.fromkeys([*expected, *found]):
        then = known[name]["median"] if name in known else None
        values = found.get(name, [])
        now = median(values) if values else None
        yield Change(name, then, now, spread_of(values), judge(then, values))


def load(path: Path) -> dict[str, Any]:
    """Read a baseline. Raises ValueError for what is none."""
    found: dict[str, Any] = json.loads(path.read_text())
    if not isinstance(found, dict) or not {"machine", "ratios"} <= set(found):
        raise ValueError(f"{path}: not a baseline")
    return found


def save(path: Path, baseline: dict[str, Any]) -> None:
    """Write a baseline."""
    path.write_text(json.dumps(baseline, indent=1) + "\n")
