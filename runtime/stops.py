"""Stop strings: found anywhere in generated text, across tokens, without ever showing a part of
one."""

from collections.abc import Sequence
from dataclasses import dataclass

from ggufc.runtime.errors import ArgumentError


@dataclass(frozen=True)
class Scanned:
    """Text that may be shown now, and the stop string that ended it, if one did."""

    text: str
    stop: str | None = None


class StopScanner:
    """Takes generated text piece by piece and lets through all that cannot become a stop string.

    The text ends before the stop string that is complete first; of several complete at the same
    character, the longest. However the text is cut into pieces, the result is the same.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Raises ArgumentError for an empty stop string."""
        for index, stop in enumerate(stops):
            if not isinstance(stop, str) or not stop:
                raise ArgumentError(
                    f"stop string {index} is {stop!r:.60}: expected a non-empty string"
                )
            if any("\ud800" <= character <= "\udfff" for character in stop):
                raise ArgumentError(
                    f"stop string {index} is {stop!r:.60}: it has half of a surrogate pair"
                )
        self._stops = tuple(stops)
        self._held = ""

    def add(self, piece: str) -> Scanned:
        """The text that `piece` releases; after a stop string nothing more may be added."""
        text = self._held + piece
        found = self._first_complete(text)
        if found is not None:
            start, stop = found
            self._held = ""
            return Scanned(text[:start], stop)
        keep = self._longest_beginning(text)
        self._held = text[len(text) - keep :]
        return Scanned(text[: len(text) - keep])

    def finish(self) -> str:
        """The text still held back, when generation ends for another reason."""
        text, self._held = self._held, ""
        return text

    def _first_complete(self, text: str) -> tuple[int, str] | None:
        """Start and string of the stop whose end comes first; of equal ends, the earliest start."""
        found = [(at + len(s), at, s) for s in self._stops if (at := text.find(s)) >= 0]
        return min(found)[1:] if found else None

    def _longest_beginning(self, text: str) -> int:
        """Length of the longest end of `text` with which some stop string begins."""
        lengths = (beginning_at_end(text, stop) for stop in self._stops)
        return max(lengths, default=0)


def beginning_at_end(text: str, stop: str) -> int:
    """Length of the longest proper beginning of `stop` that `text` ends with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
