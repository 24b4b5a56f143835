"""The privacy blanket of this package's mechanisms."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Laplace, Piecewise, Precision, Range
from rase.accounting.blanket import (
    Blanket,
    Channel,
    Covered,
    _worst_rows,
    channel_of,
    mean_excess,
)
from rase.accounting.curve import crossing

# docs: design table, clamped Laplace, delta = 1e-6.
TABLE = {
    64: (0.0426, 0.249, 0.566, 1.49, 3.99),
    1000: (0.0097, 0.0580, 0.130, 0.326, 1.21),
    10**5: (7.5e-4, 0.0048, 0.0109, 0.0274, 0.0952),
    10**6: (2.0e-4, 0.0013, 0.0031, 0.0079, 0.0276),
}
BUDGETS = (0.1, 0.5, 1.0, 2.0, 4.0)
Floats = NDArray[np.float64]


def clamped(epsilon: float) -> BudgetAware:
    """Return the paper's randomizer, clamping."""
    return BudgetAware(epsilon, Range(0, 3000), Precision(beta=0.1, rho=0.95))


def central(mechanism: Covered, n: int, *, delta: float = 1e-6) -> float:
    """Return the central epsilon by the blanket."""
    bound = Blanket(channel_of(mechanism), n, negligible=1e-6 * delta)
    return crossing(bound.delta, delta, highest=mechanism.guarantee.epsilon)[1]


@pytest.mark.uncovered
@each_case("n", list(TABLE))
def test_clamped_laplace_agrees_with_the_design_table(n: int) -> None:
    """The published numbers are met to 3 % and half a unit of their last digit."""
    for epsilon, wanted in zip(BUDGETS, TABLE[n], strict=True):
        mechanism = clamped(epsilon)
        assert mechanism.is_clamping
        last_digit = 0.5e-5 if wanted < 1e-3 else 0.5e-4
        assert central(mechanism, n) == pytest.approx(wanted, rel=0.03, abs=last_digit)


@each_case("n", [3, 40])
def test_the_bound_equals_the_sum_over_all_counts(n: int) -> None:
    """For one-bit reports E[(X_1 + ... + X_n)_+] / n is a sum over three counts."""
    epsilon_local, epsilon = 1.0, 0.2
    channel = channel_of(Duchi(epsilon_local, Range(0, 1)))
    kept, flipped = 1 / (1 + math.exp(-epsilon_local)), 1 / (1 + math.exp(epsilon_local))
    up = (kept - math.exp(epsilon) * flipped) / flipped
    down = (flipped - math.exp(epsilon) * kept) / flipped
    wanted = sum(
        math.comb(n, ups)
        * math.comb(n - ups, downs)
        * flipped ** (ups + downs)
        * (1 - 2 * flipped) ** (n - ups - downs)
        * max(ups * up + downs * down, 0)
        for ups in range(n + 1)
        for downs in range(n + 1 - ups)
    )
    found = Blanket(channel, n, negligible=1e-12).delta(epsilon)
    assert wanted / n <= found <= 1.003 * wanted / n


def test_a_smaller_blanket_would_be_noticed() -> None:
    """The law of reports of a mechanism with 10 % less budget gives another number."""
    assert central(clamped(0.9), 1000) < 0.92 * central(clamped(1.0), 1000)


def test_laplace_is_as_private_as_its_clamped_twin() -> None:
    """Beyond the ends a report says no more than at them."""
    for epsilon in (0.3, 2.0):
        twin = central(Laplace(epsilon, Range(0, 3000)), 500)
        assert twin == pytest.approx(central(clamped(epsilon), 500), rel=1e-4)


@pytest.mark.uncovered
@each_case("steps", [1, 2, 3, 4, 7, 16])
@each_case("kind", [Laplace, Duchi, Piecewise, Hybrid])
def test_the_ends_of_the_range_are_the_worst_pair(
    kind: type[Laplace | Duchi | Piecewise | Hybrid], steps: int
) -> None:
    """For all pairs of readings X of the ends is a spread of theirs, and so the worst for any n.

    A law is a spread of another of the same mean if E[(X - t)_+] is at least as large at every t.
    """
    for budget, share in itertools.product((0.1, 0.5, 1.0, 3.0, 8.0), (0.0, 0.3, 0.9)):
        rows = all_rows(kind(budget, Range(0, 1, steps=steps)))
        least = rows.min(axis=0)
        assert least == pytest.approx(np.minimum(rows[0], rows[-1]), rel=1e-9, abs=1e-300)
        factor = math.exp(share * budget)
        ends = (rows[0] - factor * rows[-1]) / least
        for first, second in itertools.permutations(range(steps + 1), 2):
            pair = (rows[first] - factor * rows[second]) / least
            levels = np.concatenate((ends, pair))[:, None]
            of_ends = (least * np.maximum(ends - levels, 0)).sum(axis=1)
            of_pair = (least * np.maximum(pair - levels, 0)).sum(axis=1)
            assert (of_pair <= of_ends + 1e-9 * np.abs(ends).max()).all()


