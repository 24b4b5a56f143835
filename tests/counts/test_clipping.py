"""What clipping adds to the mean of a round, given what that mean came to."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.counts.clipping import DEGREES_OF_CLIPPING, Clipping, clipping_of
from rase.counts.estimate import Estimate
from rase.counts.shapes import Shapes

POINTS = np.linspace(-50, 50, 401)


def normal(sd: float, *, share: float, low: float, high: float, n: int = 20) -> Clipping:
    """Return the clipping of normal readings around 0, of which a share of the variance moves."""
    masses = np.exp(-np.square(POINTS / sd) / 2)
    rows = np.tile(masses / masses.sum(), (100, 1))
    shapes = Shapes(POINTS, rows, np.ones_like(rows))
    shares = np.array([share]), np.array([1.0])
    return clipping_of(shapes, shares, np.array([low, high]), n=n)


def test_a_range_that_holds_all_readings_adds_nothing() -> None:
    """Nothing is lost within the limits, whatever the mean came to."""
    whole = normal(3.0, share=0.5, low=-50, high=50)
    for value in (-49.0, 0.0, 20.0):
        assert whole.error_at(value, error=2.0) == 0.0


def test_a_mean_near_an_end_hides_more() -> None:
    """In the middle of the range little is lost; at its ends more, and alike at both."""
    clipping = normal(5.0, share=0.8, low=-6, high=6)
    middle, high, low = (clipping.error_at(value, error=0.5) for value in (0.0, 5.5, -5.5))
    assert middle < 0.5
    assert high > 5 * middle
    assert low == pytest.approx(high, rel=1e-6)


def test_readings_of_their_own_mind_lose_by_chance_alone() -> None:
    """Without a common move what is lost is the chance of n readings: computed by hand."""
    clipping = normal(5.0, share=0.0, low=-6, high=6, n=20)
    masses = np.exp(-np.square(POINTS / 5) / 2)
    outside = POINTS - POINTS.clip(-6, 6)
    expected = math.sqrt(masses @ np.square(outside) / masses.sum() / 20)
    for value in (0.0, 3.0):
        assert clipping.error_at(value, error=1.0) == pytest.approx(expected)


def test_a_mean_that_tells_nothing_leaves_what_was_foretold() -> None:
    """With an infinite error all values are alike; with none the value counts."""
    clipping = normal(5.0, share=0.8, low=-6, high=6)
    foretold = clipping.error_at(0.0, error=math.inf)
    assert clipping.error_at(5.9, error=math.inf) == foretold
    assert clipping.error_at(0.0, error=0.0) < foretold < clipping.error_at(5.9, error=0.0)


@pytest.mark.uncovered
@each_case(("noise", "without"), [(0.3, 0.55), (2.0, 0.87)])
def test_intervals_hold_the_mean_of_a_fleet_that_walks(noise: float, without: float) -> None:
    """A fleet walks out of its range and back: 95 % intervals hold its mean in 94 rounds of 100.

    Without what clipping adds they hold it less often, the more so the better the clipped mean is
    known.
    """
    chance = np.random.default_rng(1)
    # Stationary, with a standard deviation of 5 of which 80 % of the variance is in common.
    walk = np.zeros(4000)
    for place in range(1, walk.size):
        walk[place] = 0.95 * walk[place - 1] + chance.normal(0, math.sqrt(20 * (1 - 0.95**2)))
    readings = walk[:, None] + chance.normal(0, math.sqrt(5), (walk.size, 20))
    truth, clipped = readings.mean(axis=1), readings.clip(-4, 4).mean(axis=1)
    found = clipped + chance.normal(0, noise, walk.size)
    clipping = normal(5.0, share=0.8, low=-4, high=4)
    held = bare = 0
    for value, wanted in zip(found.tolist(), truth.tolist(), strict=True):
        alone = Estimate(value, noise, n=20, method="unbiased_mean", target="mean")
        error = clipping.error_at(value, error=noise)
        whole = alone.with_lasting(error, degrees_of_freedom=DEGREES_OF_CLIPPING)
        low, high = whole.interval()
        held += low <= wanted <= high
        low, high = alone.interval()
        bare += low <= wanted <= high
    assert held / walk.size > 0.94
    assert bare / walk.size < without
