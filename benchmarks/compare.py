"""Time ggufc and its peers side by side on the same files, interleaved.

    python benchmarks/compare.py MODEL.gguf [...] [--peers native-2m avx512] [--rounds 5]

Every round runs each contestant once, in turn, each in a process of its own. Each model gets a JSON
file with all that was measured; of all files in the folder of results, a page in Markdown and a
picture are made. Models can be measured by several commands: the page is made of all of them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from bundles import ensure_bundle
from contestants import TASKS, Contestant, ContestantError, Ours, PeerContestant, Settings, run
from machine import load, machine
from peers import HERE, PEERS, ensure
from plot import plot
from report import PLOT, page
from results import Results, Round, level_of, load_all
from work import graph_work

from ggufc.backends.llvm.detect import host_isas

LEVELS = ("avx512", "avx2")


def default_isas() -> list[str]:
    """The best instruction set of this machine, and the best of each level that peers are built
    for."""
    here = host_isas()
    isas = here[:1]
    for level in LEVELS:
        best = next((isa for isa in here if level_of(isa) == level), None)
        isas += [best] if best is not None and best not in isas else []
    return isas


def default_peers() -> list[str]:
    """The peers whose instructions this machine has."""
    levels = {"native", *(level_of(isa) for isa in host_isas())}
    return [peer.name for peer in PEERS.values() if peer.level in levels]


def contestants(
    args: argparse.Namespace, settings: Settings, bundles: dict[Path, Path]
) -> list[Contestant]:
    """Everyone who is timed, ours first. Builds the peers that are not there yet."""
    ours: list[Contestant] = [
        Ours("ggufc" if i == 0 else f"ggufc-{isa}", isa, bundles, settings, is_best=i == 0)
        for i, isa in enumerate(args.isas)
    ]
    peers = [PEERS[name] for name in args.peers]
    root = args.cache / "peers"
    return ours + [PeerContestant(peer, ensure(peer, root), settings) for peer in peers]


def measure(
    model: Path, everyone: list[Contestant], args: argparse.Namespace, settings: Settings
) -> None:
    """All rounds of one model; its file is written after each."""
    path = args.results / f"{model.stem}.json"
    results = Results(
        model.stem,
        model.stat().st_size,
        machine(),
        asdict(settings),
        {one.name: one.describe() for one in everyone},
        work={
            one.name: graph_work(one.bundles[model], one.isa, settings)
            for one in everyone
            if isinstance(one, Ours)
        },
    )
    for number in range(args.rounds):
        print(f"{model.stem}: round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        before = load()
        limits = measured_limits(everyone, settings.threads)
        figures = one_round(model, everyone, args.tasks, results.errors)
        results.rounds.append(Round(before, load(), limits, figures))
        results.save(path)


def measured_limits(
    everyone: list[Contestant], threads: int
) -> dict[str, dict[str, dict[str, float]]]:
    """What the machine can do now, by instruction set."""
    isas = [one.isa for one in everyone if isinstance(one, Ours)]
    script = str(HERE / "limits.py")
    return {isa: run([sys.executable, script, isa, str(threads)]) for isa in isas}


def one_round(
    model: Path, everyone: list[Contestant], tasks: list[str], errors: dict[str, str]
) -> dict[str, dict[str, float]]:
    """Each task, by each contestant in turn; who failed once is left out from then on."""
    figures: dict[str, dict[str, float]] = {one.name: {} for one in everyone}
    for task in tasks:
        for one in everyone:
            if one.name in errors:
                continue
            try:
                figures[one.name] |= one.measure(task, model)
            except ContestantError as error:
                errors[one.name] = str(error)
                print(f"{one.name}: {error}", file=sys.stderr, flush=True)
    return figures


def write_page(folder: Path) -> Path:
    """The page and the picture of all results in the folder."""
    all_results = load_all(folder)
    (folder / PLOT).write_text(plot(all_results))
    (folder / "README.md").write_text(page(all_results))
    return folder / "README.md"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("models", nargs="*", type=Path, metavar="MODEL.gguf")
    add("--peers", nargs="*", choices=list(PEERS), default=default_peers())
    add("--isas", nargs="*", default=default_isas(), help="default: the best of each level")
    add("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    add("--rounds", type=int, default=5)
    add("--cache", type=Path, default=HERE.parent / ".cache", help="peers and bundles")
    add("--results", type=Path, help="folder of results (default: benchmarks/results in the cache)")
    add("--prepare", action="store_true", help="build peers and bundles, and measure nothing")
    for name, value in asdict(Settings()).items():
        add(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.results = args.results or args.cache / "benchmarks" / "results"
    return args


def main() -> int:
    """Measure, and write what was found."""
    args = arguments()
    settings = Settings(**{name: getattr(args, name) for name in asdict(Settings())})
    args.results.mkdir(parents=True, exist_ok=True)
    bundles: dict[Path, Path] = {}
    everyone = contestants(args, settings, bundles)
    for model in args.models:
        bundles[model] = ensure_bundle(model, args.cache / "benchmarks" / "bundles", args.isas)
    for model in args.models if not args.prepare else ():
        measure(model, everyone, args, settings)
    if not args.prepare:
        print(write_page(args.results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
