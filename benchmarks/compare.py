"""Time ggufc and llama.cpp side by side on the same files, interleaved, and print medians and
ratios.

    python benchmarks/compare.py MODEL.gguf [...] [--peers native-2m avx512] [--rounds 5]

Every round runs each contestant once, in turn, each in its own process; a ratio is the median of
the rounds' ratios, so that a machine whose speed drifts does not favour anyone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from peers import PEERS, Peer, ensure

HERE = Path(__file__).parent
Figures = dict[str, list[float]]  # "prefill" and "decode": tokens per second, one a round


def time_ggufc(bundle: Path, args: argparse.Namespace) -> tuple[float, float]:
    """Prefill and decode speed of one process of ours."""
    command = [sys.executable, "-m", "ggufc", "bench", str(bundle), "--json", "-r", "1"]
    command += ["-p", str(args.prompt), "-n", str(args.generate), "-t", str(args.threads)]
    if args.isa:
        command += ["--isa", args.isa]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return out["prefill"]["tok_s"][0], out["decode"]["tok_s"][0]


def time_peer(
    peer: Peer, python: Path, model: Path, args: argparse.Namespace
) -> tuple[float, float]:
    """Prefill and decode speed of one process of the peer."""
    command = [str(python), str(HERE / "peer_llama_cpp.py"), str(model)]
    command += ["--prompt", str(args.prompt), "--generate", str(args.generate)]
    command += ["--threads", str(args.threads)]
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, env=peer.environment()
    )
    out = json.loads(run.stdout.splitlines()[-1])
    return out["prefill_tok_s"][0], out["decode_tok_s"][0]


def compile_bundle(model: Path, cache: Path) -> Path:
    """The model's bundle for this machine, compiled once."""
    bundle = cache / f"{model.stem}.ggufc"
    if not bundle.exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ggufc", "compile", str(model), "-o", str(bundle)]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return bundle


def compare(model: Path, args: argparse.Namespace) -> dict[str, Figures]:
    """All rounds of one model."""
    bundle = compile_bundle(model, args.cache / "bundles")
    peers = [PEERS[name] for name in args.peers]
    pythons = {peer.name: ensure(peer, args.cache / "peers") for peer in peers}
    figures: dict[str, Figures] = {
        name: {"prefill": [], "decode": []} for name in ("ggufc", *pythons)
    }
    for number in range(args.rounds):
        print(f"{model.stem}: round {number + 1} of {args.rounds}", file=sys.stderr)
        _record(figures["ggufc"], time_ggufc(bundle, args))
        for peer in peers:
            _record(figures[peer.name], time_peer(peer, pythons[peer.name], model, args))
    return figures


def _record(figures: Figures, speeds: tuple[float, float]) -> None:
    figures["prefill"].append(speeds[0])
    figures["decode"].append(speeds[1])


def table(name: str, figures: dict[str, Figures]) -> str:
    """Medians (lowest to highest) and our median ratio to each contestant."""
    lines = [
        f"{name}",
        f"  {'':14}{'prefill tok/s':>26}{'ours/':>8}{'decode tok/s':>26}{'ours/':>8}",
    ]
    for contestant, speeds in figures.items():
        cells = [f"  {contestant:14}"]
        for phase in ("prefill", "decode"):
            values = speeds[phase]
            spread = f"{median(values):.1f} ({min(values):.1f}-{max(values):.1f})"
            cells.append(f"{spread:>26}{ratio(figures, contestant, phase):>8.2f}")
        lines.append("".join(cells))
    return "\n".join(lines)


def ratio(figures: dict[str, Figures], contestant: str, phase: str) -> float:
    """The median over rounds of our speed over the contestant's."""
    pairs = zip(figures["ggufc"][phase], figures[contestant][phase], strict=True)
    return median(ours / theirs for ours, theirs in pairs)


def conditions(args: argparse.Namespace) -> dict[str, Any]:
    """What the figures were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [s for s in cpuinfo.read_text().splitlines() if s.startswith("model name")]
    return {
        "processor": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
        "threads": args.threads,
        "prompt_tokens": args.prompt,
        "generated_tokens": args.generate,
        "peers": {name: PEERS[name].cmake_args for name in args.peers},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=["native", "native-2m"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", help="run ours at this instruction set instead of the best")
    parser.add_argument("--cache", type=Path, default=HERE.parent / ".cache")
    parser.add_argument("--json", type=Path, help="also write everything measured here")
    args = parser.parse_args()
    before = conditions(args)
    print(json.dumps(before), file=sys.stderr)
    results = {}
    for model in args.models:
        results[model.stem] = compare(model, args)
        print(table(model.stem, results[model.stem]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"conditions": before, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
