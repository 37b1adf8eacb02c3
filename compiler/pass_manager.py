"""Running passes: the Pass protocol, the loop over a pipeline, and instruments that watch it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from ggufc.compiler.errors import CompileError
from ggufc.compiler.text_files import write_text
from ggufc.ir import IRError, Module, print_module, verify


class PassError(CompileError):
    """A pass cannot do its work, or has left a module that does not verify."""


class Pass(Protocol):
    """One rewrite of a module, in place.

    `name` is its file's name in kebab case; `stage` names the rules that the module keeps
    afterwards (graph, fused or planned). The module verifies before and after.
    """

    name: ClassVar[str]
    stage: ClassVar[str] = "fused"

    def run(self, module: Module) -> None:
        """Rewrite `module` in place."""


class Instrument(Protocol):
    """Watches a pipeline; `number` counts its passes from 1."""

    def before(self, number: int, step: Pass, module: Module) -> None:
        """Called before a pass runs."""

    def after(self, number: int, step: Pass, module: Module) -> None:
        """Called after a pass has run."""


def run_pipeline(
    module: Module, passes: Sequence[Pass], instruments: Iterable[Instrument] = ()
) -> None:
    """Run the passes in order on `module`, in place, verifying it after each.

    A PassError names the pass and what is wrong.
    """
    watchers = (Verify(), *instruments)
    for number, step in enumerate(passes, 1):
        for watcher in watchers:
            watcher.before(number, step, module)
        try:
            step.run(module)
        except IRError as error:
            raise PassError(f"pass {step.name}: {error}") from error
        for watcher in watchers:
            watcher.after(number, step, module)


class Verify:
    """Checks the module after every pass; always on."""

    def before(self, number: int, step: Pass, module: Module) -> None:
        """Nothing: what the previous pass left has been checked."""

    def after(self, number: int, step: Pass, module: Module) -> None:
        """Raise a PassError if the pass broke a rule of its stage."""
        try:
            verify(module, step.stage)
        except IRError as error:
            raise PassError(f"after pass {step.name}: {error}") from error


class Time:
    """Measures every pass: `seconds` by pass name, in the order of running."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = 0.0

    def before(self, number: int, step: Pass, module: Module) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def after(self, number: int, step: Pass, module: Module) -> None:
        """Stop the clock."""
        spent = time.perf_counter() - self._start
        self.seconds[step.name] = self.seconds.get(step.name, 0.0) + spent


class Dump:
    """Writes the module to numbered files: `00-input.ir`, then `03-fuse-glu.ir` and so on.

    Numbers go on from `first` - 1, so that several pipelines can share a directory.
    """

    def __init__(self, directory: Path, first: int = 1) -> None:
        self.directory = directory
        self.first = first

    def before(self, number: int, step: Pass, module: Module) -> None:
        """Write what the first pass is given."""
        if number == 1 and self.first == 1:
            self._write("00-input.ir", module)

    def after(self, number: int, step: Pass, module: Module) -> None:
        """Write what the pass has made."""
        self._write(f"{self.first + number - 1:02d}-{step.name}.ir", module)

    def _write(self, name: str, module: Module) -> None:
        write_text(self.directory / name, print_module(module))


class KeepAfter:
    """Keeps a copy of the module as the last run of one pass left it (no pass: none)."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.module: Module | None = None
        self.stage = ""

    def before(self, number: int, step: Pass, module: Module) -> None:
        """Nothing."""

    def after(self, number: int, step: Pass, module: Module) -> None:
        """Copy the module, if it is the pass that was asked for."""
        if step.name == self.name:
            self.module, self.stage = module.clone(), step.stage
