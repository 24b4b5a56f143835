"""Looking back: exact for each model, better on quiet fleets, and switched off where it is not."""

import math

import numpy as np
import pytest
from tests.series.test_families import HOUR_S, IRREGULAR, SIZES, dense_covariance, grid, seen

from rase import Range
from rase.counts.estimate import Estimate
from rase.counts.fleet import OF_FLEET
from rase.series import smoother
from rase.series.rounds import Record, RoundResult, Rounds
from rase.series.smoother import LEAST_ROUNDS, smooth_record
from rase.series.tracker import Tracker
from rase.series.window import window
from rase.shuffle.uniform import Uniform

UNIT = Range(0, 1)


def record(
    mean: np.ndarray, *, noise: float, seed: int = 2026
) -> tuple[list[Estimate], list[Estimate]]:
    """Return what was known of hourly rounds of a fleet when they came, and what is known now."""
    rng, tracker = np.random.default_rng(seed), Tracker(UNIT)
    alone = [
        Estimate(float(value), noise, n=50, method="unbiased_mean", target="mean of the readings")
        for value in mean + noise * rng.normal(size=len(mean))
    ]
    times_s = [place * HOUR_S for place in range(len(mean))]
    known = [tracker.update(time_s, one) for time_s, one in zip(times_s, alone, strict=True)]
    return known, smooth_record(times_s, alone, filtered=known, evidence=tracker.evidence)


def errors_of(estimates: list[Estimate], mean: np.ndarray) -> float:
    """Return the root mean square error."""
    return math.sqrt(
        float(np.mean([(o.value - m) ** 2 for o, m in zip(estimates, mean, strict=True)]))
    )


def seen_rows(times_s: np.ndarray) -> np.ndarray:
    """Return how much of each part shows, a time a row."""
    return np.stack([seen(time_s) for time_s in times_s.tolist()])


