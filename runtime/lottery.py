"""Drawing from a whole vocabulary in time that a decode step does not notice.

Nothing is sorted and no array is allocated for a draw: weights go into memory that is kept, and the
sums of parts of the vocabulary say in which part the token is.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

# Logits of a part.
PART = 64


class Lottery:
    """The weights of all tokens of one step, in proportion to their probabilities."""

    def __init__(self) -> None:
        self.weights: Floats = np.empty(0, np.float32)
        self._chosen: Floats = self.weights

    def fill(self, logits: Floats, temperature: float) -> None:
        """Take the logits of a step, of which the highest is a number or plus infinity, which takes
        all; temperatures are above 0."""
        if len(self.weights) != len(logits):
            self.weights, self._chosen = np.empty_like(logits), np.empty_like(logits)
        peak, weights = logits.max(), self.weights
        if np.isposinf(peak):
            np.isposinf(logits, out=weights)
            return
        np.subtract(logits, peak, out=weights)
        if temperature != 1.0:
            with np.errstate(over="ignore"):
                np.divide(weights, temperature, out=weights)
        np.exp(weights, out=weights)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weights.sum())

    def draw(self, chance: float) -> int:
        """The token at `chance`, from 0 up to 1, of the sum of all weights; never one of weight
        0."""
        whole = len(self.weights) // PART * PART
        # Element i of every part lies beside element i of the next: sums are those of long rows.
        sums = self.weights[:whole].reshape(PART, -1).sum(axis=0)
        parts = len(sums)
        rest = self.weights[whole:].sum(keepdims=True)
        part, within = pick(np.concatenate((sums, rest)), chance)
        members = self.weights[part:whole:parts] if part < parts else self.weights[whole:]
        index, _ = pick(members, within)
        return part + index * parts if part < parts else whole + index

    def above(self, logits: Floats, token: int) -> float:
        """The sum of the weights of tokens that rank above one: of higher logits, or equal ones and
        lower ids."""
        np.multiply(self.weights, logits > logits[token], out=self._chosen)
        equal = np.count_nonzero(logits[:token] == logits[token])
        return float(self._chosen.sum()) + equal * float(self.weights[token])


def pick(weights: npt.ArrayLike, chance: float) -> tuple[int, float]:
    """The index at `chance`, from 0 up to 1, of the sum of weights that are not all 0, and how far
    within its weight that is, from 0 up to 1. It never is one of weight 0."""
    cumulative = np.cumsum(weights, dtype=np.float64)
    at = chance * cumulative[-1]
    # The product may round up to the whole sum: then the last index with any weight is meant.
    last = cumulative.searchsorted(cumulative[-1])
    index = int(min(cumulative.searchsorted(at, side="right"), last))
    before = float(cumulative[index - 1]) if index else 0.0
    return index, min((at - before) / (float(cumulative[index]) - before), 1.0 - 2.0**-53)
