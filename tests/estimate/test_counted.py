"""Counted rounds: the same means as decoding each report, however a round is cut."""

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Duchi,
    Hybrid,
    Laplace,
    Optimal,
    Precision,
    SeededRandom,
    ValueRange,
    unbiased_mean,
    variance,
)
from rase.estimate.counted import CountedReports, counted_mean, counted_spread
from rase.randomize.protocol import Randomizer

PUBLIC = ValueRange(1000, 1100)
MECHANISMS: list[Randomizer] = [
    BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9)),
    Laplace(1.0, PUBLIC),
    Duchi(1.0, PUBLIC),
    Hybrid(2.0, PUBLIC),
    Optimal(2.0, PUBLIC),
]


@each_case("randomizer", MECHANISMS)
@each_case("count", [1, 2, 5000])
def test_equals_decoding_each_report(randomizer: Randomizer, count: int) -> None:
    """Mean, error, degrees of freedom and spread are those of the reports one by one."""
    reports = randomizer.randomize(np.linspace(1000, 1100, count), rng=SeededRandom(2026))
    counted = CountedReports.of(reports)
    found = counted_mean(counted, randomizer=randomizer)
    expected = unbiased_mean(reports, randomizer=randomizer)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)
    assert found.degrees_of_freedom == expected.degrees_of_freedom
    assert (found.n, found.method, found.target) == (count, expected.method, expected.target)
    spread = counted_spread(counted, randomizer=randomizer)
    if isinstance(randomizer, Duchi):
        assert spread is None
    else:
        direct = variance(reports, randomizer=randomizer).value
        assert spread == pytest.approx(direct, rel=1e-9, abs=1e-6)


def test_parts_of_a_round_add_up() -> None:
    """Cut anywhere and joined in any order, the counts are those of the whole."""
    reports = MECHANISMS[0].randomize(np.linspace(1000, 1100, 5000), rng=SeededRandom(1))
    whole = CountedReports.of(reports)
    parts = [CountedReports.of(part) for part in np.split(reports, [1, 17, 4000])]
    joined = CountedReports.joined(parts[::-1])
    assert (joined.values == whole.values).all()
    assert (joined.counts == whole.counts).all()
    assert joined.n == 5000


def test_reports_off_the_grid_are_counted_as_they_are() -> None:
    """Counting by places of a grid is for its points alone; far points are sorted, too."""
    off = np.array([1000.0, 1000.003, 1000.003])
    assert CountedReports.of(off, value_range=PUBLIC).values.tolist() == [1000.0, 1000.003]
    far = np.array([1000.0, 1000.0 + 100 * 2**20])
    assert CountedReports.of(far, value_range=PUBLIC).counts.tolist() == [1, 1]
    near = np.array([1100.0, 1000.0, 1100.0])
    assert CountedReports.of(near, value_range=PUBLIC).values.tolist() == [1000.0, 1100.0]
