"""The clone pair: any mechanism, summed exactly."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase.accounting import clones as clone_sums
from rase.accounting.binomial import Floats, probabilities
from rase.accounting.clones import ClonePair, closed_form
from rase.accounting.curve import crossing

# docs: design table, delta = 1e-6.
TABLE = {
    64: (0.0445, 0.305, 0.834, 2.0, 4.0),
    1000: (0.0102, 0.0705, 0.182, 0.546, 3.99),
    10**5: (7.9e-4, 0.0058, 0.0153, 0.0450, 0.170),
    10**6: (2.1e-4, 0.0016, 0.0043, 0.0130, 0.0493),
}
BUDGETS = (0.1, 0.5, 1.0, 2.0, 4.0)


def central(epsilon: float, n: int, *, delta: float = 1e-6) -> float:
    """Return the central epsilon by the clone pair."""
    pair = ClonePair(epsilon, n, negligible=1e-6 * delta)
    return crossing(pair.delta, delta, highest=epsilon)[1]


def brute_force(epsilon_local: float, n: int, epsilon: float) -> float:
    """Return the hockey-stick divergence of the pair from its definition."""
    lean = math.exp(epsilon_local) / (math.exp(epsilon_local) + 1)
    total = 0.0
    for clones in range(n):
        weight = stats.binom.pmf(clones, n - 1, math.exp(-epsilon_local))
        likes = np.arange(clones + 2)
        with_it = stats.binom.pmf(likes - 1, clones, 0.5)
        without = stats.binom.pmf(likes, clones, 0.5)
        first = lean * with_it + (1 - lean) * without
        second = (1 - lean) * with_it + lean * without
        total += weight * np.maximum(first - math.exp(epsilon) * second, 0).sum()
    return float(total)


@pytest.mark.uncovered
@each_case("n", [2, 3, 10, 61, 200])
@each_case("epsilon_local", [0.1, 1.0, 3.0])
def test_delta_is_the_sum_of_the_definition(epsilon_local: float, n: int) -> None:
    """The sum by tails equals the double sum over clones and likes to seven digits."""
    pair = ClonePair(epsilon_local, n, negligible=1e-30)
    for share in (0.0, 0.1, 0.5, 0.9):
        wanted = brute_force(epsilon_local, n, share * epsilon_local)
        found = pair.delta(share * epsilon_local)
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-19)
        assert found >= wanted * (1 - 1e-12)


def test_a_wrong_coin_would_be_noticed() -> None:
    """A pair whose own report leans 10 % less differs far beyond the tolerance used above."""
    found = ClonePair(1.0, 61, negligible=1e-30).delta(0.3)
    assert abs(brute_force(0.9, 61, 0.3) - found) > 0.1 * found


@each_case("n", list(TABLE))
def test_central_epsilon_agrees_with_the_design_table(n: int) -> None:
    """The published numbers are met to 2 % and half a unit of their last digit."""
    for epsilon, wanted in zip(BUDGETS, TABLE[n], strict=True):
        last_digit = 0.5e-5 if wanted < 1e-3 else 0.5e-4
        assert central(epsilon, n) == pytest.approx(wanted, rel=0.02, abs=last_digit)


def test_numbers_of_clones_left_out_are_added_to_delta() -> None:
    """With a large part left out delta is still not below the sum; without the addition it is."""
    pair = ClonePair(1.0, 200, negligible=0.05)
    for epsilon in (0.2, 0.4, 0.6):
        exact = brute_force(1.0, 200, epsilon)
        assert exact <= pair.delta(epsilon) <= exact + 0.051
    assert any(pair.delta(e) - pair.lost < brute_force(1.0, 200, e) for e in (0.2, 0.4, 0.6))


def test_nothing_is_left_out_where_all_fits() -> None:
    """A window that holds every number of clones adds nothing."""
    assert ClonePair(1.0, 5, negligible=1e-30).lost == 0.0
    assert ClonePair(1.0, 5000, negligible=1e-30).lost == 1e-30


def test_at_the_local_epsilon_nothing_remains() -> None:
    """The local guarantee has no delta."""
    assert ClonePair(1.0, 50, negligible=1e-12).delta(1.0) == 0.0


def test_more_reports_hide_better() -> None:
    """Epsilon falls about with the square root of n, up to ten million reports."""
    sizes = (10**3, 10**4, 10**5, 10**6, 10**7)
    found = [central(1.0, n) for n in sizes]
    ratios = [later / sooner for sooner, later in itertools.pairwise(found)]
    assert all(0.2 < ratio < 0.32 for ratio in ratios)


def test_the_cost_grows_with_the_root_of_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times the reports cost some ten times as much: only likely numbers are summed."""
    computed = 0

    def counted(successes: Floats, trials: float | Floats, chance: float) -> Floats:
        nonlocal computed
        computed += successes.size
        return probabilities(successes, trials, chance)

    monkeypatch.setattr(clone_sums, "probabilities", counted)

    def work(n: int) -> int:
        nonlocal computed
        computed = 0
        central(0.5, n)
        return computed

    few, many = work(10**4), work(10**6)
    assert 0 < few < many < 15 * few


@each_case("epsilon", [0.1, 0.5, 1.0, 2.0])
@each_case("n", [2000, 10**5, 10**7])
def test_the_closed_form_is_weaker_than_the_sum(epsilon: float, n: int) -> None:
    """The published formula holds, and gives away a factor of three or more."""
    closed = closed_form(epsilon, n, delta=1e-6)
    assert closed is not None
    assert closed > 2 * central(epsilon, n)


def test_the_closed_form_keeps_to_its_condition() -> None:
    """It answers up to ln(n / (16 ln(2 / delta))) and not above."""
    limit = math.log(1000 / (16 * math.log(2e6)))
    assert closed_form(limit - 1e-9, 1000, delta=1e-6) == pytest.approx(
        math.log1p(
            math.tanh(limit / 2)
            * (8 * math.sqrt(math.exp(limit) * math.log(4e6) / 1000) + 8 * math.exp(limit) / 1000)
        )
    )
    assert closed_form(limit + 1e-9, 1000, delta=1e-6) is None
