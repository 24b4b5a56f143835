"""What lying devices do: measured shifts stay within bounds that follow from the mechanism."""

import numpy as np
import pytest

from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.lab.poisoning import highest_report, poison_rounds
from rase.laws.randomizer import RangeRandomizer

PUBLIC = Range(0, 100)
READINGS = np.random.default_rng(2026).uniform(0, 100, (30, 200))
ALL = (
    *("sample_mean", "median", "bootstrap_mean", "unbiased_mean"),
    *("winsorized_mean", "median_of_means", "tracked", "window"),
)
MECHANISMS: list[RangeRandomizer] = [
    BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9)),
    Laplace(1.0, PUBLIC),
    Duchi(1.0, PUBLIC),
    Piecewise(1.0, PUBLIC),
    Hybrid(1.0, PUBLIC),
    Optimal(1.0, PUBLIC),
]
each_mechanism = pytest.mark.parametrize(
    "noise", MECHANISMS, ids=lambda noise: type(noise).__name__
)


@pytest.mark.uncovered
@each_mechanism
def test_shifts_stay_within_their_bounds(noise: RangeRandomizer) -> None:
    """One, 1 % and 10 % of the devices move no estimator farther than theory allows."""
    for liars in (1, 2, 20):
        found = poison_rounds(READINGS, noise, liars=liars, estimators=ALL, window=24, seed=2026)
        for name, one in found.items():
            # A resample may hold liars a little more often than their share.
            slack = 1.05 if name == "bootstrap_mean" else 1 + 1e-9
            assert 0 <= one.shift <= slack * one.bound, (liars, name)


def test_without_liars_nothing_moves() -> None:
    """The difference is the liars' alone."""
    for noise in MECHANISMS:
        found = poison_rounds(READINGS[:3], noise, liars=0, estimators=ALL, window=2, seed=1)
        assert {one.shift for one in found.values()} == {0.0}, noise


def test_the_lie_is_the_highest_that_is_accepted() -> None:
    """It is decoded to the upper end of the reach."""
    for noise in MECHANISMS:
        lie = highest_report(noise)
        assert float(noise.decode(lie)) == pytest.approx(noise.decoded_reach[1]), noise


def test_noise_without_end_is_worth_most_to_liars() -> None:
    """One Laplace liar counts for more than ten of clamped noise, unless the mean is winsorized."""
    one, ten = (
        poison_rounds(
            READINGS,
            noise,
            liars=liars,
            estimators=("unbiased_mean", "winsorized_mean"),
            window=1,
            seed=1,
        )
        for noise, liars in ((MECHANISMS[1], 1), (MECHANISMS[0], 10))
    )
    assert one["unbiased_mean"].shift > ten["unbiased_mean"].shift
    assert one["winsorized_mean"].shift < ten["unbiased_mean"].shift / 5
    assert one["winsorized_mean"].error < one["unbiased_mean"].error


@pytest.mark.parametrize(
    ("liars", "window", "message"),
    [(-1, 1, "^liars must be"), (200, 1, "^liars must be"), (1, 0, "^window"), (1, 31, "^window")],
)
def test_senseless_questions_are_refused(liars: int, window: int, message: str) -> None:
    """Somebody must be honest, and a window must fit."""
    with pytest.raises(ValueError, match=message):
        poison_rounds(READINGS, MECHANISMS[0], liars=liars, estimators=ALL, window=window, seed=1)
