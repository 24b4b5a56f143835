"""The likelihood-ratio observer: lower bounds that are true, and as large as others alike allow."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.accounting.amplification import amplify, lower_bound
from rase.accounting.blanket import Channel, Covered, channel_of
from rase.accounting.curve import crossing
from rase.accounting.lower_bounds import (
    CountingObserver,
    LikelihoodObserver,
    best_questions,
    least_mean_excess,
    observed_epsilon,
)

Floats = NDArray[np.float64]
PUBLIC = Range(0, 1)


def counted(mechanism: Covered, n: int, *, delta: float) -> float:
    """Return the bound of an observer who asks one question of each report and counts."""
    return max(
        crossing(
            CountingObserver(question, n, 1, negligible=1e-6 * delta).delta,
            delta,
            highest=mechanism.guarantee.epsilon,
        )[0]
        for question in best_questions(channel_of(mechanism))
    )


@each_case(
    ("mechanism", "n", "delta", "least"),
    [
        (Optimal(4.0, PUBLIC), 10**5, 1e-7, 0.1328),
        (BudgetAware(2.0, PUBLIC, Precision(beta=0.5, rho=0.9)), 64, 1e-5, 1.230),
        (Piecewise(1.5, PUBLIC), 20_000, 1e-6, 0.0467),
    ],
)
def test_the_bound_is_that_of_the_best_observer(
    mechanism: Covered, n: int, delta: float, least: float
) -> None:
    """One who counts achieves up to 30 % less; where the bounds meet, the result says so."""
    result = amplify(mechanism, n, delta=delta)
    assert least <= result.lower_bound <= result.epsilon
    assert counted(mechanism, n, delta=delta) < 0.8 * result.lower_bound
    assert result.is_tight == (not isinstance(mechanism, BudgetAware))
    assert ("so no theorem can promise much less" in str(result)) == result.is_tight


@each_case("n", [1, 2, 64, 1000])
@each_case("others", [0.2, 0.5, 0.8])
def test_delta_is_that_of_the_counts_of_two_reports(n: int, others: float) -> None:
    """For one-bit reports the divergence is a sum over binomials, which is never exceeded."""
    first, second = np.array([0.2, 0.8]), np.array([0.8, 0.2])
    crowd = stats.binom.pmf(np.arange(n), n - 1, others)
    one, other = (np.convolve(crowd, [1 - p, p]) for p in (0.8, 0.2))
    observer = LikelihoodObserver(first, second, np.array([1 - others, others]), n)
    seen = 0
    for epsilon in (0.0, 0.05, 0.3, 1.0):
        exact = float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
        found = observer.delta(epsilon, per_deviation=32)
        assert found <= exact
        # Where nobody asks, more is lost.
        if exact > 1e-30:
            assert found >= 0.9 * exact
            seen += 1
    assert seen >= 2


@given(
    st.lists(st.integers(1, 20), min_size=3, max_size=3),
    st.lists(st.integers(1, 20), min_size=3, max_size=3),
    st.lists(st.integers(1, 20), min_size=3, max_size=3),
    st.integers(2, 4),
    st.floats(0, 1.5),
)
def test_delta_never_exceeds_what_is_enumerated(
    first: list[int], second: list[int], others: list[int], n: int, epsilon: float
) -> None:
    """Any three laws on three reports: every release of up to four reports is looked at."""
    rows = [np.array(law) / sum(law) for law in (first, second, others)]
    exact = enumerated(rows[0], rows[1], rows[2], n, epsilon)
    found = LikelihoodObserver(rows[0], rows[1], rows[2], n).delta(epsilon, per_deviation=32)
    assert found <= exact + 1e-15
    assert found >= 0.95 * exact - 1e-5


def enumerated(first: Floats, second: Floats, others: Floats, n: int, epsilon: float) -> float:
    """Return the divergence of the release if all others have one law, by all multisets."""
    total = 0.0
    for release in itertools.combinations_with_replacement(range(first.size), n):
        orders = math.factorial(n) / math.prod(
            math.factorial(release.count(report)) for report in set(release)
        )
        crowd = math.prod(float(others[report]) for report in release)
        gap = sum(
            float(first[report] - math.exp(epsilon) * second[report]) / float(others[report])
            for report in release
        )
        total += orders * crowd * max(gap, 0.0) / n
    return total


@pytest.mark.uncovered
@each_case("n", [2, 3])
@each_case("kind", [Laplace, Duchi, Piecewise, Hybrid])
def test_small_rounds_reach_what_others_alike_give_away(
    kind: type[Laplace | Duchi | Piecewise | Hybrid], n: int
) -> None:
    """The bound lies within a hundredth of the enumerated truth for others at end or middle."""
    mechanism = kind(1.0, Range(0, 1, steps=4))
    channel, delta = channel_of(mechanism), 0.01
    rows = [channel.low, channel.middle, channel.high]
    is_report = channel.blanket > 0
    low, middle, high = (row[is_report] for row in rows)

    def worst(epsilon: float) -> float:
        return max(
            enumerated(first, second, others, n, epsilon)
            for first, second in ((low, high), (high, low))
            for others in (low, middle, high)
        )

    result = amplify(mechanism, n, delta=delta)
    assert worst(result.lower_bound) >= delta
    assert worst(1.01 * result.lower_bound) <= delta or result.lower_bound > 0.99
    assert result.lower_bound <= result.epsilon


def test_two_optimal_reports_are_enumerated() -> None:
    """Of two reports every release is looked at, for every input of the other device."""
    mechanism, delta = Optimal(2.0, PUBLIC), 0.02
    rows = mechanism.channel
    assert rows is not None
    result = amplify(mechanism, 2, delta=delta)

    def worst(epsilon: float) -> float:
        found = []
        for other in rows:
            # Ordered pairs of reports, each half as likely as the pair without order.
            first, second = ((np.outer(row, other) + np.outer(other, row)) / 2 for row in ends)
            found.append(float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
        return max(found)

    ends = rows[0], rows[-1]
    assert worst(result.lower_bound) >= delta
    assert worst(result.guarantee.epsilon) <= result.guarantee.delta
    assert counted(mechanism, 2, delta=delta) < 0.97 * result.lower_bound


def test_no_divergence_where_no_report_speaks_for_the_first() -> None:
    """Nothing is positive: delta is 0; nor can rare reports alone be laid out."""
    even = np.array([0.5, 0.5])
    assert least_mean_excess(np.array([-1.0, 0.0]), even, 5) == 0.0
    rare = np.array([1 - 1e-30, 1e-30])
    assert least_mean_excess(np.array([-1e-3, 1.0]), rare, 1) == 0.0


def test_reports_that_the_others_never_make_are_left_out() -> None:
    """They would give the contributor away; a bound that ignores them is smaller, and true."""
    first, second = np.array([0.5, 0.4, 0.1]), np.array([0.4, 0.5, 0.1])
    observer = LikelihoodObserver(first, second, np.array([0.5, 0.5, 0.0]), 10)
    assert 0 < observer.delta(0.01) < 0.1


def test_skewed_sums_are_looked_at_further_out() -> None:
    """A rare report that speaks loudly needs more deviations, and is still bounded from below."""
    rare = 1e-3
    masses = np.array([1 - rare, rare])
    values = np.array([-0.02, 5.0])
    n = 50
    counts = np.arange(n + 1)
    exact = float(
        (stats.binom.pmf(counts, n, rare) * np.maximum(5 * counts - 0.02 * (n - counts), 0)).sum()
    )
    assert 0.9 * exact / n <= least_mean_excess(values, masses, n) <= exact / n


def test_what_is_known_already_is_not_searched_for() -> None:
    """An epsilon given as known stays, unless an observer achieves more."""
    channel = channel_of(Piecewise(1.0, PUBLIC))
    found = observed_epsilon(channel, 1000, delta=1e-6, highest=1.0)
    assert observed_epsilon(channel, 1000, delta=1e-6, highest=1.0, least=0.9) == 0.9
    assert observed_epsilon(channel, 1000, delta=1e-6, highest=1.0, least=1.0) == 1.0
    assert observed_epsilon(channel, 1000, delta=0.5, highest=1.0) == 0.0
    without = Channel(channel.low, channel.middle, channel.high)
    assert observed_epsilon(without, 1000, delta=1e-6, highest=1.0) == pytest.approx(found)


def test_a_quick_bound_is_a_smaller_one() -> None:
    """One observer, not looked at closely, achieves no more than the best of all."""
    mechanism = Piecewise(1.5, PUBLIC)
    quick, full = (
        lower_bound(mechanism, 20_000, rounds=1, delta=1e-6, is_quick=is_quick)
        for is_quick in (True, False)
    )
    assert 0.98 * full < quick < full


def test_fleets_too_large_for_the_lattice_keep_the_counting_bound() -> None:
    """A thousand million reports are not laid out finely enough; a count is still an observer."""
    mechanism = Piecewise(2.0, PUBLIC)
    assert lower_bound(mechanism, 10**9, rounds=1, delta=1e-6) == pytest.approx(
        counted(mechanism, 10**9, delta=1e-6)
    )


def test_many_rounds_give_away_at_least_what_one_does() -> None:
    """An observer of one of two rounds is an observer of both."""
    mechanism = Optimal(4.0, PUBLIC)
    one, two = (lower_bound(mechanism, 10_000, rounds=r, delta=1e-6) for r in (1, 2))
    assert two >= one


def test_a_channel_without_quarter_has_fewer_observers() -> None:
    """The quarter is one of the places at which the others may be, and can be the worst."""
    channel = channel_of(Optimal(1.5, PUBLIC))
    without = Channel(channel.low, channel.middle, channel.high, channel.least)
    fewer, all_of_them = (
        observed_epsilon(one, 20_000, delta=1e-6, highest=1.5) for one in (without, channel)
    )
    assert 0.0425 < fewer < all_of_them < 0.0499
