"""The low bits of float noise, and that reports on the grid have none."""

import pytest

from rase import Range, SeededRandom
from rase.lab.low_bits import excluded_by_low_bits, excluded_by_table, insecure_float_laplace
from rase.laws.registry import randomizer_named

MECHANISMS = ("budget-aware", "laplace", "duchi", "piecewise", "hybrid", "optimal")


@pytest.mark.parametrize(
    ("reading", "other", "scale"),
    [(0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (20.0, 60.0, 50.0), (0.0, 3000.0, 3000.0)],
)
def test_float_noise_excludes_the_wrong_candidate(
    reading: float, other: float, scale: float
) -> None:
    """Of 2000 reports more than 60 % exclude the other candidate, none the right one.

    The share lies between 69 and 82 %, 8 standard errors above the limit; were only half excluded,
    the test would fail as surely.
    """
    reports = insecure_float_laplace(reading, scale, count=2000, seed=2026).tolist()
    assert excluded_by_low_bits(reports, reading, scale) == 0
    assert excluded_by_low_bits(reports, other, scale) > 0.6


def test_at_epsilon_one_four_fifths_are_excluded() -> None:
    """The known figure: about 80 % at scale = width. False alarms below 1e-6 (5.6 errors)."""
    reports = insecure_float_laplace(0.0, 1.0, count=4000, seed=2026).tolist()
    assert excluded_by_low_bits(reports, 1.0, 1.0) == pytest.approx(0.80, abs=0.036)


def test_our_reports_exclude_nothing() -> None:
    """Every report of one reading could be that of any other."""
    for mechanism in MECHANISMS:
        randomizer = randomizer_named(mechanism, 1.0, domain=Range(0, 1, 64))
        reports = randomizer.randomize([0.0] * 500, rng=SeededRandom(2026)).tolist()
        for candidate in (-1.0, 0.0, 0.37, 1.0, 2.0):
            found = excluded_by_table(randomizer, reports, candidate)
            assert found == 0, (mechanism, candidate)


def test_a_report_that_cannot_be_drawn_is_excluded() -> None:
    """A place outside the alphabet has no weight, and counts."""
    randomizer = randomizer_named("duchi", 1.0, domain=Range(0, 1, 4))
    assert excluded_by_table(randomizer, [0.0, 0.5], 1.0) == 0.5
