"""Who is timed: ggufc at an instruction set, or a peer. Every figure comes from a process of its
own, with a warm-up in it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from peers import HERE, Peer

Figures = dict[str, float]


class ContestantError(Exception):
    """A contestant that cannot run a model; the message is the last line that it wrote."""


@dataclass(frozen=True)
class Settings:
    """The sizes of everything that is timed, in tokens."""

    threads: int = 2
    prompt: int = 512
    generate: int = 128
    context: int = 4096
    long: int = 4096
    depth: int = 128
    steps: int = 32
    sequences: int = 8

    @property
    def room(self) -> int:
        """The context that the longest of it takes."""
        return max(self.prompt, self.generate, self.long + self.steps, self.depth + self.steps)


class Contestant(Protocol):
    """Something that runs GGUF files."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def describe(self) -> dict[str, Any]:
        """How it was built and is run."""

    def measure(self, task: str, model: Path) -> Figures:
        """The figures of one task of `TASKS`; none where the task is not for it. Raises
        ContestantError."""


# What is measured in each round, in this order: speeds, the first token, and of ggufc alone how
# cost grows with length, and sequences decoded together.
TASKS = ("speed", "first", "growth", "batch")


def run(command: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The JSON object that a program prints as its last line."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        reason = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        raise ContestantError(reason)
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


@dataclass(frozen=True)
class PeerContestant:
    """A peer, run by its own interpreter."""

    peer: Peer
    python: Path
    settings: Settings

    @property
    def name(self) -> str:
        return self.peer.name

    def describe(self) -> dict[str, Any]:
        """How it was built and is run."""
        built = (self.python.parent.parent / "built").read_text().strip()
        return {
            "program": self.peer.package,
            "flags": self.peer.cmake_args,
            "built": built,
            "pages": self.peer.pages,
            "threads": self.settings.threads,
        }

    def measure(self, task: str, model: Path) -> Figures:
        """Speeds and the first token."""
        if task not in ("speed", "first"):
            return {}
        sizes = self.settings
        command = [str(self.python), str(HERE / self.peer.script), str(model)]
        command += ["--prompt", str(sizes.prompt), "--generate", str(sizes.generate)]
        command += ["--threads", str(sizes.threads), "--context", str(sizes.context)]
        command += ["--first-token"] if task == "first" else []
        found = run(command, self.peer.environment())
        wanted = ("first_token_s",) if task == "first" else ("prefill", "decode", "huge_bytes")
        return {name: float(found[name]) for name in wanted}


@dataclass(frozen=True)
class Ours:
    """ggufc's code of one instruction set; `name` is `ggufc` for the best of this machine."""

    name: str
    isa: str
    bundles: dict[Path, Path]
    settings: Settings
    is_best: bool = True

    def describe(self) -> dict[str, Any]:
        """How it is run."""
        return {"program": "ggufc", "isa": self.isa, "threads": self.settings.threads}

    def measure(self, task: str, model: Path) -> Figures:
        """All tasks; the last two only of the best code."""
        sizes = self.settings
        if task in ("growth", "batch") and not self.is_best:
            return {}
        if task == "speed":
            found = self._bench(model, "-p", sizes.prompt, "-n", sizes.generate)
            shares = found["python_share"]
            return {
                "prefill": found["prefill"]["tok_s"][0],
                "decode": found["decode"]["tok_s"][0],
                "python_greedy": shares["greedy"],
                "python_sampled": shares["sampled"],
                "load_s": found["load_s"],
                "huge_weights": found["weights_on_huge_pages"] or 0.0,
            }
        if task == "first":
            flags = ("-p", 1, "-n", 1, "-c", sizes.context, "--first-token", 1)
            return {"first_token_s": self._bench(model, *flags)["first_token_s"]}
        return self._growth(model) if task == "growth" else self._batch(model)

    def _growth(self, model: Path) -> Figures:
        """Speed of a long prompt, and of decode after a short text and after a long one."""
        sizes, steps = self.settings, ("-n", self.settings.steps)
        long = self._bench(model, "-p", sizes.long, *steps, "-d", sizes.long)
        short = self._bench(model, "-p", 1, *steps, "-d", sizes.depth)
        return {
            "prefill_long": long["prefill"]["tok_s"][0],
            "decode_long": long["decode"]["tok_s"][0],
            "decode_short": short["decode"]["tok_s"][0],
        }

    def _batch(self, model: Path) -> Figures:
        """Tokens per second of all sequences together, and of one alone."""
        sizes = self.settings
        flags = ("-p", 1, "-n", sizes.steps)
        many = self._bench(model, *flags, "--sequences", sizes.sequences)
        one = self._bench(model, *flags)
        return {"together": many["decode"]["tok_s"][0], "alone": one["decode"]["tok_s"][0]}

    def _bench(self, model: Path, *flags: str | int) -> dict[str, Any]:
        command = [sys.executable, "-m", "ggufc", "bench", str(self.bundles[model]), "--json"]
        command += ["-r", "1", "-t", str(self.settings.threads), "--isa", self.isa]
        if "--first-token" not in flags:
            command += ["--first-token", "0"]
        return run([*command, *map(str, flags)])
