"""Reports against their exact law, on both kernels."""

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import Laplace, Optimal
from rase.domain import Range
from rase.kernels.fixed import WORD, clamped_table
from rase.kernels.words import SeededRandom
from rase.laws.geometric import ClampedLaw
from rase.laws.law import grid_spots

FALSE_ALARM = 1e-6
PUBLIC = Range(0, 24, 24)


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
@each_case("reading", [0.0, 7.0, 11.4, 23.9])
@each_case("epsilon", [0.5, 4.0])
def test_reports_follow_the_exact_law(epsilon: float, reading: float) -> None:
    """Chi-square of 200,000 reports at 1e-6; a budget 30 % too large is rejected."""
    readings = np.full(200_000, reading)

    def evidence(drawn_with: float) -> float:
        law = ClampedLaw(drawn_with, PUBLIC.steps)
        places = law.draw_many(readings, PUBLIC.grid, source=SeededRandom(2026))
        assert places is not None
        found = np.bincount(places, minlength=PUBLIC.steps + 1)
        return float(stats.chisquare(found, np.array(exact_law(epsilon, reading)) * 200_000).pvalue)

    assert evidence(epsilon) > FALSE_ALARM
    assert evidence(1.3 * epsilon) < FALSE_ALARM


@pytest.mark.usefixtures("kernels")
def test_reports_keep_the_shape_of_readings() -> None:
    """Tables in, tables out; strides do not matter."""
    law = ClampedLaw(1.0, PUBLIC.steps)
    readings = np.arange(24.0).reshape(4, 6)
    for some in (readings, readings.T, readings[::2, ::2], np.array(3.0)):
        places = law.draw_many(some, PUBLIC.grid, source=SeededRandom(1))
        assert places is not None
        assert places.shape == some.shape


@each_case("shape", [(), (7,), (16_384,), (2, 20_001), (0,)])
def test_reports_are_the_drawn_places_in_the_unit_of_the_readings(shape: tuple[int, ...]) -> None:
    """However many, in one piece or several, and the readings stay as they were."""
    public = Range(-5, 95.3)
    readings = np.random.default_rng(1).uniform(-9, 99, shape)
    kept = readings.copy()
    for randomizer in (Optimal(2.0, public), Laplace(2.0, public)):
        reports = randomizer.randomize(readings, rng=SeededRandom(1))
        places = randomizer.draw_many(readings, rng=SeededRandom(1))
        assert reports.shape == shape
        assert reports.dtype == np.float64
        assert np.array_equal(reports, public.low + public.step * places)
    assert np.array_equal(readings, kept)


def test_spots_on_the_grid_are_exact() -> None:
    """A grid point has no share of the next; what lies outside stands at the ends."""
    readings = np.array([-1.0, 0.0, 7.0, 7.25, 23.5, 24.0, 1e300])
    index, share = grid_spots(readings, PUBLIC.grid)
    assert index.tolist() == [0, 0, 7, 7, 23, 24, 24]
    assert share.tolist() == [0, 0, 0, 1 << 62, 1 << 63, 0, 0]
    for reading, *spot in zip(readings.tolist(), index.tolist(), share.tolist(), strict=True):
        assert list(PUBLIC.spot(reading)) == spot
