"""Results as a page of Markdown: what was measured on what, ratios, and goals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from goals import NOT_MEASURED, Verdict, verdicts
from results import Results, middle

PAGES = {"2m": "2 MB", "4k": "4 KB"}
PLOT = "ratios.svg"


def page(all_results: list[Results]) -> str:
    """The whole page."""
    lines = ["# Benchmarks", "", f"![ggufc's speed over each peer's]({PLOT})", ""]
    lines += machine_lines(all_results[0].machine)
    lines += contestant_lines(all_results)
    for results in all_results:
        lines += ["", f"## {results.model}", "", *model_lines(results)]
    lines += ["", "## Goals", "", *goal_lines([v for r in all_results for v in verdicts(r)])]
    return "\n".join(lines) + "\n"


def machine_lines(machine: dict[str, Any]) -> Iterator[str]:
    """What everything was measured on."""
    yield (
        f"{machine['processor']}, {machine['processors']} processors, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; features that count: "
        f"{', '.join(machine['features']) or 'none'}. Linux {machine['kernel']}, huge pages "
        f"`{machine['huge_pages']}`. ggufc {machine['ggufc']}, commit `{machine['commit']}`."
    )
    yield ""


def contestant_lines(all_results: list[Results]) -> Iterator[str]:
    """How each contestant was built and run."""
    described = {k: v for results in all_results for k, v in results.contestants.items()}
    yield from table(
        ("contestant", "what", "how"),
        [(name, facts["program"], how(facts)) for name, facts in described.items()],
    )


def how(facts: dict[str, Any]) -> str:
    """Build flags or instruction set, pages and threads."""
    parts = [f"`{facts[key]}`" for key in ("isa", "flags") if facts.get(key)]
    parts += [f"{facts['pages']} pages"] if "pages" in facts else []
    return ", ".join([*parts, f"{facts['threads']} threads"])


def model_lines(results: Results) -> Iterator[str]:
    """Everything about one model."""
    settings = results.settings
    yield (
        f"{results.model_bytes / 1e6:.0f} MB; {len(results.rounds)} interleaved rounds; prefill of "
        f"{settings['prompt']} tokens, decode of {settings['generate']}. Medians, lowest and "
        "highest; ratios are medians of the rounds' ratios."
    )
    yield ""
    headings = ["", "prefill tok/s", "decode tok/s", "first token s"]
    for ours in results.ours():
        headings += [f"{ours} / it: prefill", "decode"]
    names = [*results.ours(), *results.peers()]
    yield from table(headings, [speed_row(results, name) for name in names])
    yield ""
    yield from (f"* {line}" for ours in results.ours() for line in own_lines(results, ours))
    yield from (f"* {line}" for line in measured_on(results))


def speed_row(results: Results, name: str) -> list[str]:
    """The speeds of one contestant, and ours over them where the two are comparable."""
    cells = [name]
    cells += [spread(results.values(name, f), 1) for f in ("prefill", "decode")]
    cells += [spread(results.values(name, "first_token_s"), 2)]
    for ours in results.ours():
        comparable = name in results.opponents(ours)
        for figure in ("prefill", "decode"):
            ratios = results.ratios(ours, name, figure) if comparable else []
            cells.append(f"{median(ratios):.2f}" if ratios else "")
    return cells


def spread(values: list[float], digits: int) -> str:
    """A median with the lowest and the highest value."""
    if not values:
        return NOT_MEASURED
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def own_lines(results: Results, ours: str) -> Iterator[str]:
    """What of the machine ggufc uses, and the figures that only it has."""
    work, read = results.work[ours], middle(results.read_shares(ours))
    if read is not None:
        yield (
            f"{ours}: decode streams weights at {read:.0%} of the read bandwidth on "
            f"{PAGES[results.pages(ours)]} pages; prefill makes operations at "
            f"{median(results.operations_shares(ours)):.0%} of the limit of {work['prefill_unit']}"
        )
    if results.values(ours, "together"):
        yield (
            f"{ours}: {results.settings['sequences']} sequences together "
            f"{spread(results.values(ours, 'together'), 1)} tok/s, "
            f"{median(results.per_round(ours, 'together', 'alone')):.2f} times one alone"
        )
    if results.values(ours, "prefill_long"):
        yield growth_line(results, ours)
    if results.values(ours, "python_greedy"):
        shares = [median(results.values(ours, f"python_{k}")) for k in ("greedy", "sampled")]
        yield f"{ours}: Python's part of a token's time {shares[0]:.1%}, sampled {shares[1]:.1%}"


def growth_line(results: Results, ours: str) -> str:
    """How cost grows with length."""
    sizes = results.settings
    slower = median(results.per_round(ours, "prefill", "prefill_long"))
    steps = median(results.per_round(ours, "decode_short", "decode_long"))
    return (
        f"{ours}: a token of prefill takes {slower:.2f} times as long with {sizes['long']} tokens; "
        f"of decode after {sizes['long']} tokens {steps:.2f} times as long as after "
        f"{sizes['depth']}, and {median(results.long_decode(ours)):.2f} times without reading the "
        "cache"
    )


def measured_on(results: Results) -> Iterator[str]:
    """The machine's limits and load in these rounds, and who could not run."""
    for isa, limits in limits_of(results).items():
        read = ", ".join(f"{PAGES.get(k, k)} {v / 1e9:.1f}" for k, v in limits["read"].items())
        units = ", ".join(f"{k} {v / 1e9:.0f}" for k, v in limits["operations"].items())
        yield f"limits measured meanwhile with {isa}: reading GB/s {read}; GOP/s {units}"
    before = [one.load_before[0] for one in results.rounds]
    after = [one.load_after[0] for one in results.rounds]
    if before:
        yield f"load average before {min(before):.1f}-{max(before):.1f}, after {max(after):.1f}"
    for name, reason in results.errors.items():
        yield f"{name}: {NOT_MEASURED}: {reason}"


def limits_of(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """Medians of what was measured of the machine, by instruction set."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for isa in dict.fromkeys(isa for one in results.rounds for isa in one.limits):
        every = [one.limits[isa] for one in results.rounds if isa in one.limits]
        found[isa] = {
            kind: {name: median(e[kind][name] for e in every) for name in every[0][kind]}
            for kind in ("read", "operations")
        }
    return found


def goal_lines(found: list[Verdict]) -> Iterator[str]:
    """A row for each goal, a column for each model."""
    models = list(dict.fromkeys(v.model for v in found))
    goals: dict[str, dict[str, Verdict]] = {}
    for verdict in found:
        goals.setdefault(verdict.goal, {})[verdict.model] = verdict
    yield from table(
        ["goal", *models],
        [[goal, *(cell(row.get(m)) for m in models)] for goal, row in goals.items()],
    )


def cell(verdict: Verdict | None) -> str:
    """What was found beside what is wanted."""
    if verdict is None or verdict.found is None:
        return NOT_MEASURED
    sign = "<=" if verdict.at_most else ">="
    mark = "yes" if verdict.reached else "**no**"
    return f"{verdict.found:.3g} {sign} {verdict.limit:g}: {mark}"


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    cells = list(headings)
    yield f"| {' | '.join(cells)} |"
    yield "|" + "---|" * len(cells)
    for row in rows:
        yield f"| {' | '.join(row)} |"
