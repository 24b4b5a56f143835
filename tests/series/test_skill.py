"""Skill against a constant and against repetition."""

import math

import numpy as np
import pytest

from rase.counts.estimate import Estimate
from rase.domain import Range
from rase.series.skill import SkillTally

REACH = Range(0, 100)


def of(value: float, error: float = 1.0) -> Estimate:
    """Return an estimate of a mean."""
    return Estimate(value, error, n=9, method="unbiased_mean", target="mean")


def test_scores_are_those_of_the_definitions() -> None:
    """Every figure equals the one computed from whole arrays."""
    rng = np.random.default_rng(2026)
    truth = rng.uniform(20, 80, size=50)
    alone = truth + 40 * rng.normal(size=50)
    told = truth + 3 + 10 * rng.normal(size=50)
    tally = SkillTally(REACH)
    for place in range(50):
        tally.add(of(told[place], 10.0), alone=of(alone[place]), truth=truth[place])
    errors = (told - truth)[1:]
    history = np.clip(np.cumsum(alone)[:-1] / np.arange(1, 50), 0, 100)
    last = np.clip(alone[:-1], 0, 100)
    assert tally.count == 49
    assert tally.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert tally.bias == pytest.approx(errors.mean())
    assert tally.noise == pytest.approx(errors.std())
    assert tally.history == pytest.approx(np.sqrt(np.mean((history - truth[1:]) ** 2)))
    assert tally.last == pytest.approx(np.sqrt(np.mean((last - truth[1:]) ** 2)))
    assert tally.skill == pytest.approx(tally.history / tally.rmse)
    assert tally.skill_against_last == pytest.approx(tally.last / tally.rmse)
    assert tally.coverage == pytest.approx(np.mean(np.abs(errors) <= 19.6), abs=0.02)


def test_a_constant_fleet_cannot_be_beaten_by_single_rounds() -> None:
    """Where nothing moves, the constant is better than any round by itself: skill below 1."""
    rng = np.random.default_rng(2026)
    tally = SkillTally(REACH)
    for noisy in 50 + 10 * rng.normal(size=200):
        tally.add(of(noisy), alone=of(noisy), truth=50.0)
    assert tally.skill < 0.5


def test_nothing_is_said_before_the_second_round() -> None:
    """One round has no history: every figure is unknown, and perfect estimates have all skill."""
    tally = SkillTally(REACH)
    tally.add(of(1.0), alone=of(1.0), truth=1.0)
    assert tally.count == 0
    unknown = (tally.rmse, tally.bias, tally.noise, tally.history, tally.last, tally.coverage)
    assert all(math.isnan(one) for one in unknown)
    tally.add(of(2.0), alone=of(2.0), truth=2.0)
    assert (tally.skill, tally.skill_against_last) == (math.inf, math.inf)
