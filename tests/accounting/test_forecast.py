"""What `tracked` will achieve, foretold on readings one holds."""

import math
from dataclasses import fields

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.counts.many import spread_of

from rase import Duchi, Hybrid, Precision, Range, SeededRandom, unbiased_mean
from rase.accounting.forecast import Forecast, Remedy, forecast_error, forecast_of, remedies
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named
from rase.series.runs import Runs, run_means, runs_of
from rase.series.tracker import Tracker

WATTS = Range(0, 2800)


def made(epsilon: float, value_range: Range) -> RangeRandomizer:
    """Return the best mechanism."""
    return randomizer_named(
        "auto", epsilon, domain=value_range, precision=Precision(beta=0.5, rho=0.9)
    )


def wave(rounds: int, n: int, swing: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return readings that follow a daily wave, and their hours."""
    hours = np.arange(rounds, dtype=np.float64) * 3600
    rng = np.random.default_rng(2026)
    mean = 500 + swing * np.sin(2 * np.pi * hours / 86_400)
    return mean[:, None] + 20 * rng.normal(size=(rounds, n)), hours


def test_a_trial_is_a_run_of_the_estimator() -> None:
    """A trial has the errors of the same noise followed by hand; several average squares."""
    readings, hours = wave(40, 12, 100.0)
    mechanism = Hybrid(2.0, WATTS)
    squares = []
    for seed in (3, 4):
        rng, tracker, errors = SeededRandom(seed), Tracker(WATTS), []
        reports = mechanism.randomize(readings.ravel(), rng=rng).reshape(readings.shape)
        for row, some, time_s in zip(readings, reports, hours.tolist(), strict=True):
            alone = unbiased_mean(some, randomizer=mechanism)
            told = tracker.update(time_s, alone, spread=spread_of(some, mechanism))
            errors.append(told.value - row.mean())
        squares.append(np.mean(np.square(errors[1:])))
    shares: list[float] = []
    done = forecast_error(
        readings, hours, mechanism=mechanism, seeds=(3, 4), on_trial=shares.append
    )
    assert done.tracked == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-3)
    assert shares == [0.0]


def test_trials_go_on_until_the_error_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first rounds decide all 64 are made; sixteen are enough if the error is known."""
    readings, hours = wave(24, 4, 100.0)
    mechanism = made(0.1, WATTS)
    shares: dict[str, list[float]] = {"all": [], "some": []}
    every = forecast_error(readings, hours, mechanism=mechanism, on_trial=shares["all"].append)
    assert every.error_high > 1.05 * every.tracked
    monkeypatch.setattr("rase.accounting.forecast._NEAR_ENOUGH", 2.0)
    some = forecast_error(readings, hours, mechanism=mechanism, on_trial=shares["some"].append)
    assert shares == {"all": [0.0, 0.25, 0.5, 0.75], "some": [0.0]}
    assert some == forecast_error(readings, hours, mechanism=mechanism, seeds=range(1, 17))
    assert every.error_high / every.error_low < some.error_high / some.error_low


def test_without_a_trial_nothing_is_foretold() -> None:
    """No seeds are refused."""
    readings, hours = wave(24, 4, 100.0)
    with pytest.raises(ValueError, match="seeds must hold one trial or more"):
        forecast_error(readings, hours, mechanism=made(1.0, WATTS), seeds=())


def test_more_devices_and_more_epsilon_tell_more() -> None:
    """Copies of the fleet and a larger budget both lower the error."""
    readings, hours = wave(72, 20, 200.0)
    one = forecast_error(readings, hours, mechanism=made(1.0, WATTS), seeds=(1,))
    many = forecast_error(readings, hours, mechanism=made(1.0, WATTS), seeds=(1,), copies=16)
    rich = forecast_error(readings, hours, mechanism=made(8.0, WATTS), seeds=(1,))
    assert many.alone < one.alone / 2
    assert many.tracked < one.tracked
    assert rich.tracked < one.tracked


def test_rounds_without_readings_are_left_out() -> None:
    """Gaps are no rounds; fewer than two rounds tell nothing."""
    readings, hours = wave(30, 5, 100.0)
    readings[10:20] = np.nan
    readings[3, 2] = np.nan
    told = forecast_error(readings, hours, mechanism=Hybrid(2.0, WATTS), seeds=(1,))
    assert told.rounds == 20
    with pytest.raises(ValueError, match="readings must hold two rounds or more"):
        forecast_error(readings[:1], hours[:1], mechanism=Hybrid(2.0, WATTS))


def test_remedies_are_the_least_that_beat_the_constant() -> None:
    """A wave that 20 devices cannot show at a small epsilon is shown by a change of each kind."""
    readings, hours = wave(96, 20, 200.0)
    before = forecast_error(readings, hours, mechanism=Duchi(0.2, WATTS), seeds=(1,))
    found = remedies(readings, hours, mechanism_of=made, epsilon=0.2, value_range=WATTS)
    assert not before.beats_constant
    by_kind = {one.what: one for one in found}
    assert {"epsilon", "range"} <= set(by_kind)
    for one in found:
        assert isinstance(one, Remedy)
        assert one.skill > 1.0
    assert by_kind["epsilon"].value in (0.4, 0.8, 1.6, 3.2)
    assert by_kind["range"].value < WATTS.width


def test_what_cannot_be_had_is_no_remedy() -> None:
    """Epsilons above 16, and ranges no narrower than the one there is, are not offered."""
    readings = np.tile([0.0, 2800.0], (12, 2))
    hours = np.arange(12, dtype=np.float64) * 3600
    found = remedies(readings, hours, mechanism_of=made, epsilon=9.0, value_range=WATTS)
    assert {one.what for one in found} <= {"devices"}


def test_what_does_not_clearly_win_is_no_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change after which the constant is as good as before is not offered."""
    readings, hours = wave(12, 3, 50.0)
    still = Forecast(12, 1.0, 9.0, 1.05, 0.95)
    monkeypatch.setattr("rase.accounting.forecast.forecast_error", lambda *_, **__: still)
    assert remedies(readings, hours, mechanism_of=made, epsilon=1.0, value_range=WATTS) == ()


def test_a_forecast_without_error_has_all_skill() -> None:
    """Skill is infinite where nothing is off."""
    assert Forecast(2, 0.0, 0.0, 1.0, 1.0).skill == np.inf
    still = np.full((4, 3), 700.0)
    told = forecast_error(still, np.arange(4.0) * 3600, mechanism=Hybrid(2.0, WATTS), seeds=(1,))
    assert told.skill_low == 0.0
    assert told.error_high == np.inf
    assert not told.beats_constant


def test_the_interval_of_a_forecast_holds_what_other_noise_gives() -> None:
    """Sixteen trials foretell the error of sixteen others; their interval is neither 0 nor wild.

    Both means are within their 95 % intervals nearly always: they are apart by more than the sum
    of both half-widths with probability below 1e-4, and the seeds are fixed.
    """
    readings, hours = wave(96, 20, 200.0)
    one, other = (
        forecast_error(readings, hours, mechanism=made(2.0, WATTS), seeds=seeds)
        for seeds in (range(1, 17), range(101, 117))
    )
    assert one.error_low < one.tracked < one.error_high < 2 * one.error_low
    assert one.error_low < other.error_high
    assert other.error_low < one.error_high
    assert 0 < one.skill_low < one.skill
    assert one.beats_constant == (one.skill_low > 1)


def test_other_days_are_held_by_their_interval() -> None:
    """One run on other days lies within the interval in nine of ten cases or so.

    How far the mean of a day lies off the others is drawn anew every day. 20 pairs of weeks; a
    share of 0.9 gives 15 or more with a chance of 0.99; the interval of the trials holds fewer. All
    runs are followed at once, which is cheaper: four trials of each week, one of its other.
    """
    trials, pairs, rng = 5, 20, np.random.default_rng(2026)
    hours = np.arange(168, dtype=np.float64) * 3600.0
    mechanism = made(4.0, WATTS)
    reports, truth = [], []
    for seed in range(pairs * trials):
        if seed % trials in (0, trials - 1):
            size = np.repeat(rng.lognormal(0.0, 1.2, size=7), 24)
            means = 1000 + size * 120 * np.sin(np.arange(168) * rng.uniform(0.5, 1.5))
            readings = means[:, None] + rng.normal(0, 30, size=(168, 40))
            readings = readings.clip(WATTS.low, WATTS.high)
        truth.append(readings.mean(axis=1))
        reports.append(mechanism.randomize(readings.ravel(), rng=SeededRandom(seed)))
    means = run_means(np.stack(reports), np.full(168, 40), randomizer=mechanism)
    runs = runs_of(means, hours, truth=np.stack(truth), value_range=WATTS)
    held, narrow = [], []
    for pair in range(pairs):
        first, other = trials * pair, float(runs.tracked[trials * pair + trials - 1])
        tried = {
            one.name: getattr(runs, one.name)[first : first + trials - 1] for one in fields(Runs)
        }
        one = forecast_of(Runs(**tried), 168)
        held.append(one.other_low <= other <= one.other_high)
        narrow.append(one.error_low <= other <= one.error_high)
    assert sum(held) >= 15
    assert sum(narrow) < 15


def test_few_rounds_and_one_trial_say_nothing_of_other_days() -> None:
    """Eight rounds, or a single drawing of the noise, leave the interval open."""
    readings, hours = wave(24, 4, 100.0)
    mechanism = made(1.0, WATTS)
    for few in (
        forecast_error(readings, hours, mechanism=mechanism, seeds=(1,)),
        forecast_error(readings[:8], hours[:8], mechanism=mechanism, seeds=range(4)),
    ):
        assert (few.other_low, few.other_high) == (0.0, math.inf)
    some = forecast_error(readings, hours, mechanism=mechanism, seeds=range(4))
    assert 0 < some.other_low < some.tracked < some.other_high < math.inf
