"""What one rendering may use: a template is code from a downloaded file.

Everything that a template does goes through `tick`, `charge`, `charge_text` or `Budget.enter`,
before the work is done or the memory is taken. The budget of the rendering that runs in this
thread is kept in a context variable; code that runs outside of any has no limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ggufc.runtime.prompt.errors import TemplateLimitError

LONGEST_PADDING = 65_536
LARGEST_RANGE = 100_000
LARGEST_INTEGER_BITS = 4096
DEEPEST_NESTING = 128
_STEPS_BETWEEN_CHECKS = 512
_STEPS_PER_WEIGHT = 40
_SECONDS_PER_WEIGHT = 50e-6
_BYTES_PER_TEXT = 128
_BYTES_PER_CHARACTER = 4


@dataclass(frozen=True)
class Limits:
    """The most that one rendering may use.

    `steps` counts blocks, calls, items and comparisons; `memory` the bytes of all that is made,
    whether it is kept or not; `seconds` the processor time of the thread. Steps and seconds grow
    with the request: a long conversation may take longer.
    """

    template: int = 131_072
    """Characters of a template."""
    output: int = 8_388_608
    """Characters of the rendered text, and of any one string."""
    memory: int = 536_870_912
    steps: int = 4_000_000
    depth: int = 100
    """Calls of macros and functions inside each other."""
    seconds: float = 1.5


DEFAULT_LIMITS = Limits()


class Budget:
    """What is left of the limits of one rendering.

    `known` holds, for containers of the request by their id, how many steps a visit takes and the
    mark of what is in them; `weight` is the number of steps that a visit of the request takes.
    """

    def __init__(
        self, limits: Limits, known: dict[int, tuple[int, str]] | None = None, weight: int = 0
    ) -> None:
        self.limits = limits
        self.known = known or {}
        self.memory = limits.memory
        self.output = 0
        self.depth = 0
        self.steps = self._all_steps = limits.steps + _STEPS_PER_WEIGHT * weight
        self._seconds = limits.seconds + _SECONDS_PER_WEIGHT * weight
        self._deadline = time.thread_time() + self._seconds
        self._next_check = self.steps - _STEPS_BETWEEN_CHECKS

    def charge(self, steps: int) -> None:
        """Take steps. Raises TemplateLimitError when there are none left, or no time."""
        self.steps -= steps
        if self.steps < self._next_check:
            self._check()

    def _check(self) -> None:
        if self.steps < 0:
            raise TemplateLimitError(f"the template takes more than {self._all_steps} steps")
        if time.thread_time() > self._deadline:
            raise TemplateLimitError(f"the template takes more than {self._seconds:.1f} seconds")
        self._next_check = max(self.steps - _STEPS_BETWEEN_CHECKS, 0)

    def charge_memory(self, size: int) -> None:
        """Take bytes. Raises TemplateLimitError when there are none left."""
        self.memory -= size
        if self.memory < 0:
            raise TemplateLimitError(
                f"the template makes values of more than {self.limits.memory} bytes in all"
            )

    def charge_text(self, length: int) -> None:
        """Take what a string of `length` characters costs. Raises TemplateLimitError."""
        if length > self.limits.output:
            raise TemplateLimitError(
                f"the template makes a string of {length} characters, "
                f"allowed are {self.limits.output}"
            )
        self.charge_memory(_BYTES_PER_TEXT + _BYTES_PER_CHARACTER * length)
        self.charge(1 + (length >> 6))

    def charge_output(self, length: int) -> None:
        """Take characters of the rendered text. Raises TemplateLimitError."""
        self.output += length
        if self.output > self.limits.output:
            raise TemplateLimitError(
                f"the template writes more than {self.limits.output} characters"
            )

    def enter(self) -> None:
        """Begin a call; `leave` ends it. Raises TemplateLimitError when too many are open."""
        self.depth += 1
        self.charge(1)
        if self.depth > self.limits.depth:
            raise TemplateLimitError(f"the template makes calls more than {self.limits.depth} deep")

    def leave(self) -> None:
        """End a call."""
        self.depth -= 1


class _NoLimits(Budget):
    """The budget outside of any rendering."""

    def charge(self, steps: int) -> None:
        """Nothing."""

    def charge_memory(self, size: int) -> None:
        """Nothing."""

    def charge_text(self, length: int) -> None:
        """Nothing."""


_active: ContextVar[Budget] = ContextVar("prompt_budget")
_none = _NoLimits(DEFAULT_LIMITS)


def active() -> Budget:
    """The budget of the rendering that runs here."""
    return _active.get(_none)


@contextmanager
def limited(budget: Budget) -> Iterator[None]:
    """Make `budget` the one that `active` gives."""
    token = _active.set(budget)
    try:
        yield
    finally:
        _active.reset(token)


def tick() -> None:
    """One step."""
    _active.get(_none).charge(1)


def charge(steps: int) -> None:
    """So many steps."""
    _active.get(_none).charge(steps)


def charge_text(length: int) -> None:
    """A string of so many characters is about to be made."""
    _active.get(_none).charge_text(length)


def charge_items(count: int) -> None:
    """A list of so many items is about to be made."""
    budget = _active.get(_none)
    budget.charge_memory(64 + 8 * count)
    budget.charge(1 + (count >> 4))


def check_padding(width: int) -> None:
    """Refuse a width, precision or indentation that no prompt needs."""
    if not -LONGEST_PADDING <= width <= LONGEST_PADDING:
        raise TemplateLimitError(
            f"the template pads to {width} characters, allowed are {LONGEST_PADDING}"
        )
