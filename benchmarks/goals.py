"""What ggufc is meant to reach, and whether the results of a model show it.

A goal that the machine cannot show, or that was not measured, says so; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from results import Results, level_of, middle

NOT_MEASURED = "not measured"
FIRST_TOKEN, FIRST_TOKEN_SECONDS = "process start to first token, s", 0.6


@dataclass(frozen=True)
class Verdict:
    """One goal for one model: what was found (None: not measured), and what it should be at least,
    or at most."""

    goal: str
    model: str
    limit: float
    at_most: bool
    found: float | None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None where it was not measured."""
        if self.found is None:
            return None
        return self.found <= self.limit if self.at_most else self.found >= self.limit


def is_light(model: str) -> bool:
    """Models that leave less to gain in decode: 8 bits a weight, or small ones."""
    name = model.lower()
    return "q8_0" in name or "smollm" in name or "270m" in name


def is_quick(model: str) -> bool:
    """Models whose first token comes as soon as a goal says."""
    name = model.lower()
    return "smollm" in name or "0.6b" in name


def least_ratio(results: Results, ours: str | None, peers: list[str], figure: str) -> float | None:
    """Our ratio to the fastest of several peers."""
    if ours is None:
        return None
    found = [middle(results.ratios(ours, peer, figure)) for peer in peers]
    return min((ratio for ratio in found if ratio is not None), default=None)


def contestant(results: Results, wanted: Callable[[str], bool]) -> str | None:
    """Our first contestant whose instruction set is wanted."""
    ours = results.ours()
    return next((name for name in ours if wanted(results.contestants[name]["isa"])), None)


def verdicts(results: Results) -> Iterator[Verdict]:
    """All goals of a model."""
    yield from speed_verdicts(results)
    best = results.ours()[0]
    yield from share_verdicts(results, best)
    yield from growth_verdicts(results, best)


def speed_verdicts(results: Results) -> Iterator[Verdict]:
    """Speed over llama.cpp's builds."""
    model, light = results.model, is_light(results.model)
    amx = contestant(results, lambda isa: isa == "x86-64-amx")
    v4 = contestant(results, lambda isa: level_of(isa) == "avx512")
    v3 = contestant(results, lambda isa: level_of(isa) == "avx2")
    huge_pages, small_pages = (1.1, 1.4) if light else (1.3, 1.7)
    rows = (
        ("prefill over llama.cpp, AMX, 2 MB pages", amx, ["native-2m"], "prefill", 5.0),
        ("decode over llama.cpp, AMX, 2 MB pages", amx, ["native-2m"], "decode", huge_pages),
        ("decode over llama.cpp, AMX, default pages", amx, ["native"], "decode", small_pages),
        ("prefill over llama.cpp, AVX-512", v4, ["avx512", "avx512-2m"], "prefill", 3.0),
        ("decode over llama.cpp, AVX-512", v4, ["avx512", "avx512-2m"], "decode", 1.3),
        ("prefill over llama.cpp, AVX2", v3, ["avx2"], "prefill", 1.5),
        ("decode over llama.cpp, AVX2", v3, ["avx2"], "decode", 1.1),
    )
    for goal, ours, peers, figure, limit in rows:
        found = least_ratio(results, ours, peers, figure)
        yield Verdict(goal, model, limit, False, found)


def share_verdicts(results: Results, ours: str) -> Iterator[Verdict]:
    """How much of the machine is used, and how much of a token's time is not the graph."""
    model = results.model
    read = middle(results.read_shares(ours))
    yield Verdict("decode: weight bytes/s over read bandwidth", model, 0.85, False, read)
    tiles = results.work[ours]["prefill_unit"].endswith("_tiles")
    operations = middle(results.operations_shares(ours)) if tiles else None
    yield Verdict("prefill: operations/s over the tiles' limit", model, 0.5, False, operations)
    for kind in ("greedy", "sampled"):
        share = middle(results.values(ours, f"python_{kind}"))
        yield Verdict(f"Python's part of a token's time, {kind}", model, 0.05, True, share)


def growth_verdicts(results: Results, ours: str) -> Iterator[Verdict]:
    """Sequences together, the first token, and how cost grows with length."""
    model, sizes = results.model, results.settings
    together = middle(results.per_round(ours, "together", "alone"))
    goal = f"{sizes['sequences']} sequences together over one"
    yield Verdict(goal, model, 4.0, False, together)
    if is_quick(model):
        first = middle(results.values(ours, "first_token_s"))
        yield Verdict(FIRST_TOKEN, model, FIRST_TOKEN_SECONDS, True, first)
    prefill = middle(results.per_round(ours, "prefill", "prefill_long"))
    goal = f"prefill per token with {sizes['long']} over {sizes['prompt']} tokens"
    yield Verdict(goal, model, 1.6, True, prefill)
    decode = middle(results.long_decode(ours))
    goal = f"decode after {sizes['long']} over {sizes['depth']} tokens, cache bytes aside"
    yield Verdict(goal, model, 1.25, True, decode)
