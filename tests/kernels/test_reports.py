"""Reports against their exact law, on both kernels."""

import numpy as np
import pytest
from scipy import stats

from rase.kernels.fixed import WORD, clamped_table
from rase.kernels.integers import rounded_up
from rase.kernels.reports import clamped_reports
from rase.kernels.table import IntegerTable
from rase.kernels.words import SeededRandom, Words
from rase.stream import ValueRange

FALSE_ALARM = 1e-6
PUBLIC = ValueRange(0, 24, 24)


def exact_law(epsilon: float, reading: float) -> list[float]:
    """Return the probability of each grid point, summed up one weight at a time."""
    sums = [0, *clamped_table(epsilon, PUBLIC.steps).sums, WORD]
    law = [0.0] * (PUBLIC.steps + 1)
    below = int(reading)
    for index, share in ((below, 1 - (reading - below)), (below + 1, reading - below)):
        for noise in range(-PUBLIC.steps, PUBLIC.steps + 1):
            weight = sums[noise + PUBLIC.steps + 1] - sums[noise + PUBLIC.steps]
            law[min(max(index + noise, 0), PUBLIC.steps)] += share * weight / WORD
    return law


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("reading", [0.0, 7.0, 11.4, 23.9])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_reports_follow_the_exact_law(epsilon: float, reading: float) -> None:
    """Chi-square of 200,000 reports at 1e-6; a budget 30 % too large is rejected."""
    readings = np.full(200_000, reading)

    def evidence(drawn_with: float) -> float:
        table = IntegerTable(clamped_table(drawn_with, PUBLIC.steps).sums)
        reports = clamped_reports(readings, table, public=PUBLIC, source=SeededRandom(2026))
        assert reports is not None
        found = np.bincount(np.rint(reports).astype(np.int64), minlength=PUBLIC.steps + 1)
        return float(stats.chisquare(found, np.array(exact_law(epsilon, reading)) * 200_000).pvalue)

    assert evidence(epsilon) > FALSE_ALARM
    assert evidence(1.3 * epsilon) < FALSE_ALARM


@pytest.mark.usefixtures("kernels")
def test_reports_keep_the_shape_of_readings() -> None:
    """Tables in, tables out; strides do not matter."""
    table = IntegerTable(clamped_table(1.0, PUBLIC.steps).sums)
    readings = np.arange(24.0).reshape(4, 6)
    for some in (readings, readings.T, readings[::2, ::2], np.array(3.0)):
        reports = clamped_reports(some, table, public=PUBLIC, source=SeededRandom(1))
        assert reports is not None
        assert reports.shape == some.shape


def test_rounding_is_certain_at_grid_points_and_fair_between() -> None:
    """The largest word never rounds a grid point up, the smallest always rounds a share up."""
    words: Words = np.array([0, 2**64 - 1, 2**63, 2**63 - 1, 0], np.uint64)
    shares = np.array([0.0, 1.0, 0.5, 0.5, 1e-300])
    assert rounded_up(shares, words).tolist() == [False, True, False, True, True]
