"""Progress bars on standard error for the steps of a compile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ggufc.compiler.progress import Progress, Quiet

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


@contextmanager
def bars() -> Iterator[Progress]:
    """Bars while the block runs, one a step; nothing where standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield Quiet()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(stderr=True)) as display:
        shown = Bars(display)
        yield shown
        shown.finish()


class Bars:
    """Steps as the tasks of one display."""

    def __init__(self, display: RichProgress) -> None:
        self._display = display
        self._task: TaskID | None = None

    def step(self, title: str, total: int | None = None) -> None:
        """Complete the bar of the step before and begin one."""
        self.finish()
        self._task = self._display.add_task(title, total=total)

    def advance(self, count: int) -> None:
        """Move the current bar."""
        if self._task is not None:
            self._display.advance(self._task, count)

    def finish(self) -> None:
        """Complete the current bar."""
        if self._task is not None:
            self._display.update(self._task, total=1, completed=1)
            self._display.stop_task(self._task)
