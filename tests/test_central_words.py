"""What is said of (epsilon, delta) is true of the best observer there is, computed and simulated.

The observer knows all other readings and the mechanism, finds two readings of one contributor
equally likely, and sees a shuffled round of one-bit reports. How many of them are high is all that
such a release says, so the likelihood ratio of the count is the best observer's.
"""

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase import Duchi, Range, SeededRandom, Uniform
from rase.accounting.amplification import amplify
from rase.accounting.plan import plan
from rase.privacy import CentralDP

Floats = NDArray[np.float64]
PUBLIC = Range(0, 1)
# n, epsilon of a report, delta; and how many times delta the old certainty is passed by.
ROUNDS = [
    (64, 2.0, 1e-5, 29.6),
    (64, 0.3, 1e-5, 43.3),
    (1000, 4.0, 1e-9, 13.1),
    (5000, 6.0, 1e-6, 4.2),
]


@cache
def promise(n: int, epsilon: float, delta: float) -> CentralDP:
    """Return what the accountant promises of a round."""
    return amplify(Duchi(epsilon, PUBLIC), n, delta=delta).guarantee


def counts(n: int, epsilon: float, others: float) -> tuple[Floats, Floats]:
    """Return the laws of the number of high reports if the contributor reads high, and low.

    Args:
        n: How many reports.
        epsilon: The budget of each.
        others: What all the others read, from 0 to 1.
    """
    kept = 1 / (1 + math.exp(-epsilon))
    high = 1 - kept + others * (2 * kept - 1)
    crowd = stats.binom.pmf(np.arange(n), n - 1, high)
    return np.convolve(crowd, [1 - kept, kept]), np.convolve(crowd, [kept, 1 - kept])


def certainties(first: Floats, second: Floats) -> Floats:
    """Return how sure each outcome makes the observer of the likelier reading."""
    both = first + second
    # Outcomes so rare that floats lose their digits say nothing.
    return np.where(both > 1e-290, np.maximum(first, second) / np.maximum(both, 1e-290), 0.5)


def passed(first: Floats, second: Floats, certainty: float) -> float:
    """Return the larger probability of passing a certainty, of the two true readings."""
    is_surer = certainties(first, second) > certainty
    return max(float(law[is_surer].sum()) for law in (first, second))


@each_case(("n", "epsilon", "delta", "times"), ROUNDS)
def test_the_certainty_of_epsilon_is_passed_more_often_than_delta(
    n: int, epsilon: float, delta: float, times: float
) -> None:
    """So "at most P % sure, but for an event of probability delta" would be false."""
    made = promise(n, epsilon, delta)
    certainty = 1 / (1 + math.exp(-made.epsilon))
    first, second = counts(n, epsilon, 1.0)
    assert passed(first, second, certainty) >= times * delta
    # It is false of a promise that is kept: the divergence at epsilon is at most delta.
    excess = np.maximum(first - math.exp(made.epsilon) * second, 0).sum()
    assert 0.6 * delta < excess <= delta
    assert not hasattr(made, "posterior")
    assert "but for an event" not in str(made)


@each_case(("n", "epsilon", "delta"), [setting[:3] for setting in ROUNDS])
@each_case("others", [0.0, 0.25, 0.5, 1.0])
def test_the_best_observer_keeps_to_what_is_said(
    n: int, epsilon: float, delta: float, others: float
) -> None:
    """It guesses right no more often, and passes no certainty more often, than is said."""
    made = promise(n, epsilon, delta)
    first, second = counts(n, epsilon, others)
    assert np.maximum(first, second).sum() / 2 <= made.guess()
    for chance in (10 * delta, 100 * delta, made.stated_chance, 0.1):
        certainty = made.certainty(chance)
        assert passed(first, second, certainty) <= chance
        assert made.surer_chance(certainty) <= chance * (1 + 1e-6)
    for certainty in np.linspace(0.5, 1.0, 201).tolist():
        assert passed(first, second, certainty) <= made.surer_chance(certainty) + 1e-12
    # Nothing makes it surer than a report by itself can.
    assert certainties(first, second).max() <= 1 / (1 + math.exp(-epsilon)) + 1e-12


