"""What was measured of one model: a JSON file with every round, and the figures that follow.

A ratio is the median of the rounds' ratios, so that a machine whose speed drifts does not favour
anyone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

FORMAT = 1


@dataclass
class Round:
    """One round: the load before and after it, what the machine could do meanwhile, and the figures
    of each contestant."""

    load_before: list[float]
    load_after: list[float]
    limits: dict[str, dict[str, dict[str, float]]]
    figures: dict[str, dict[str, float]]


@dataclass
class Results:
    """All rounds of one model. `work` is what ggufc's graphs have to do, by contestant; `errors`
    says why a contestant has no figures."""

    model: str
    model_bytes: int
    machine: dict[str, Any]
    settings: dict[str, int]
    contestants: dict[str, dict[str, Any]]
    work: dict[str, dict[str, Any]]
    rounds: list[Round] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def save(self, path: Path) -> None:
        """Write the file, which appears whole."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read a file that `save` wrote. Raises ValueError for anything else."""
        plain = json.loads(path.read_text())
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise ValueError(f"{path}: not results in format {FORMAT}")
        plain["rounds"] = [Round(**one) for one in plain["rounds"]]
        return cls(**plain)

    def values(self, contestant: str, figure: str) -> list[float]:
        """A figure of a contestant in every round that has it."""
        found = (one.figures.get(contestant, {}).get(figure) for one in self.rounds)
        return [value for value in found if value is not None]

    def ratios(self, ours: str, other: str, figure: str) -> list[float]:
        """Round by round how many times as fast ours is."""
        pairs = (
            (one.figures.get(ours, {}).get(figure), one.figures.get(other, {}).get(figure))
            for one in self.rounds
        )
        return [a / b for a, b in pairs if a is not None and b]

    def per_round(self, ours: str, figure: str, over: str) -> list[float]:
        """Round by round a figure of ours over another one of ours."""
        found = (one.figures.get(ours, {}) for one in self.rounds)
        return [f[figure] / f[over] for f in found if figure in f and over in f]

    def read_limit(self, ours: str, pages: str) -> list[float]:
        """Bytes per second that could be read in each round, on a kind of pages."""
        isa = self.contestants[ours]["isa"]
        return [one.limits[isa]["read"][pages] for one in self.rounds if isa in one.limits]

    def operations_limit(self, ours: str, unit: str) -> list[float]:
        """Operations per second of a unit in each round."""
        isa = self.contestants[ours]["isa"]
        return [one.limits[isa]["operations"][unit] for one in self.rounds if isa in one.limits]

    def ours(self) -> list[str]:
        """The names of ggufc's contestants, the best instruction set first."""
        return [name for name, facts in self.contestants.items() if "isa" in facts]

    def peers(self) -> list[str]:
        """The names of all others."""
        return [name for name in self.contestants if name not in self.ours()]

    def opponents(self, ours: str) -> list[str]:
        """The peers that use the instructions that ours does, or leave them to the build."""
        level = level_of(self.contestants[ours]["isa"])
        best = ours == self.ours()[0]
        peers = self.peers()
        return [p for p in peers if level in p or (best and "avx" not in p)]

    def read_shares(self, ours: str) -> list[float]:
        """Weight bytes per second of decode over what could be read in the same round."""
        speeds, pages = self.values(ours, "decode"), self.pages(ours)
        moved = self.work[ours]["decode_weight_bytes"]
        limits = self.read_limit(ours, pages)
        return [speed * moved / limit for speed, limit in zip(speeds, limits, strict=False)]

    def operations_shares(self, ours: str) -> list[float]:
        """Operations per second of prefill over the limit of its unit in the same round."""
        speeds, work = self.values(ours, "prefill"), self.work[ours]
        limits = self.operations_limit(ours, work["prefill_unit"])
        each = work["prefill_flops"] / self.settings["prompt"]
        return [speed * each / limit for speed, limit in zip(speeds, limits, strict=False)]

    def pages(self, ours: str) -> str:
        """The kind of pages that most of the weights were on."""
        parts = self.values(ours, "huge_weights")
        return "2m" if parts and median(parts) > 0.5 else "4k"

    def long_decode(self, ours: str) -> list[float]:
        """Round by round the time of a step after a long text over what it may grow to: the time
        after a short one, and the bytes of the cache in between at the speed of memory."""
        more = self.work[ours]["kv_bytes_long"] - self.work[ours]["kv_bytes_short"]
        short, long = self.values(ours, "decode_short"), self.values(ours, "decode_long")
        limits = self.read_limit(ours, "4k")
        triples = zip(short, long, limits, strict=False)
        return [(1 / b - more / limit) * a for a, b, limit in triples]


def level_of(isa: str) -> str:
    """The level of peers that use what an instruction set has, tiles aside."""
    return "avx512" if "-v4" in isa else "avx2" if isa.endswith("-v3") else "native"


def middle(values: list[float]) -> float | None:
    """The median; None where nothing was measured."""
    return median(values) if values else None


def load_all(folder: Path) -> list[Results]:
    """The results of all models in a folder, by name."""
    return [Results.load(path) for path in sorted(folder.glob("*.json"))]
