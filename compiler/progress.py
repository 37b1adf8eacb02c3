"""Where the compiler says how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Shown to whoever waits for a compile."""

    def step(self, title: str, total: int | None = None) -> None:
        """The next part of the work begins; it takes `total` units if that is known."""

    def advance(self, count: int) -> None:
        """`count` units of the current part are done."""


class Quiet:
    """Shows nothing."""

    def step(self, title: str, total: int | None = None) -> None:
        """Show nothing."""

    def advance(self, count: int) -> None:
        """Show nothing."""
