"""The part of `ggufc bench` that says where the time goes: measuring and showing profiles."""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ggufc.profiling import report
from ggufc.profiling.bounds import Bounds, weight_pages
from ggufc.profiling.limits import Limits, machine_limits, processor
from ggufc.profiling.profile import GraphProfile, Profiler
from ggufc.profiling.workload import Workload

if TYPE_CHECKING:
    from rich.table import Table

    from ggufc.runtime.model import Model

PAGE_NAMES = {"2m": "2 MB", "4k": "4 KB"}
WIDTH_OF_A_FILE = 140
# Above this part of a limit, the limit was measured wrongly.
TOO_MUCH = 1.05
EXCEEDED = "the limits were measured while the machine was busy: use --measure-again"


@dataclass(frozen=True)
class Profile:
    """Both graphs, and the machine that they ran on."""

    limits: Limits
    bounds: Bounds
    graphs: tuple[GraphProfile, ...]


def measure(model: "Model", arguments: argparse.Namespace) -> Profile:
    """Profile both graphs of a loaded model."""
    engine, repetitions = model.engine, arguments.repetitions
    profiler = Profiler(model.bundle, engine)
    work = Workload(engine, sequences=arguments.sequences)
    prefill = profiler.prefill(work, arguments.n_prompt, repetitions)
    work.fill(arguments.depth)
    decode = profiler.decode(work, arguments.n_gen, arguments.depth, repetitions)
    limits = machine_limits(engine.isa, engine.threads, again=arguments.measure_again)
    return Profile(limits, Bounds(limits, weight_pages(engine.huge_weights)), (prefill, decode))


def as_json(profile: Profile) -> dict[str, Any]:
    """The profile as what it adds to the figures of `bench`."""
    graphs = {g.graph: report.as_json(g, profile.bounds) for g in profile.graphs}
    return {
        "processor": processor(),
        "limits": report.limits_data(profile.limits),
        "profile": graphs,
    }


def show(profile: Profile, *, each: bool) -> None:
    """Print the profile for people."""
    from rich.console import Console

    console = Console(soft_wrap=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    console.print()
    console.print(limits_text(profile.limits), markup=False)
    for graph in profile.graphs:
        reached = report.summary(graph, profile.bounds)
        console.print()
        console.print(graph_table(graph, profile.bounds, each=each))
        console.print(reached_text(reached), markup=False)
        if max(reached.read_share, reached.operations_share) > TOO_MUCH:
            console.print(EXCEEDED)


def limits_text(limits: Limits) -> str:
    """What the machine can do."""
    places = {"2m": "memory on 2 MB pages", "4k": "on 4 KB pages", "cache": "cache"}
    read = ", ".join(f"{places[name]} {speed / 1e9:.1f}" for name, speed in limits.read.items())
    operations = ", ".join(f"{unit} {speed / 1e9:.0f}" for unit, speed in limits.operations.items())
    return (
        f"limits of this machine with {limits.threads} threads\n"
        f"  reading, GB/s: {read}\n  operations, GOP/s: {operations}"
    )


def graph_table(graph: GraphProfile, bounds: Bounds, *, each: bool) -> "Table":
    """One graph: a row for each kernel or op, and their sum; amounts are those of one call."""
    from rich.table import Table

    ops = report.op_rows(graph, bounds)
    rows = ops if each else report.kernel_rows(ops)
    whole = sum(row.seconds for row in ops)
    first, *others = report.HEADINGS
    title = f"{graph.graph}: {graph.tokens} tokens in {graph.calls} calls, per call"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("op" if each else first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="left" if heading == "bound by" else "right")
    for row in [*rows, report.total_row("total", ops)]:
        table.add_row(*report.cells(row, graph.calls, whole))
    return table


def reached_text(reached: report.Summary) -> str:
    """What the whole graph reaches of the limits."""
    return (
        f"weights {reached.weight_bytes_s / 1e9:.1f} GB/s: {reached.read_share:.1%} of reading "
        f"memory on {PAGE_NAMES[reached.pages]} pages; "
        f"{reached.operations_s / 1e9:.1f} GOP/s: {reached.operations_share:.1%} of {reached.unit}"
    )
