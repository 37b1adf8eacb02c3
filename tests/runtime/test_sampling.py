"""Sampling against independent NumPy oracles that sort the whole vocabulary."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ggufc.runtime.errors import ArgumentError, LogitsError
from ggufc.runtime.lottery import Lottery
from ggufc.runtime.sampling import (
    Candidates,
    Sampler,
    SamplingOptions,
    greedy,
    highest_for_top_p,
    min_p,
    top_k,
    top_p,
    weights_of,
)

FINITE = st.floats(-30, 30, width=32)
LOGITS = arrays(np.float32, st.integers(1, 60), elements=FINITE | st.integers(-2, 2).map(float))
# The example with known values: probabilities .5, .3, .2.
HALF = np.log(np.array([0.5, 0.3, 0.2], np.float32))


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """What the sampler's weights are in proportion to."""
    weights = weights_of(logits, temperature)
    return np.asarray(weights / weights.sum())


def ranked(logits: np.ndarray) -> list[int]:
    """Ids by falling logit, ties by id, the obvious way."""
    return sorted(range(len(logits)), key=lambda i: (-float(logits[i]), i))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax in float64 over the whole vocabulary."""
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    return np.asarray(weights / weights.sum())


@given(LOGITS)
def test_greedy_takes_the_highest_and_the_lowest_id_on_ties(logits: np.ndarray) -> None:
    assert greedy(logits) == ranked(logits)[0]


@given(LOGITS, st.integers(-1, 70))
def test_top_k_keeps_the_first_of_the_ranking(logits: np.ndarray, k: int) -> None:
    wanted = ranked(logits)[: k if 0 < k < len(logits) else len(logits)]
    found = top_k(logits, k)
    assert found.ids.tolist() == wanted
    assert found.logits.tolist() == [float(logits[i]) for i in wanted]


@given(LOGITS, st.floats(0, 1))
def test_top_p_keeps_the_fewest_that_reach_p(logits: np.ndarray, p: float) -> None:
    kept = top_p(top_k(logits, 0), p).ids.tolist()
    order, all_probabilities = ranked(logits), probabilities(logits)
    assert kept == order[: len(kept)]
    assert len(kept) >= 1
    assert len(kept) == len(order) or all_probabilities[kept].sum() >= p - 1e-9
    assert len(kept) == 1 or all_probabilities[kept[:-1]].sum() < p + 1e-9


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.9999), st.floats(0.1, 4))
def test_partial_sort_of_top_p_equals_the_full_sort(seed: int, p: float, spread: float) -> None:
    logits = (np.random.default_rng(seed).normal(size=5000) * spread).astype(np.float32)
    full, partial = top_p(top_k(logits, 0), p), highest_for_top_p(logits, p)
    assert abs(len(full.ids) - len(partial.ids)) <= 1
    shorter = min(len(full.ids), len(partial.ids))
    assert full.ids[:shorter].tolist() == partial.ids[:shorter].tolist()


@given(LOGITS, st.floats(0, 1))
def test_min_p_keeps_what_is_likely_enough(logits: np.ndarray, p: float) -> None:
    kept = min_p(top_k(logits, 0), p).ids.tolist()
    relative = probabilities(logits) / probabilities(logits).max()
    assert all(relative[i] >= p - 1e-9 for i in kept)
    assert all(relative[i] <= p + 1e-9 for i in set(range(len(logits))) - set(kept))


def test_filters_see_the_untempered_distribution() -> None:
    """min-p .5 removes probability .2, and temperature 2 comes after: the rest is .5635 and
    .4365."""
    sampler = Sampler(SamplingOptions(temperature=2.0, min_p=0.5))
    found = sampler.candidates(HALF)
    assert found.ids.tolist() == [0, 1]
    assert softmax(found.logits, 2.0) == pytest.approx([0.5635, 0.4365], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"top_p": 0.7}, [0, 1]),
        ({"top_p": 0.0}, [0]),
        ({"top_k": 2, "top_p": 0.9}, [0, 1]),
        ({"top_k": -1}, [0, 1, 2]),
        ({"top_k": 0}, [0, 1, 2]),
        ({"min_p": 1.0}, [0]),
    ],
)
def test_which_tokens_survive(options: dict[str, float], kept: list[int]) -> None:
    sampler = Sampler(SamplingOptions(temperature=1.0, **options))  # type: ignore[arg-type]
    assert sampler.candidates(HALF).ids.tolist() == kept


def test_draws_follow_the_distribution() -> None:
    sampler = Sampler(SamplingOptions(temperature=1.0, seed=3))
    counts = np.bincount([sampler.sample(HALF) for _ in range(20_000)], minlength=3)
    expected = 20_000 * np.array([0.5, 0.3, 0.2])
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 13.8  # 2 degrees of freedom, one in a thousand


def draws(seed: int | None) -> list[int]:
    """Some draws from 50,000 equal logits."""
    sampler = Sampler(SamplingOptions(temperature=1.0, seed=seed))
    return [sampler.sample(np.zeros(50_000, np.float32)) for _ in range(4)]


def test_one_seed_gives_one_sequence_and_no_seed_many() -> None:
    assert draws(7) == draws(7)
    assert draws(7) != draws(8)
    assert draws(None) != draws(None)


@pytest.mark.parametrize("temperature", [1e-9, 1e-38, 5e-324])
def test_tiny_temperatures_are_greedy(temperature: float) -> None:
    logits = np.array([1.0, 3.0, 2.0], np.float32)
    sampler = Sampler(SamplingOptions(temperature, seed=1))
    assert {sampler.sample(logits) for _ in range(20)} == {1}


@pytest.mark.parametrize("temperature", [0.0, 1e-9, 1.0, 1e6])
def test_excluded_tokens_are_never_drawn(temperature: float) -> None:
    logits = np.full(1000, -np.inf, np.float32)
    logits[[5, 900]] = [0.0, -1.0]
    sampler = Sampler(SamplingOptions(temperature, seed=2))
    assert {sampler.sample(logits) for _ in range(200)} <= {5, 900}


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}])
def test_an_infinite_logit_is_certain(options: dict[str, float]) -> None:
    logits = np.zeros(600, np.float32)
    logits[17] = np.inf
    sampler = Sampler(SamplingOptions(temperature=1.0, **options))  # type: ignore[arg-type]
    assert {sampler.sample(logits) for _ in range(20)} == {17}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("bad", "reason"), [(np.nan, "not a number"), (-np.inf, "every token is excluded")]
)
def test_unusable_logits_are_an_error(temperature: float, bad: float, reason: str) -> None:
    logits = np.full(4, -np.inf, np.float32)
    logits[2] = bad
    with pytest.raises(LogitsError, match=reason):
        Sampler(SamplingOptions(temperature)).sample(logits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature -1.0: expected a number at least 0"),
        ({"temperature": math.nan}, "temperature nan: expected a number at least 0"),
        ({"temperature": math.inf}, "temperature inf: expected a number at least 0"),
        ({"temperature": "0"}, "temperature '0': expected a number at least 0"),
        ({"top_p": 1.5}, "top_p 1.5: expected a number from 0 to 1"),
        ({"min_p": -0.1}, "min_p -0.1: expected a number from 0 to 1"),
        ({"top_k": 1.5}, "top_k 1.5: expected an integer from -1 to 2147483647"),
        ({"seed": -1}, "seed -1: expected an integer from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed 18446744073709551616: expected an integer"),
        ({"seed": "7"}, "seed '7': expected an integer"),
        ({"top_k": True}, "top_k True: expected an integer"),
    ],
)
def test_illegal_options_name_value_and_interval(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        SamplingOptions(**options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_softmax_of_candidates_sums_to_one() -> None:
    found = Candidates(np.arange(3), np.array([700.0, 0.0, -np.inf]))
    assert softmax(found.logits).tolist() == pytest.approx([1.0, 0.0, 0.0])


@settings(deadline=None, max_examples=30)
@given(LOGITS, st.floats(0.05, 20))
def test_a_draw_from_all_tokens_is_the_one_at_its_chance(
    logits: np.ndarray, temperature: float
) -> None:
    """Each token has an interval of chances as long as its probability."""
    lottery = Lottery()
    lottery.fill(logits, temperature)
    tempered, count = probabilities(logits.astype(np.float64) / temperature), 400
    drawn = [lottery.draw((i + 0.5) / count) for i in range(count)]
    shares = np.bincount(drawn, minlength=len(logits)) / count
    np.testing.assert_allclose(shares, tempered, atol=1.01 / count)
    assert 0 not in lottery.weights[drawn]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 1000])
def test_every_token_can_be_drawn(count: int) -> None:
    lottery = Lottery()
    lottery.fill(np.zeros(count, np.float32), 1.0)
    drawn = [lottery.draw((i + 0.5) / count) for i in range(count)]
    assert sorted(drawn) == list(range(count))


@pytest.mark.parametrize(("temperature", "least"), [(1.0, 0.0), (3.0, 0.0), (0.7, 0.4)])
def test_flat_distributions_are_drawn_from_as_if_they_were_sorted(
    temperature: float, least: float
) -> None:
    """Where top-p keeps hundreds of tokens none is sorted; ties at its end go by id."""
    logits = np.repeat(np.linspace(0, 1, 60, dtype=np.float32), 30)
    options = SamplingOptions(temperature=temperature, top_p=0.6, min_p=least, seed=5)
    found = Sampler(options).candidates(logits)
    assert 256 < len(found.ids) < 1800
    sampler, draws = Sampler(options), 6_000
    counts = np.bincount([sampler.sample(logits) for _ in range(draws)], minlength=len(logits))
    assert set(np.flatnonzero(counts)) <= set(found.ids.tolist())
    expected = draws * softmax(found.logits, temperature)
    chi_square = float(((counts[found.ids] - expected) ** 2 / expected).sum())
    degrees = len(found.ids) - 1
    assert abs(chi_square - degrees) < 5 * math.sqrt(2 * degrees)