def test_printed_numbers_hold_as_they_are_printed() -> None:
    """Rounding for people does not turn a bound into less."""
    n, epsilon, delta = 64, 1.0, 1e-6
    sentence = str(promise(n, epsilon, delta))
    found = re.search(
        r"right at most ([\d.]+) % of the time, and becomes more than ([\d.]+) % sure with a "
        r"probability of ([\d.]+) at most; even then the noise of its own reports, epsilon 1, "
        r"keeps it at ([\d.]+) % or less\.",
        sentence,
    )
    assert found is not None, sentence
    guess, certainty, chance, most = (float(text) for text in found.groups())
    for others in np.linspace(0, 1, 9).tolist():
        first, second = counts(n, epsilon, others)
        assert 100 * np.maximum(first, second).sum() / 2 <= guess
        assert passed(first, second, certainty / 100) <= chance
        assert 100 * certainties(first, second).max() <= most
    period = str(plan(PUBLIC, epsilon, devices=n, mechanism="duchi").periods[0])
    assert f"it guesses right at most {guess:g} % of the time, and becomes more than" in period
    assert f"more than {certainty:g} % sure with a probability of {chance:g} at most." in period


def test_a_promise_that_is_too_small_is_caught_by_the_same_comparison() -> None:
    """An epsilon stated 40 % too low makes the sentence false, and the check says so."""
    n, epsilon, delta = 64, 2.0, 1e-5
    told = promise(n, epsilon, delta)
    wrong = CentralDP(0.6 * told.epsilon, delta)
    first, second = counts(n, epsilon, 1.0)
    caught = [
        certainty
        for certainty in np.linspace(0.5, 1.0, 201).tolist()
        if passed(first, second, certainty) > wrong.surer_chance(certainty)
    ]
    assert caught


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=6).filter(any),
    st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(lambda masses: any(masses[:2])),
    st.floats(0, 4),
)
def test_the_words_hold_for_any_two_laws(
    first_masses: list[int], second_masses: list[int], epsilon: float
) -> None:
    """Whatever is (epsilon, delta)-DP obeys both bounds, with a delta that is exact."""
    first = np.array(first_masses, dtype=np.float64)
    second = np.array(second_masses[: first.size], dtype=np.float64)
    first, second = first / first.sum(), second / second.sum()
    factor = math.exp(epsilon)
    delta = max(
        float(np.maximum(one - factor * other, 0).sum())
        for one, other in ((first, second), (second, first))
    )
    if delta >= 1:
        return
    made = CentralDP(epsilon, delta)
    assert np.maximum(first, second).sum() / 2 <= made.guess() + 1e-12
    for certainty in certainties(first, second)[first + second > 0].tolist():
        just_below = max(0.5, certainty - 1e-9)
        assert passed(first, second, just_below) <= made.surer_chance(just_below) * (1 + 1e-6)


def test_the_bound_on_certainties_is_attained() -> None:
    """Two laws on three outcomes pass a certainty as often as is said: no smaller bound is true."""
    epsilon, certainty, mass = 0.4, 0.7, 0.01
    odds = (1 - certainty) / certainty
    first = np.array([mass, odds * mass, 1 - mass * (1 + odds)])
    second = first[[1, 0, 2]]
    delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
    assert passed(first, second, certainty - 1e-12) == pytest.approx(
        CentralDP(epsilon, delta).surer_chance(certainty), rel=1e-9
    )


def test_the_product_shuffles_and_draws_as_the_words_say() -> None:
    """20,000 rounds of drawn noise and drawn orders: the old sentence fails, the new ones hold.

    Rounds of 64 reports at delta 1e-3. Each of the three comparisons allows for five standard
    deviations of its count: less than one false alarm in a million seeds.
    """
    n, epsilon, delta, rounds = 64, 0.5, 1e-3, 20_000
    made = promise(n, epsilon, delta)
    source = SeededRandom(20)
    readings = np.ones((rounds, n))
    is_high = np.arange(rounds) % 2 == 0
    readings[:, 0] = is_high
    reports = Duchi(epsilon, PUBLIC).randomize(readings, rng=source)
    shuffled = Uniform().shuffle_rounds(reports, rng=source).values
    first, second = counts(n, epsilon, 1.0)
    seen = (shuffled > 0.5).sum(axis=1)
    guesses_right = ((first > second)[seen] == is_high).sum()
    assert guesses_right - 5 * math.sqrt(rounds / 4) <= made.guess() * rounds
    surest = certainties(first, second)[seen]
    old = int((surest > 1 / (1 + math.exp(-made.epsilon)))[is_high].sum())
    allowed = delta * rounds / 2
    assert old > allowed + 5 * math.sqrt(allowed) + 5
    chance = made.stated_chance
    new = int((surest > made.certainty(chance))[is_high].sum())
    assert new - 5 * math.sqrt(new + 1) <= chance * rounds / 2
    # The draws are those of the law that the exact tests above go by.
    expected = rounds / 2 * first[certainties(first, second) > made.certainty(chance)].sum()
    assert abs(new - expected) <= 5 * math.sqrt(expected) + 5
