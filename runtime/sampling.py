"""Choosing a token from logits: pure functions, and a sampler that chains them.

The order is llama.cpp's: top-k, top-p, min-p, and temperature last, so the filters look at the
model's own distribution. At least one token survives every filter. Equal logits rank by the lower
id. None of the functions sorts more of a vocabulary than it has to.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ggufc.runtime.arguments import check_integer, check_number
from ggufc.runtime.errors import LogitsError
from ggufc.runtime.lottery import PART, Lottery, pick

Floats = npt.NDArray[np.float32]
Reals = npt.NDArray[np.float32] | npt.NDArray[np.float64]

# How many of the highest logits are sorted at first when top-p has to find how many it needs.
FIRST_SORTED = 256
# How often a token of the whole vocabulary is drawn that may be one that top-p excludes, before the
# vocabulary is sorted.
MAX_DRAWS = 8
MAX_SEED = 2**64 - 1
# Temperatures below this are as good as 0, and their inverse would overflow.
TINY = 1e-6


class Candidates(NamedTuple):
    """Tokens that may still be drawn; `ids` and `logits` have equal length. Filters give and
    expect the highest logit first; where there is none, the order is that of the vocabulary."""

    ids: npt.NDArray[np.int64]
    logits: Reals


@dataclass(frozen=True)
class SamplingOptions:
    """How to draw. `temperature` 0 always takes the highest logit; `top_k` 0, `top_p` 1 and
    `min_p` 0 are off; without a `seed` every generation differs. Raises ArgumentError with the
    legal interval."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0.0, math.inf)
        check_number("top_p", self.top_p, 0.0, 1.0)
        check_number("min_p", self.min_p, 0.0, 1.0)
        check_integer("top_k", self.top_k, -1, 2**31 - 1)
        if self.seed is not None:
            check_integer("seed", self.seed, 0, MAX_SEED)


def greedy(logits: Floats) -> int:
    """The id of the highest logit, the lowest id on ties. Raises LogitsError."""
    best = int(logits.argmax())
    check_drawable(float(logits[best]))
    return best


def check_drawable(highest: float) -> None:
    """Raise LogitsError when the highest logit is NaN (NumPy's maximum is, if any is) or minus
    infinity."""
    if math.isnan(highest):
        raise LogitsError("the model produced a logit that is not a number")
    if highest == -math.inf:
        raise LogitsError("every token is excluded: all logits are minus infinity")


def top_k(logits: Floats, k: int) -> Candidates:
    """The `k` highest logits in order; all of them if k <= 0 or k >= their number."""
    if k <= 0 or k >= len(logits):
        return in_order(np.arange(len(logits)), logits)
    (ids,) = (logits >= bound_of_highest(logits, k)).nonzero()
    return keep(in_order(ids, logits), k)