@each_case("kind", [Laplace, Duchi, Piecewise, Hybrid])
@each_case("steps", [1, 5, 8])
def test_a_channel_holds_the_rows_of_three_readings(
    kind: type[Laplace | Duchi | Piecewise | Hybrid], steps: int
) -> None:
    """Rows are laws within the budget, and mirror one another."""
    mechanism = kind(1.5, Range(-2, 3, steps=steps))
    channel = channel_of(mechanism)
    for row in (channel.low, channel.middle, channel.high):
        assert row.sum() == pytest.approx(1)
    occurs = channel.blanket > 0
    ratios = np.log(channel.low[occurs] / channel.high[occurs])
    assert np.abs(ratios).max() == pytest.approx(1.5, abs=1e-6)
    wanted = all_rows(mechanism)[-1]
    assert channel.high[channel.high > 0].sum() == pytest.approx(wanted.sum())
    assert channel.low.tolist() == channel.high[::-1].tolist()


def test_the_ends_are_taken_only_where_no_pair_shares_less() -> None:
    """A channel whose ends favour the same is looked at by the rows that differ most."""
    rows = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.6, 0.2, 0.2]])
    channel = _worst_rows(rows)
    assert not np.array_equal(channel.low, channel.high)
    apart = _worst_rows(rows[[0, 1, 1]])
    assert np.array_equal(apart.low, rows[0])
    assert np.array_equal(apart.high, rows[1])


def test_a_report_that_gives_its_reading_away_counts_as_a_failure() -> None:
    """Mass without blanket is added to delta: unknown is never zero."""
    bare = Channel(
        low=np.array([0.5, 0.5, 0.0]),
        middle=np.array([0.25, 0.5, 0.25]),
        high=np.array([0.0, 0.5, 0.5]),
    )
    assert Blanket(bare, 10, negligible=1e-9).delta(1.0) == pytest.approx(0.5)


def test_no_excess_where_no_value_is_positive() -> None:
    """Nothing exceeds e^epsilon: delta is 0."""
    assert mean_excess(np.array([-1.0, 0.0]), np.array([0.5, 0.5]), 5, negligible=1e-9) == 0.0


@each_case("delta", [1e-3, 1e-9, 1e-20])
def test_small_deltas_keep_their_accuracy(delta: float) -> None:
    """The tilted sum agrees with the exact one of a one-bit mechanism at any delta."""
    mechanism = Duchi(1.0, Range(0, 1))
    n = 200
    epsilon = central(mechanism, n, delta=delta)
    flipped = 1 / (1 + math.e)
    factor = math.exp(epsilon)
    up = (1 - flipped - factor * flipped) / flipped
    down = (flipped - factor * (1 - flipped)) / flipped
    exact = math.fsum(
        math.comb(n, ups)
        * math.comb(n - ups, downs)
        * flipped ** (ups + downs)
        * (1 - 2 * flipped) ** (n - ups - downs)
        * max(ups * up + downs * down, 0)
        for ups in range(n + 1)
        for downs in range(n + 1 - ups)
    )
    assert 0.99 * delta <= exact / n <= delta


def all_rows(mechanism: Covered) -> Floats:
    """Return the probability of each report that occurs (column) for each grid point (row)."""
    bounds = mechanism.domain
    margin = bounds.steps + 2
    inner = np.arange(1 - margin, bounds.steps + margin + 1) - 0.5
    edges = np.concatenate(([-np.inf], bounds.low + bounds.step * inner, [np.inf]))
    points = bounds.low + bounds.step * np.arange(bounds.steps + 1)
    table = mechanism.report_probabilities(points, edges)
    return np.asarray(table[:, table.max(axis=0) > 0])
