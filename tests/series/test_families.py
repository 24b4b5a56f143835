"""Families of filters against the exact law of a small model, solved as one dense system."""

import math

import numpy as np
import pytest

from rase.series.cycle import wave_columns
from rase.series.families import DAY_S, Family, Grid

HOUR_S = 3600.0
SIZES = np.array([1.0, 0.5])
LEVEL, IRREGULAR, LASTING_S, PROFILE = 0.3, 0.1, 7200.0, 0.2


def grid(lasting_s: float = LASTING_S) -> Grid:
    """Return a family of two models: one that moves, and one that rests."""
    pairs = [(LEVEL, 0.0), (IRREGULAR, 0.0), (lasting_s, 0.0), (PROFILE, 0.0), (1.0, 1.0)]
    return Grid.of(np.array(pairs).T, sizes=SIZES)


def seen(time_s: float) -> np.ndarray:
    """Return how much of each part shows."""
    return np.concatenate([[1.0, 1.0], wave_columns(time_s % DAY_S / DAY_S, 2)])


def dense_covariance(times_s: np.ndarray) -> np.ndarray:
    """Return the covariance of the means of the model that moves, from its definition."""
    apart = np.abs(np.subtract.outer(times_s, times_s))
    first = np.minimum.outer(times_s - times_s[0], times_s - times_s[0])
    level = 1 / 3 + LEVEL**2 * first / DAY_S
    irregular = IRREGULAR**2 * np.exp(-apart / LASTING_S)
    angles = 2 * math.pi * np.multiply.outer(apart / DAY_S, [1, 2])
    amplitudes = (PROFILE * SIZES) ** 2
    drift = 1 + 0.02**2 * first / DAY_S
    return np.asarray(level + irregular + drift * (np.cos(angles) @ amplitudes))


def test_a_family_is_the_exact_law_of_its_models() -> None:
    """Means and variances equal those of one dense normal law, over uneven times, to 1e-9."""
    rng = np.random.default_rng(2026)
    times_s = np.cumsum(rng.choice([1, 1, 2, 9], size=40)) * HOUR_S
    values, noise = rng.normal(0.5, 0.4, size=40), 0.3
    family = Family(grid(), 0.0, 1.0, runs=1)
    covariance = dense_covariance(times_s)
    for place, time_s in enumerate(times_s.tolist()):
        if place:
            family.advance(time_s - times_s[place - 1])
        expected = family.predict(seen(time_s))
        if place:
            past = covariance[:place, :place] + noise**2 * np.eye(place)
            gain = np.linalg.solve(past, covariance[:place, place])
            mean = 0.5 + gain @ (values[:place] - 0.5)
            variance = covariance[place, place] - gain @ covariance[:place, place]
            assert float(expected.means[0, 0]) == pytest.approx(mean, abs=1e-9)
            assert float(expected.variances[0]) == pytest.approx(variance, abs=1e-9)
        family.take(expected, values[place] - expected.means, expected.variances + noise**2)


def test_a_model_that_rests_averages_all_rounds() -> None:
    """Without movement the mean is that of all rounds and of what was known before any."""
    family, values = Family(grid(), 0.0, 1.0), np.array([0.2, 0.9, 0.4])
    for place, value in enumerate(values):
        if place:
            family.advance(HOUR_S)
        expected = family.predict(seen(place * HOUR_S))
        family.take(expected, value - expected.means, expected.variances + 0.01)
    found = family.predict(seen(0.0)).means[0, 1]
    assert found == pytest.approx((3 * 0.5 + 100 * values.sum()) / 303, abs=1e-12)


def test_a_part_that_does_not_last_is_forgotten_at_once() -> None:
    """Where it lasts no time, the next round knows nothing of it."""
    family = Family(grid(0.0), 0.0, 1.0)
    expected = family.predict(seen(0.0))
    family.take(expected, 0.4 - expected.means, expected.variances + 0.01)
    family.advance(HOUR_S)
    assert family.state[0, 0, 1] == 0.0
    assert family.covariance[0, 1, 1] == pytest.approx(IRREGULAR**2)


def test_a_family_is_written_and_read_to_the_last_bit() -> None:
    """What comes after is the same."""
    one, other = Family(grid(), 0.0, 1.0), Family(grid(), 0.0, 1.0)
    expected = one.predict(seen(0.0))
    one.take(expected, 0.4 - expected.means, expected.variances + 0.01)
    assert [len(part) for part in one.numbers()] == one.lengths
    other.restore(*one.numbers())
    for family in (one, other):
        family.advance(HOUR_S)
    assert (one.predict(seen(HOUR_S)).means == other.predict(seen(HOUR_S)).means).all()
    assert (one.covariance == other.covariance).all()


def test_motion_adds_up_all_parts() -> None:
    """A model that rests has none."""
    moving, resting = grid().movement.tolist()
    assert moving == pytest.approx(math.sqrt(0.3**2 + 0.1**2 + 1.25 * 0.2**2))
    assert resting == 0.0
