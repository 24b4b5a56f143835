"""Looking back: exact for each model, better on quiet fleets, and switched off where it is not."""

import math

import numpy as np
import pytest
from tests.series.test_families import HOUR_S, IRREGULAR, SIZES, dense_covariance, grid, seen

from rase import Range
from rase.counts.estimate import Estimate
from rase.series.rounds import RoundResult, Rounds
from rase.series.smoother import _backward, _forward, smooth_record
from rase.series.tracker import Tracker
from rase.series.window import window
from rase.shuffle.uniform import Uniform

UNIT = Range(0, 1)


def record(
    mean: np.ndarray, *, noise: float, seed: int = 2026
) -> tuple[list[Estimate], list[Estimate]]:
    """Return hourly unbiased means of a fleet, and what the tracker said of each."""
    rng, tracker = np.random.default_rng(seed), Tracker(UNIT)
    alone = [
        Estimate(float(value), noise, n=50, method="unbiased_mean", target="mean of the readings")
        for value in mean + noise * rng.normal(size=len(mean))
    ]
    return alone, [tracker.update(place * HOUR_S, one) for place, one in enumerate(alone)]


def errors_of(estimates: list[Estimate], mean: np.ndarray) -> float:
    """Return the root mean square error."""
    return math.sqrt(
        float(np.mean([(o.value - m) ** 2 for o, m in zip(estimates, mean, strict=True)]))
    )


def test_each_model_smooths_as_one_dense_normal_law_does() -> None:
    """Means and variances given the whole record, over uneven times, to 1e-9."""
    rng = np.random.default_rng(2026)
    times_s = np.cumsum(rng.choice([1, 1, 2, 9], size=30)) * HOUR_S
    values, noise = rng.normal(0.5, 0.4, size=30), rng.uniform(0.05, 0.2, size=30)
    rows = [seen(time_s) for time_s in times_s.tolist()]
    _, surprises, totals, gains = _forward(
        grid(), times_s, values, noise, rows=rows, value_range=UNIT
    )
    means, variances = _backward(
        grid(), times_s, values, noise, rows=rows, passes=(surprises, totals, gains)
    )
    covariance = dense_covariance(times_s)
    gain = np.linalg.solve(covariance + np.diag(noise), covariance).T
    assert means[0] == pytest.approx(0.5 + gain @ (values - 0.5), abs=1e-9)
    assert variances[0] == pytest.approx(np.diag(covariance - gain @ covariance), abs=1e-9)
    assert IRREGULAR > 0
    assert len(SIZES) == 2


def test_a_daily_wave_is_nearer_and_its_intervals_hold() -> None:
    """The error falls by an eighth or more; 90 % of intervals hold, and most rounds are revised."""
    mean = 0.4 + 0.15 * np.sin(2 * math.pi * np.arange(400) / 24)
    alone, filtered = record(mean, noise=0.1)
    smoothed = smooth_record((np.arange(400) * HOUR_S).tolist(), alone, filtered=filtered)
    assert errors_of(smoothed, mean) < 0.87 * errors_of(filtered, mean)
    held = [
        low <= m <= high
        for (low, high), m in zip([o.interval() for o in smoothed], mean, strict=True)
    ]
    assert np.mean(held) > 0.9
    assert sum(one.method == "smoothed" for one in smoothed) > 200


def test_spikes_and_jumps_are_left_as_they_were_known() -> None:
    """Where models of small steps would be wrong the error is at most 3 % above the filtered."""
    hours = np.arange(400)
    spikes = np.where(hours % 90 < 4, 0.6, 0.2)
    jump = np.where(hours < 200, 0.15, 0.65)
    for mean in (spikes, jump):
        alone, filtered = record(mean, noise=0.04)
        smoothed = smooth_record((hours * HOUR_S).tolist(), alone, filtered=filtered)
        assert errors_of(smoothed, mean) <= 1.03 * errors_of(filtered, mean)
        assert any(one.method == "tracked" for one in smoothed)


def test_rounds_look_back_and_few_of_them_do_not() -> None:
    """A list of rounds is revised where it can be; other rounds and short lists stay."""
    mean = 0.4 + 0.15 * np.sin(2 * math.pi * np.arange(200) / 24)
    alone, filtered = record(mean, noise=0.1)
    manifest = Uniform().manifest_for(50)
    rounds = Rounds(
        RoundResult(50, {"tracked": then}, manifest, place, place * 3_600_000, alone=one)
        for place, (one, then) in enumerate(zip(alone, filtered, strict=True))
    )
    rounds.append(RoundResult(50, {"unbiased_mean": alone[0]}, manifest))
    revised = rounds.smoothed()
    assert len(revised) == 201
    assert revised[-1] is rounds[-1]
    assert errors_of([one.estimate for one in revised[:-1]], mean) < errors_of(filtered, mean)
    assert rounds[:5].smoothed() == rounds[:5]


def test_a_window_of_smoothed_rounds_supposes_the_worst_as_one_of_tracked_rounds_does() -> None:
    """Errors of rounds that share the same record go together, and do not average out."""
    one = Estimate(0.4, 0.1, n=9, method="smoothed", target="mean of the readings")
    (mean,) = window([one] * 16, 16)
    assert mean is not None
    assert mean.standard_error == pytest.approx(0.1)
