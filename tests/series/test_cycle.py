"""Periods found in noisy rounds: their length, their multiples, and what is none."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.series.bank import FilterBank
from rase.series.cycle import KEPT, CycleFilters, PeriodFinder, find_period, wave_columns

HOUR_S = 3600.0


def finder_of(
    mean: np.ndarray, *, noise: float, seed: int = 2026, step_s: float = HOUR_S
) -> PeriodFinder:
    """Return a finder that has seen noisy rounds."""
    rng, finder = np.random.default_rng(seed), PeriodFinder()
    for place, value in enumerate(mean + noise * rng.normal(size=len(mean))):
        finder.add(np.array([[place * step_s, value, noise**-2, 0.0]]))
    return finder


@each_case("hours", [3.3, 5.2, 12.42, 37.0])
def test_a_wave_in_noise_of_its_size_is_found(hours: float) -> None:
    """To 1 % after 600 hourly rounds, also near half a day."""
    places = np.arange(600)
    finder = finder_of(np.sin(2 * math.pi * places / hours), noise=1.0)
    found = find_period(finder.kept())
    assert found is not None
    assert 1 / found / HOUR_S == pytest.approx(hours, rel=0.01)


def test_a_square_wave_is_not_taken_for_its_multiple() -> None:
    """Two and a half hours on and off are a cycle of five hours."""
    square = np.where((np.arange(500) / 5) % 1 < 0.5, 1.0, -1.0)
    found = find_period(finder_of(square, noise=0.5).kept())
    assert found is not None
    assert 1 / found / HOUR_S == pytest.approx(5.0, rel=0.01)


def test_days_weeks_noise_and_slow_motion_are_no_periods() -> None:
    """Of 60 records of each kind at most 3 give one, where chance gives less than 1.

    A random walk gives a few more: its slow motion looks like waves.
    """
    hours = np.arange(500)
    day = np.sin(2 * math.pi * hours / 24) + 0.5 * np.cos(2 * math.pi * hours / 168)
    for mean in (np.zeros(500), day):
        hits = [
            find_period(finder_of(mean, noise=1.0, seed=seed).kept()) is not None
            for seed in range(60)
        ]
        assert sum(hits) <= 3
    walks = [np.cumsum(0.2 * np.random.default_rng(s).normal(size=500)) for s in range(60)]
    hits = [
        find_period(finder_of(walk, noise=1.0, seed=s).kept()) is not None
        for s, walk in enumerate(walks)
    ]
    assert sum(hits) <= 12


def test_little_is_said_of_little() -> None:
    """Few rounds, rounds far apart, and too few cycles give no period."""
    assert find_period(finder_of(np.zeros(50), noise=1.0).kept()) is None
    sparse = PeriodFinder()
    for place in range(200):
        time_s = (5 * place + (place > 100)) * HOUR_S
        sparse.add(np.array([[time_s + (place == 7) * 4 * HOUR_S, math.sin(place), 1.0, 0.0]]))
    assert find_period(sparse.kept()) is None


def test_the_oldest_rounds_are_forgotten() -> None:
    """As many as fit are kept, in the order of time."""
    finder = finder_of(np.arange(KEPT + 10.0), noise=1e-9)
    times = finder.kept()[:, 0]
    assert len(times) == KEPT
    assert times[0] == 10 * HOUR_S
    assert (np.diff(times) == HOUR_S).all()


def test_waves_are_cosines_and_sines_in_turn() -> None:
    """Of one phase or of many."""
    assert wave_columns(0.25, 1) == pytest.approx([0.0, 1.0], abs=1e-12)
    assert wave_columns(np.array([0.0, 0.5]), 2).shape == (2, 4)


def followed(mean: np.ndarray, *, noise: float, rounds: int) -> tuple[FilterBank, np.ndarray]:
    """Return a bank that has followed hourly rounds, and how far it was off in each."""
    rng, bank = np.random.default_rng(2026), FilterBank(0.0, 1.0)
    off = np.empty(rounds)
    for place in range(rounds):
        value = np.array([mean[place] + noise * rng.normal()])
        belief = bank.step(place * HOUR_S, value, variance=noise**2, n=50)
        off[place] = float(belief.means[0]) - mean[place]
    return bank, off


def test_a_cycle_that_was_learnt_is_followed_and_survives_a_restart() -> None:
    """The error falls to less than half once it is known; a state that is read goes on alike."""
    mean = 0.4 + 0.1 * np.sin(2 * math.pi * np.arange(420) / 3.3)
    bank, off = followed(mean, noise=0.08, rounds=400)
    early, late = (float(np.sqrt(np.mean(part**2))) for part in (off[20:90], off[-100:]))
    assert late < 0.5 * early
    copy = FilterBank.from_bytes(0.0, 1.0, state=bank.to_bytes())
    first, second = (
        one.step(400 * HOUR_S, np.array([0.45]), variance=0.0064, n=50) for one in (bank, copy)
    )
    assert first.means == second.means
    assert first.variances == second.variances


def test_a_cycle_that_changes_is_learnt_again() -> None:
    """Four weeks of 3.3 hours and then 7.1: the filters begin again with the other period."""
    hours = np.arange(1700)
    phase = np.where(hours < 400, hours / 3.3, hours / 7.1)
    _, off = followed(0.4 + 0.15 * np.sin(2 * math.pi * phase), noise=0.08, rounds=1700)
    assert float(np.sqrt(np.mean(off[-100:] ** 2))) < 0.03


def test_filters_of_a_cycle_are_idle_until_one_is_known() -> None:
    """They expect anything, and begin with nothing but what a period in the rounds earned them."""
    cycle = CycleFilters(0.0, 1.0)
    assert cycle.predict(0.0).variances.min() == 1.0
    rng = np.random.default_rng(2026)
    begun = [
        cycle.take(place * HOUR_S, rng.normal(), variance=1.0, evidence=-0.5, share=0.0)
        for place in range(256)
    ]
    assert all(one is None for one in begun)
