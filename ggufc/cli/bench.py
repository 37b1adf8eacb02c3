"""`ggufc bench`: how fast a bundle reads a prompt, writes an answer, loads, and gives its first
token; with `--profile`, where the time goes."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggufc.cli import UsageError
from ggufc.cli.common import add_model_arguments, bundle_path, open_model
from ggufc.cli.numbers import integer
from ggufc.runtime.errors import RunError

if TYPE_CHECKING:
    from ggufc.profiling.workload import Workload
    from ggufc.runtime.model import Model

FIRST_PROMPT_TOKENS = 20
PYTHON_TOKENS = 17
WORDS = ("the", "quick", "brown", "fox", "jumps", "over")
LEAST = {
    "n_prompt": 1,
    "n_gen": 1,
    "repetitions": 1,
    "depth": 0,
    "sequences": 1,
    "first_token": 0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("-p", "--n-prompt", type=integer, default=512, help="tokens of prefill (default: 512)")
    add("-n", "--n-gen", type=integer, default=128, help="steps of decode (default: 128)")
    add("-r", "--repetitions", type=integer, default=5, help="runs of each (default: 5)")
    add(
        "-d",
        "--depth",
        type=integer,
        default=0,
        help="tokens in the cache before decode (default: 0)",
    )
    add("--sequences", type=integer, default=1, metavar="B", help="decode B together (default: 1)")
    add(
        "--first-token",
        type=integer,
        default=3,
        metavar="N",
        help="start N processes that time their first token (default: 3)",
    )
    add("--profile", action="store_true", help="time each kernel, beside what this machine can do")
    add("--each", action="store_true", help="with --profile: a row for each op, not each kernel")
    add("--measure-again", action="store_true", help="forget what this machine was measured to do")
    add("--format", choices=("text", "json"), default="text", help="default: text")
    add("--json", action="store_const", const="json", dest="format", help="as --format json")


def main(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    check(arguments)
    arguments.model = bundle_path(arguments.model)
    profile = None
    with open_model(arguments, sequences=arguments.sequences) as model:
        figures = measure(model, arguments)
        figures["peak_rss_bytes"] = peak_memory()
        prompt = short_prompt(model)
        if arguments.profile:
            from ggufc.cli import bench_profile

            profile = bench_profile.measure(model, arguments)
            figures |= bench_profile.as_json(profile)
    if arguments.first_token:
        times = [first_token(arguments, prompt) for _ in range(arguments.first_token)]
        figures["first_token_s"] = statistics.median(times)
    print(json.dumps(figures) if arguments.format == "json" else table(figures))
    if profile is not None and arguments.format == "text":
        bench_profile.show(profile, each=arguments.each)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Refuse numbers that make no sense. Raises UsageError."""
    for name, least in LEAST.items():
        if (value := getattr(arguments, name)) < least:
            raise UsageError(f"{name.replace('_', '-')} {value}: expected at least {least}")
    for flag in ("each", "measure_again"):
        if getattr(arguments, flag) and not arguments.profile:
            raise UsageError(f"--{flag.replace('_', '-')} is for --profile")


def peak_memory() -> int:
    """The most memory that this process had resident, in bytes. (What `getrusage` gives counts
    from before the program was started.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measure(model: "Model", arguments: argparse.Namespace) -> dict[str, Any]:
    """Speed of both graphs, over random tokens."""
    from ggufc.profiling.python_share import python_shares
    from ggufc.profiling.workload import Workload

    work = Workload(model.engine, sequences=arguments.sequences)
    prompt, steps, depth = arguments.n_prompt, arguments.n_gen, arguments.depth
    work.check(max(prompt, depth + steps))
    prefill_rate(work, prompt)  # touches the arena and the caches once
    prefill = [prefill_rate(work, prompt) for _ in range(arguments.repetitions)]
    if (depth, work.sequences) != (prompt, 1):  # else the cache holds just that
        work.fill(depth)
    decode = [decode_rate(work, steps, depth) for _ in range(arguments.repetitions)]
    return {
        "model": model.manifest.model.name,
        "isa": model.engine.isa,
        "threads": model.engine.threads,
        "prefill": {"tokens": prompt, "tok_s": prefill},
        "decode": {
            "tokens": steps,
            "sequences": arguments.sequences,
            "depth": depth,
            "tok_s": decode,
        },
        "python_share": python_shares(model, min(PYTHON_TOKENS, model.engine.context // 2)),
        "weights_on_huge_pages": model.engine.huge_weights,
        "load_s": model.load_seconds,
    }


def prefill_rate(work: "Workload", tokens: int) -> float:
    """Tokens per second of a prompt on an empty cache."""
    calls = work.prefill(tokens)
    started = time.perf_counter()
    for call in calls:
        call.run()
    return tokens / (time.perf_counter() - started)


def decode_rate(work: "Workload", steps: int, depth: int) -> float:
    """Tokens per second of all sequences together, a token each a step."""
    calls = list(work.decode(steps, depth))
    started = time.perf_counter()
    for call in calls:
        call.run()
    return steps * work.sequences / (time.perf_counter() - started)


def short_prompt(model: "Model") -> str:
    """A text of about 20 tokens."""
    words = ["the"]
    while len(model.tokenizer.encode(" ".join(words))) < FIRST_PROMPT_TOKENS:
        words.append(WORDS[len(words) % len(WORDS)])
    return " ".join(words)


def first_token(arguments: argparse.Namespace, prompt: str) -> float:
    """Seconds from the start of a new process to its first token after a prompt."""
    command = [sys.executable, "-m", "ggufc", "run", str(arguments.model), "--no-template"]
    command += ["-n", "1", "--json", "-p", prompt]
    for flag, value in (
        ("-t", arguments.threads),
        ("-c", arguments.ctx_size),
        ("--isa", arguments.isa),
    ):
        command += [] if value is None else [flag, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(done.stderr.strip().removeprefix("ggufc: "))
    return float(json.loads(done.stdout)["timings"]["first_token_s"])


def table(figures: dict[str, Any]) -> str:
    """The figures for people: medians, with the extremes of the runs."""
    lines = [f"{figures['model']}, {figures['isa']}, {figures['threads']} threads"]
    for graph in ("prefill", "decode"):
        rates = figures[graph]["tok_s"]
        lines.append(
            f"{graph:<12} {statistics.median(rates):9.1f} tokens/s of {figures[graph]['tokens']}"
            f"{how(figures[graph])} ({min(rates):.1f} to {max(rates):.1f})"
        )
    lines.append(f"{'load':<12} {figures['load_s']:9.3f} s")
    if "first_token_s" in figures:
        lines.append(f"{'first token':<12} {figures['first_token_s']:9.3f} s from process start")
    shares = figures["python_share"]
    lines.append(
        f"{'in Python':<12} {shares['greedy']:9.1%} of a token's time, "
        f"{shares['sampled']:.1%} with sampling"
    )
    lines.append(f"{'peak memory':<12} {figures['peak_rss_bytes'] / 1e6:9.1f} MB")
    return "\n".join(lines)


def how(figures: dict[str, Any]) -> str:
    """In which way decode was measured, where it was not the plain one."""
    sequences, depth = figures.get("sequences", 1), figures.get("depth", 0)
    together = f" each of {sequences} sequences" if sequences > 1 else ""
    return together + (f" after {depth}" if depth else "")
