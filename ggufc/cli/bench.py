"""`ggufc bench`: tokens per second of prefill and decode, load time, and process start to first
token."""

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
from ggufc.runtime.errors import RunError

if TYPE_CHECKING:
    from ggufc.runtime.model import Model
    from ggufc.runtime.session import Session

FIRST_PROMPT_TOKENS = 20
WORDS = ("the", "quick", "brown", "fox", "jumps", "over")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_model_arguments(parser)
    add = parser.add_argument
    add("-p", "--n-prompt", type=int, default=512, help="tokens of prefill (default: 512)")
    add("-n", "--n-gen", type=int, default=128, help="tokens of decode (default: 128)")
    add("-r", "--repetitions", type=int, default=5, help="runs of each (default: 5)")
    add("--json", action="store_true", help="print one JSON object")


def main(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    for name in ("n_prompt", "n_gen", "repetitions"):
        if (value := getattr(arguments, name)) < 1:
            raise UsageError(f"{name.replace('_', '-')} {value}: expected at least 1")
    arguments.model = bundle_path(arguments.model)
    with open_model(arguments) as model:
        figures = measure(model, arguments.n_prompt, arguments.n_gen, arguments.repetitions)
        prompt = short_prompt(model)
    times = [first_token(arguments, prompt) for _ in range(3)]
    figures["first_token_s"] = statistics.median(times)
    figures["peak_rss_bytes"] = peak_memory()
    print(json.dumps(figures) if arguments.json else table(figures))
    return 0


def peak_memory() -> int:
    """The most memory that this process had resident, in bytes. (What `getrusage` gives counts
    from before the program was started.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measure(model: "Model", n_prompt: int, n_gen: int, repetitions: int) -> dict[str, Any]:
    """Speed of both graphs, over random tokens."""
    import numpy as np

    random = np.random.default_rng(0)
    vocabulary = model.manifest.model.vocab_size
    prompt = random.integers(0, vocabulary, n_prompt).tolist()
    answer = random.integers(0, vocabulary, n_gen).tolist()
    with model.session() as session:
        session.check_room(max(n_prompt, n_gen))
        prefill_rate(session, prompt)  # touches the arena and the caches once
        prefill = [prefill_rate(session, prompt) for _ in range(repetitions)]
        decode = [decode_rate(session, answer) for _ in range(repetitions)]
    return {
        "model": model.manifest.model.name,
        "isa": model.engine.isa,
        "threads": model.engine.threads,
        "prefill": {"tokens": n_prompt, "tok_s": prefill},
        "decode": {"tokens": n_gen, "tok_s": decode},
        "load_s": model.load_seconds,
    }


def prefill_rate(session: "Session", ids: list[int]) -> float:
    """Tokens per second of a prompt on an empty cache."""
    session.clear()
    started = time.perf_counter()
    session.prefill(ids)
    return len(ids) / (time.perf_counter() - started)


def decode_rate(session: "Session", ids: list[int]) -> float:
    """Tokens per second of single tokens, from an empty cache on."""
    session.clear()
    started = time.perf_counter()
    for token in ids:
        session.decode(token)
    return len(ids) / (time.perf_counter() - started)


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
            f"{graph:<12} {statistics.median(rates):9.1f} tokens/s of {figures[graph]['tokens']} "
            f"({min(rates):.1f} to {max(rates):.1f})"
        )
    lines.append(f"{'load':<12} {figures['load_s']:9.3f} s")
    lines.append(f"{'first token':<12} {figures['first_token_s']:9.3f} s from process start")
    lines.append(f"{'peak memory':<12} {figures['peak_rss_bytes'] / 1e6:9.1f} MB")
    return "\n".join(lines)
