"""The integers that a step of decode is called with, in memory that stays where it is.

A step of a small model takes one or two milliseconds: five arrays and their addresses, made anew
for each, would take a noticeable part of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggufc.runtime.memory import address


class Step(NamedTuple):
    """One token of a sequence: where it goes, and how long the sequence is going to be."""

    sequence: int
    position: int
    token: int
    length: int


class Addresses(NamedTuple):
    """Where the integer inputs of a call lie."""

    tokens: int
    positions: int
    sequences: int
    rows: int
    lengths: int


class StepInputs:
    """Inputs of up to `sequences` steps at once; for one call at a time."""

    def __init__(self, sequences: int) -> None:
        self._table = np.zeros((5, sequences), np.int32)
        self._tokens, self._positions, self._sequences, rows, self._lengths = self._table
        rows[:] = np.arange(sequences)
        self._addresses = Addresses(*(address(row) for row in self._table))

    def fill(self, steps: Sequence[Step]) -> Addresses:
        """Write the steps, each of another sequence; where they lie."""
        for i, step in enumerate(steps):
            self._sequences[i], self._positions[i], self._tokens[i], self._lengths[i] = step
        return self._addresses