@pytest.mark.parametrize("block", [1024, 7])
def test_each_model_smooths_as_one_dense_normal_law_does(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means and variances given the whole record, over uneven times, in blocks too, to 1e-9."""
    monkeypatch.setattr(smoother, "_BLOCK", block)
    rng = np.random.default_rng(2026)
    times_s = np.cumsum(rng.choice([1, 1, 2, 9], size=30)) * HOUR_S
    values, noise = rng.normal(0.5, 0.4, size=30), rng.uniform(0.05, 0.2, size=30)
    sampling = rng.uniform(0.0, 0.1, size=30)
    rounds = smoother.Record(times_s, values, noise, sampling, UNIT)
    laws = list(smoother._Pass(grid(), seen_rows, rounds).look_back())[::-1]
    means, variances = (np.concatenate(part, axis=1) for part in zip(*laws, strict=True))
    covariance = dense_covariance(times_s) + np.diag(sampling)
    gain = np.linalg.solve(covariance + np.diag(noise), covariance).T
    assert means[0] == pytest.approx(0.5 + gain @ (values - 0.5), abs=1e-9)
    assert variances[0] == pytest.approx(np.diag(covariance - gain @ covariance), abs=1e-9)
    assert IRREGULAR > 0
    assert len(SIZES) == 2


@pytest.mark.parametrize(("hours", "gain"), [(24, 1.15), (3.3, 2.0)])
def test_a_wave_is_nearer_and_its_intervals_hold(hours: float, gain: float) -> None:
    """The error falls, of a day and of a cycle that was learnt; 90 % of intervals hold."""
    mean = 0.4 + 0.15 * np.sin(2 * math.pi * np.arange(400) / hours)
    filtered, smoothed = record(mean, noise=0.1)
    assert gain * errors_of(smoothed, mean) < errors_of(filtered, mean)
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
        filtered, smoothed = record(mean, noise=0.04)
        assert errors_of(smoothed, mean) <= 1.03 * errors_of(filtered, mean)
        assert any(one.method == "tracked" for one in smoothed)


def test_a_record_looks_back_and_says_what_was_known_then() -> None:
    """Rounds are revised where they can be, others and short records stay, and all can go back."""
    rng, manifest = np.random.default_rng(2026), Uniform().manifest_for(50)
    mean = 0.4 + 0.15 * np.sin(2 * math.pi * np.arange(200) / 24)
    alone = [
        Estimate(float(one), 0.1, n=50, method="unbiased_mean", target="mean of the readings")
        for one in mean + 0.1 * rng.normal(size=200)
    ]
    rounds = [
        RoundResult(50, {"tracked": one}, manifest, place, place * 3_600_000, alone=one)
        for place, one in enumerate(alone)
    ]
    timeless = RoundResult(50, {"unbiased_mean": alone[0]}, manifest)
    rounds.insert(100, timeless)
    kept = Record(Tracker(UNIT))
    then = Rounds(kept.follow(rounds))
    now = Rounds(kept.look_back())
    assert now[100] is timeless
    assert now.as_known_then() == then
    del now[100], then[100]
    assert [one.start_ms for one in now] == [one.start_ms for one in then]
    is_revised = [one.estimate.method == "smoothed" for one in now]
    assert sum(is_revised) > 100
    assert is_revised == [one.known_then is not None for one in now]
    assert errors_of([one.estimate for one in now], mean) < errors_of(
        [one.estimate for one in then], mean
    )
    short = Record(Tracker(UNIT))
    assert short.follow(rounds[:5]) == list(short.look_back())


def test_rounds_of_few_that_differ_are_no_surer_than_their_sample() -> None:
    """Where 5 and 100 of a spread fleet report in turns, an odd round keeps its own mean's doubt.

    Of 100 devices 5 have a mean of their own; later rounds of all 100 say nothing about it.
    """
    rng, kept = np.random.default_rng(2026), Record(Tracker(UNIT))
    manifest, spread, truth, rounds = Uniform().manifest_for(50), 0.04, [], []
    for place in range(300):
        n = 100 if place % 2 else 5
        mean = 0.5 + math.sqrt(spread * (1 / n - 1 / 100)) * rng.normal()
        error = 0.3 / math.sqrt(n)
        one = Estimate(mean + error * rng.normal(), error, n=n, method="unbiased_mean", target="t")
        rounds.append(
            RoundResult(
                n, {"tracked": one}, manifest, place, place * 3_600_000, alone=one, spread=spread
            )
        )
        truth.append(mean)
    kept.follow(rounds)
    ends = [one.estimate.interval() for one in kept.look_back()]
    held = [low <= mean <= high for (low, high), mean in zip(ends, truth, strict=True)]
    assert np.mean(held[0::2]) > 0.9
    assert np.mean(held[1::2]) > 0.9


def test_a_tracker_looks_back_over_its_last_rounds() -> None:
    """Few rounds stay as they were; of more, later rounds bring all but the last nearer.

    Of a daily wave in noise of two thirds of its size, over what a round was when it came and what
    is known of it 24 rounds later. A sample of the fleet stays as doubtful as its choice makes it.
    """
    rng, tracker = np.random.default_rng(2026), Tracker(UNIT, lag=24)
    mean = 0.4 + 0.15 * np.sin(2 * math.pi * np.arange(150) / 24)
    known: list[Estimate] = []
    later: list[Estimate] = []
    for place, noisy in enumerate((mean + 0.1 * rng.normal(size=150)).tolist()):
        one = Estimate(noisy, 0.1, n=50, method="unbiased_mean", target="mean of the readings")
        members = 200 if place == 149 else None
        known.append(tracker.update(place * HOUR_S, one, spread=0.01, members=members))
        back = tracker.look_back()
        assert back[-1] == (place * HOUR_S, known[-1])
        assert [time_s for time_s, _ in back] == [
            some * HOUR_S for some in range(max(place - 24, 0), place + 1)
        ]
        if place < LEAST_ROUNDS - 1:
            assert [some for _, some in back] == known
        elif place >= 24:
            later.append(back[0][1])
    revised = [one.method == "smoothed" for one in later]
    assert sum(revised) > 100
    assert [one for one in later if one.method != "smoothed"] == [
        was for was, is_now in zip(known, revised, strict=False) if not is_now
    ]
    assert 1.15 * errors_of(later, mean[:126]) < errors_of(known[:126], mean[:126])
    held = [low <= m <= high for (low, high), m in zip(ends_of(later), mean, strict=False)]
    assert np.mean(held) > 0.9
    assert [one.target for _, one in back[-2:]] == ["mean of the readings", OF_FLEET]


def ends_of(estimates: list[Estimate]) -> list[tuple[float, float]]:
    """Return the intervals."""
    return [one.interval() for one in estimates]


def test_a_window_of_smoothed_rounds_supposes_the_worst_as_one_of_tracked_rounds_does() -> None:
    """Errors of rounds that share the same record go together, and do not average out."""
    one = Estimate(0.4, 0.1, n=9, method="smoothed", target="mean of the readings")
    (mean,) = window([one] * 16, 16)
    assert mean is not None
    assert mean.standard_error == pytest.approx(0.1)


def test_errors_shrink_only_as_far_as_the_record_proves() -> None:
    """Where looking back claims a gain that rounds do not show, errors stay what they were."""
    rng, noise, count = np.random.default_rng(2026), 0.1, 400
    values = 0.5 + noise * rng.normal(size=count)
    times_s, errors = HOUR_S * np.arange(count, dtype=np.float64), np.full(count, 0.05)
    rounds = smoother.Record(times_s, values, np.full(count, noise**2), np.zeros(count), UNIT)
    known = [
        Estimate(0.5, error, n=50, method="tracked", target="mean", lowest=0.0, highest=1.0)
        for error in errors.tolist()
    ]
    claimed = np.full(count, 0.02**2)
    proven = {
        off: smoother.is_better(rounds, 0.5 + off * rng.normal(size=count), claimed, filtered=known)
        for off in (0.0, 0.06)
    }
    assert proven[0.0][1] == 1.0
    assert proven[0.06][1] < 0.5
    law = (np.full(count, 0.5), claimed)
    everywhere = np.ones(count, dtype=np.bool_)
    stated = [
        smoother.revised(
            known,
            everywhere,
            *law,
            factors=np.ones(count),
            degrees=np.full(count, math.inf),
            proven=share,
        )[0].standard_error
        for share in (0.0, 0.5, 1.0)
    ]
    assert stated[0] == pytest.approx(0.05)
    assert stated[0] > stated[1] > stated[2] == pytest.approx(0.7 * 0.05)
