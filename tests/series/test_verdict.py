"""What is said without the truth: whether rounds differ by more than noise, and what would show."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case
from tests.counts.many import means_of

from rase import BudgetAware, Hybrid, Precision, Range, SeededRandom
from rase.counts.estimate import Estimate
from rase.laws.randomizer import RangeRandomizer
from rase.series.verdict import (
    FALSE_ALARM,
    POWER,
    ROUNDS_NEEDED,
    Verdict,
    VerdictTally,
    verdict_in_words,
    verdicts,
)

Floats = NDArray[np.float64]

HOUR_S = 3600.0
REACH = Range(0, 1000)


def mean_of(value: float, error: float = 1.0) -> Estimate:
    """Return what a round says by itself."""
    return Estimate(value, error, n=50, method="unbiased_mean", target="mean of the readings")


def judged(values: Floats, *, error: float = 1.0, step_s: float = HOUR_S) -> Verdict:
    """Return the verdict about rounds that follow each other."""
    means = [mean_of(float(value), error) for value in values]
    found = verdicts([step_s * place for place in range(len(means))], means)[-1]
    assert found is not None
    return found


def of_reports(randomizer: RangeRandomizer, readings: Floats, source: SeededRandom) -> Verdict:
    """Return the verdict about hourly rounds, one a row of readings, through a real mechanism."""
    reports = randomizer.randomize(readings, rng=source)
    means = means_of(reports, randomizer)
    found = verdicts([HOUR_S * place for place in range(len(means))], means)[-1]
    assert found is not None
    return found


@pytest.mark.uncovered
@pytest.mark.parametrize("step_s", [60.0, HOUR_S, 24 * HOUR_S])
@pytest.mark.parametrize("rounds", [8, 24, 168])
def test_fleets_that_rest_raise_few_alarms(rounds: int, step_s: float) -> None:
    """Of resting fleets 1 % are called moving; so many more have probability 1e-6.

    Of 400 fleets that is more than 16, of 200, where rounds are 168, more than 12.
    """
    fleets = 400 if rounds < 168 else 200
    chance = np.random.default_rng([2026, rounds, int(step_s)])
    found = (judged(chance.normal(size=rounds), step_s=step_s) for _ in range(fleets))
    assert sum(one.is_moving for one in found) <= stats.binom.isf(1e-6, fleets, FALSE_ALARM)


@pytest.mark.uncovered
@each_case(
    "randomizer",
    [BudgetAware(1.0, REACH, Precision(beta=0.5, rho=0.9)), Hybrid(2.0, REACH)],
)
def test_resting_readings_raise_few_alarms(randomizer: RangeRandomizer) -> None:
    """Through a mechanism, errors read from the reports: 200 fleets of 50 that rest for two days.

    More than 11 alarms have probability 1e-5 if 1 % are false.
    """
    readings = np.tile(np.linspace(0, 400, 50), (48, 1))
    source = SeededRandom(2026)
    alarms = sum(of_reports(randomizer, readings, source).is_moving for _ in range(200))
    assert alarms <= stats.binom.isf(1e-5, 200, FALSE_ALARM)


@pytest.mark.uncovered
@each_case(
    ("devices", "width", "share"),
    [(50, 1000.0, 1.0), (200, 1000.0, 0.5), (50, 500.0, 0.5)],
)
def test_what_is_said_to_show_does_show(devices: int, width: float, share: float) -> None:
    """A spread of what the verdict names shows in 9 of 10 runs, also by its advice.

    The advice: half as much with 4 times the devices, or with half the range. 60 runs each; fewer
    hits than 9 of 10 would allow have probability 1e-5. A third of that spread shows rarely.
    """
    chance, source = np.random.default_rng([2026, devices]), SeededRandom(2026)
    rest = np.full((48, 50), 250.0)
    named = of_reports(Hybrid(2.0, REACH), rest, source).visible
    randomizer = Hybrid(2.0, Range(0, width))
    for part, expected in ((1.0, True), (0.3, False)):
        hits = 0
        for _ in range(60):
            moves = part * share * named * chance.normal(size=(48, 1))
            # Readings stay inside, so that nothing of the motion is clipped away.
            readings = np.clip(250 + moves, 0, 500) + np.zeros((1, devices))
            hits += of_reports(randomizer, readings, source).is_moving
        if expected:
            assert hits >= stats.binom.ppf(1e-5, 60, POWER)
        else:
            assert hits < 30


def test_a_daily_curve_shows_where_single_rounds_hide_it() -> None:
    """A week of a wave of 0.57 of the noise: waves find it, squares alone mostly would not.

    Of 100 runs; the power by the noncentral law of chi-square is 99.9 %, so fewer than 90 hits
    have probability below 1e-6.
    """
    chance = np.random.default_rng(2026)
    wave = 0.8 * np.sin(2 * math.pi * np.arange(168) / 24)
    found = [judged(wave + chance.normal(size=168)) for _ in range(100)]
    assert sum(one.is_moving for one in found) >= 90
    assert 0.4 < float(np.median([one.spread for one in found])) < 0.75
    assert found[0].visible > float(np.std(wave))


@pytest.mark.uncovered
def test_three_days_show_a_swing_of_twice_the_error() -> None:
    """A day's curve that swings by twice a round's error is seen in 9 of 10 runs of three days.

    Of 200 runs; it is seen in 98.7 % (400 others were counted), so fewer than 180 have probability
    below 1e-9. Of 200 fleets that rest at most 5 % are called moving: more than 10, if 1 % are
    false, has probability 1e-5.
    """
    chance = np.random.default_rng(2026)
    wave = np.sin(2 * math.pi * np.arange(72) / 24)
    seen = [judged(wave + chance.normal(size=72)).is_moving for _ in range(200)]
    rest = [judged(chance.normal(size=72)).is_moving for _ in range(200)]
    assert sum(seen) >= 180
    assert sum(rest) <= 10


def test_verdicts_look_back_and_no_further() -> None:
    """Each round has the verdict of the rounds up to it, of the last ones alone if asked."""
    chance = np.random.default_rng(2026)
    values = np.concatenate([chance.normal(size=40), 9 + chance.normal(size=40)])
    times_s = [HOUR_S * place for place in range(80)]
    means = [mean_of(float(value)) for value in values]
    found = verdicts(times_s, means, last=20)
    assert found[: ROUNDS_NEEDED - 1] == [None] * (ROUNDS_NEEDED - 1)
    for place in (7, 19, 39, 45, 79):
        begin = max(place - 19, 0)
        alone = verdicts(times_s[begin : place + 1], means[begin : place + 1])[-1]
        here = found[place]
        assert here is not None
        assert alone is not None
        assert (here.rounds, here.is_moving) == (alone.rounds, alone.is_moving)
        assert here.spread == pytest.approx(alone.spread, abs=1e-6)
        assert here.noise == pytest.approx(alone.noise)
        assert here.visible == pytest.approx(alone.visible)
    moving = [bool(one and one.is_moving) for one in found]
    assert moving[39::10] == [False, True, False, False, False]
    assert verdicts([], []) == []
    assert verdicts(times_s[:7], means[:7]) == [None] * 7
    assert verdicts(times_s[:9], means[:9], last=5) == [None] * 9


def test_a_tally_says_the_same_as_all_rounds_at_once() -> None:
    """Whatever the level; rounds without an error are left out."""
    chance = np.random.default_rng(2026)
    values = 5e6 + 3 * np.sin(np.arange(60)) + chance.normal(size=60)
    tally = VerdictTally()
    assert tally.verdict() is None
    tally.add(0.0, mean_of(1.0, math.inf))
    tally.add(0.0, mean_of(1.0, 0.0))
    for place, value in enumerate(values.tolist()):
        tally.add(HOUR_S * place, mean_of(value))
    found, expected = tally.verdict(), judged(values)
    assert found is not None
    assert (found.rounds, found.is_moving) == (60, True)
    assert found.spread == pytest.approx(expected.spread, rel=1e-6)
    assert found.visible == pytest.approx(expected.visible)
    # Many rounds are added up in groups; asked between two of them, and in the middle of one.
    values = 5e6 + 3 * np.sin(np.arange(600)) + chance.normal(size=600)
    many = VerdictTally()
    for place, value in enumerate(values.tolist()):
        many.add(HOUR_S * place, mean_of(value))
        if place + 1 in (256, 300, 600):
            so_far, alike = many.verdict(), judged(values[: place + 1])
            assert so_far is not None
            assert so_far.rounds == place + 1
            assert so_far.spread == pytest.approx(alike.spread, rel=1e-6)


def test_the_words() -> None:
    """Plain words, short enough for a state of Home Assistant (255 characters)."""
    moving = Verdict(rounds=48, is_moving=True, noise=31.2, spread=85.4, visible=50.0)
    assert verdict_in_words(moving, known=48, unit="W") == (
        "the rounds differ by more than their noise: by about 85 W (standard deviation over 48 "
        "rounds), where noise alone makes 31 W"
    )
    resting = Verdict(rounds=168, is_moving=False, noise=208.0, spread=3.0, visible=142.0)
    words = verdict_in_words(resting, known=168)
    assert words == (
        "not distinguishable from a constant: 168 rounds differ by no more than their noise, "
        "210; a spread of 140 would show, or of 71 with 4 times the devices or half the range"
    )
    assert len(words) < 255
    bare = verdict_in_words(resting, known=168, ways="")
    assert words.startswith(f"{bare}, or of 71 with")
    assert verdict_in_words(None, known=3) == "unknown yet: 3 of 8 rounds needed"


def test_an_interval_of_the_whole_range_says_nothing() -> None:
    """And says so; one of half the range, or of a target without bounds, does not."""
    wide = Estimate(400.0, 500.0, n=9, method="m", target="t", lowest=0.0, highest=1000.0)
    told = verdict_in_words(None, known=3, of=[wide])
    assert told.startswith("the interval is nearly the whole range and says nothing; unknown yet")
    sure = Estimate(400.0, 100.0, n=9, method="m", target="t", lowest=0.0, highest=1000.0)
    for one in (sure, mean_of(4.0, 1e9)):
        assert verdict_in_words(None, known=3, of=[one]).startswith("unknown yet")