def bound_of_highest(logits: Floats, k: int) -> np.float32:
    """A value that at least `k` logits reach and, unless many are equal, few more: the k-th highest
    of the maxima of equal parts, since each of the k highest parts has one that reaches it."""
    parts = max(1, len(logits) // PART)
    if parts <= k:
        return highest(logits, k)
    whole = len(logits) // PART * PART
    # Element i of every part lies beside element i of the next: the maxima of all parts are
    # those of long rows.
    return highest(logits[:whole].reshape(PART, parts).max(axis=0), k)


def highest(values: Floats, k: int) -> np.float32:
    """The k-th highest of some values."""
    at = len(values) - k
    return np.float32(np.partition(values, at)[at])


def in_order(ids: npt.NDArray[np.int64], logits: Floats) -> Candidates:
    """`ids` as candidates, highest logit first, ties by id."""
    values = logits[ids].astype(np.float64)
    order = np.lexsort((ids, -values))
    return Candidates(ids[order], values[order])


def weights_of(logits: Reals, temperature: float = 1.0) -> Reals:
    """Numbers in proportion to the probabilities at a temperature above 0; plus infinity takes
    all."""
    peak = float(logits.max())
    if peak == math.inf:
        return np.asarray(logits == math.inf, np.float64)
    # In double precision no temperature that is used makes what is divided overflow.
    weights: npt.NDArray[np.float64] = np.subtract(logits, peak, dtype=np.float64)
    if temperature != 1.0:
        weights /= temperature
    np.exp(weights, out=weights)
    return weights


def top_p(candidates: Candidates, p: float) -> Candidates:
    """The fewest candidates, highest first, whose probabilities sum to at least `p`."""
    return narrowed(candidates, p, 0.0)


def count_for(cumulative: npt.NDArray[np.float64], p: float) -> int:
    """How many terms of a rising sum it takes to reach `p`, at least one."""
    return min(int(cumulative.searchsorted(p)) + 1, len(cumulative))


def min_p(candidates: Candidates, p: float) -> Candidates:
    """Candidates whose probability is at least `p` times the highest one's."""
    return narrowed(candidates, 1.0, p)


def narrowed(candidates: Candidates, least_sum: float, least_share: float) -> Candidates:
    """`top_p`, then `min_p`, which looks at ratios alone: what is left out changes none."""
    if least_sum >= 1.0 and least_share <= 0.0:
        return candidates
    weights = weights_of(candidates.logits)  # the first of which is 1
    count = len(weights)
    if least_sum < 1.0:
        cumulative = weights.cumsum()
        count = count_for(cumulative, least_sum * float(cumulative[-1]))
    if least_share > 0.0:
        count = min(count, int(np.count_nonzero(weights >= least_share)))
    return keep(candidates, count)


def keep(candidates: Candidates, count: int) -> Candidates:
    """The first `count` candidates, at least one."""
    count = max(1, count)
    if count >= len(candidates.ids):
        return candidates
    return Candidates(candidates.ids[:count], candidates.logits[:count])


def highest_for_top_p(logits: Floats, p: float) -> Candidates:
    """`top_p` over the whole vocabulary without sorting all of it: sorts more only while the sum
    is short."""
    if np.isposinf(logits.max()):
        return top_p(top_k(logits, 0), p)
    weights = np.exp(logits - logits.max())
    total, k = weights.sum(dtype=np.float64), FIRST_SORTED
    while k < len(logits):
        candidates = top_k(logits, k)
        cumulative = np.cumsum(weights[candidates.ids], dtype=np.float64) / total
        if cumulative[-1] >= p:
            return keep(candidates, count_for(cumulative, p))
        k *= 8
    return top_p(top_k(logits, 0), p)


def highest_for_min_p(logits: Floats, p: float) -> Candidates:
    """`min_p` over the whole vocabulary, of which only what may be kept is sorted."""
    bound = float(logits.max()) + math.log(p) - 1e-3
    return min_p(in_order(np.flatnonzero(logits >= bound), logits), p)


class Sampler:
    """Draws tokens from one seeded stream of random numbers; one sampler a generation."""

    def __init__(self, options: SamplingOptions) -> None:
        self.options = options
        self._plain, self._tempered = Lottery(), Lottery()

    @cached_property
    def _random(self) -> np.random.Generator:
        # Made when it is first used: greedy runs do not wait for the import of numpy.random.
        return np.random.Generator(np.random.PCG64(self.options.seed))

    def candidates(self, logits: Floats) -> Candidates:
        """What may be drawn from `logits` [vocab] once all filters are applied."""
        options = self.options
        if options.top_k > 0:
            return narrowed(top_k(logits, options.top_k), options.top_p, options.min_p)
        if options.top_p < 1.0:
            found = highest_for_top_p(logits, options.top_p)
        elif options.min_p > 0.0:
            return highest_for_min_p(logits, options.min_p)
        else:
            return Candidates(np.arange(len(logits)), logits)
        return min_p(found, options.min_p)

    def sample(self, logits: Floats) -> int:
        """Draw a token id from `logits` [vocab]. Raises LogitsError."""
        options = self.options
        if options.temperature < TINY:
            return greedy(logits)
        peak = float(logits.max())
        check_drawable(peak)
        if options.top_k > 0 or peak == math.inf:
            return self._draw(self.candidates(logits))
        if options.top_p < 1.0:
            return self._draw_for_top_p(logits)
        if options.min_p > 0.0:
            return self._draw(self.candidates(logits))
        return self._draw_any(logits)

    def _draw(self, found: Candidates) -> int:
        weights = weights_of(found.logits, self.options.temperature)
        return int(found.ids[pick(weights, self._random.random())[0]])

    def _draw_any(self, logits: Floats) -> int:
        self._tempered.fill(logits, self.options.temperature)
        return self._tempered.draw(self._random.random())

    def _tempered_like(self, plain: Lottery, logits: Floats) -> Lottery:
        """The lottery at the temperature of the options, where that at 1 is `plain`."""
        if self.options.temperature == 1.0:
            return plain
        self._tempered.fill(logits, self.options.temperature)
        return self._tempered

    def _draw_for_top_p(self, logits: Floats) -> int:
        """Draw from the few highest if they reach p. Else p excludes few tokens, or those of little
        weight: draw from all, again if it is one of those."""
        options, plain = self.options, self._plain
        plain.fill(logits, 1.0)
        wanted = options.top_p * plain.total
        found = top_k(logits, FIRST_SORTED)
        cumulative = np.cumsum(plain.weights[found.ids], dtype=np.float64)
        if cumulative[-1] >= wanted:
            return self._draw(min_p(keep(found, count_for(cumulative, wanted)), options.min_p))
        tempered = self._tempered_like(plain, logits)
        for _ in range(MAX_DRAWS):
            token = tempered.draw(self._random.random())
            if plain.weights[token] >= options.min_p and plain.above(logits, token) < wanted:
                return token
        return self._draw(self.candidates(logits))
