"""Following the mean through time: error, coverage, and what spoils lesser filters."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case
from tests.counts.many import spread_of

from rase import Duchi, Hybrid, Range, SeededRandom
from rase.counts.estimate import Estimate, student_quantile
from rase.counts.mean import unbiased_mean
from rase.series.bank import Belief, FilterBank, _own_movement
from rase.series.tracker import Tracker
from rase.series.window import window

Floats = NDArray[np.float64]

REACH = Range(0, 1000)
HOUR_S = 3600.0
DAY = 24


def mean_of(value: float, error: float, n: int = 50) -> Estimate:
    """Return what a round tells by itself."""
    return Estimate(value, error, n=n, method="unbiased_mean", target="mean of the readings")


def followed(tracker: Tracker, means: Floats, error: float, *, first: int = 0) -> list[Estimate]:
    """Return the tracked estimates of hourly rounds."""
    return [
        tracker.update((first + place) * HOUR_S, mean_of(float(value), error))
        for place, value in enumerate(means)
    ]


def fleet_mean(rng: np.random.Generator, rounds: int) -> Floats:
    """Return a level that wanders by 5 % of the range a day, with a daily wave on it."""
    steps = rng.normal(size=rounds) * 50 / math.sqrt(DAY)
    wave = 60 * np.cos(2 * math.pi * np.arange(rounds) / DAY)
    return np.asarray(400 + np.cumsum(steps) + wave)


class Static(FilterBank):
    """A bank whose filters forget that time passes, and trust their movement: the planted fault."""

    def _advance(self, time_s: float) -> None:
        self._time_s = time_s
        self._scales[:] = [1.0, 0.0, 0.0, 0.0, 0.0]
        self._away[:, 0] = 0.0


def squared_errors(kind: type[FilterBank], seeds: range) -> Floats:
    """Return squared errors of the last of 60 rounds in units of the stated variance."""
    rngs = [np.random.default_rng([2026, seed]) for seed in seeds]
    truth = np.stack([fleet_mean(rng, 60) for rng in rngs])
    seen = truth + 15 * np.stack([rng.normal(size=60) for rng in rngs])
    bank = kind(REACH.low, REACH.width, runs=len(rngs))
    for place in range(60):
        belief = bank.step(place * HOUR_S, seen[:, place], variance=15.0**2, n=50)
    return np.asarray(np.square(belief.means - truth[:, -1]) / belief.variances)


def test_stated_errors_are_those_made_and_a_static_bank_is_noticed() -> None:
    """Squared errors average to the stated variance; without process noise they are far larger.

    One error a run, so that they are independent. If the statement is right or too careful, the
    mean of 30 chi-squares exceeds 2.6 with probability below 1e-6.
    """
    honest = float(squared_errors(FilterBank, range(30)).mean())
    assert 0.2 < honest < 2.6
    assert float(squared_errors(Static, range(30)).mean()) > 2.6


def last_beliefs(runs: int, noise: float) -> tuple[Belief, Floats]:
    """Return what is believed of the last of 48 rounds, and the truth, for many made-up fleets."""
    rng = np.random.default_rng(2026)
    truth = np.stack([fleet_mean(rng, 48) for _ in range(runs)])
    seen = truth + noise * rng.normal(size=truth.shape)
    bank = FilterBank(REACH.low, REACH.width, runs=runs)
    for place in range(48):
        belief = bank.step(place * HOUR_S, seen[:, place], variance=noise**2, n=50)
    return belief, truth[:, -1]


@pytest.mark.uncovered
def test_intervals_hold_the_truth_of_fleets_that_move() -> None:
    """At least 92 % of 400 independent intervals do; reaching 30 % less far would be noticed.

    False-alarm rate 1e-6 if the true share is 92 %: so few hits are then as rare.
    """
    belief, truth = last_beliefs(400, 150.0)
    quantiles = np.array([student_quantile(0.95, one) for one in belief.degrees.tolist()])
    off = np.abs(belief.means - truth) / np.sqrt(belief.variances)
    fewest = stats.binom.ppf(1e-6, 400, 0.92)
    assert np.count_nonzero(off <= quantiles) >= fewest
    assert np.count_nonzero(off <= 0.7 * quantiles) < fewest


def test_degrees_are_few_where_motion_makes_the_error_and_many_where_noise_does() -> None:
    """Borrowed estimates rest on what models suppose; precise rounds and resting means do not."""
    moving = last_beliefs(2, 150.0)[0].degrees
    precise = last_beliefs(2, 0.05)[0].degrees
    assert moving.max() < 90
    assert precise.min() > 100


def test_devices_that_differ_for_good_need_not_move_the_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A spread of 300 lets 50 devices move the mean by 42, but rounds that rest tell otherwise."""

    def error_at_the_end() -> float:
        rng, tracker = np.random.default_rng(2026), Tracker(REACH)
        for number in range(100):
            mean = mean_of(500 + 30 * rng.normal(), 30.0)
            last = tracker.update(number * HOUR_S, mean, spread=90_000.0)
        return last.standard_error

    known = error_at_the_end()
    monkeypatch.setattr("rase.series.bank._IRREGULAR_BELOW", math.log(1.8))
    _own_movement.cache_clear()
    narrow = error_at_the_end()
    _own_movement.cache_clear()
    assert known < 0.99 * narrow


def test_a_tracked_mean_is_much_nearer_than_the_round_alone() -> None:
    """Two weeks of a daily wave in noise twice its size: the error falls to about a third."""
    rng = np.random.default_rng(2026)
    truth = fleet_mean(rng, 14 * DAY)
    noisy = truth + 150 * rng.normal(size=truth.size)
    tracked = np.array([one.value for one in followed(Tracker(REACH), noisy, 150.0)])
    late = slice(7 * DAY, None)
    alone = float(np.sqrt(np.mean((noisy - truth)[late] ** 2)))
    # 168 normal errors of deviation 150 average to one between 100 and 200 but for 1e-7.
    assert 100 < alone < 200
    assert float(np.sqrt(np.mean((tracked - truth)[late] ** 2))) < 0.36 * alone


def test_a_precise_round_comes_through_unchanged() -> None:
    """Where noise is far below what the mean moves, the estimate is the round's own."""
    rng = np.random.default_rng(2026)
    truth = fleet_mean(rng, 100)
    done = followed(Tracker(REACH), truth, 0.02)
    assert max(abs(one.value - value) for one, value in zip(done, truth, strict=True)) < 0.1
    assert done[-1].standard_error == pytest.approx(0.02, rel=0.2)


def test_the_first_round_is_as_sure_as_its_noise_wherever_the_mean_lies() -> None:
    """Nothing was learnt before it: the middle of the range is no better guess than any other."""
    for place in np.linspace(0.1, 0.9, 33):
        (first,) = followed(Tracker(Range(0.0, 1.0)), np.array([place]), 0.01)
        low, high = first.interval()
        assert first.standard_error < 0.012
        assert low < place < high
        assert high - low < 0.05


def test_a_level_shift_is_followed_within_hours() -> None:
    """After a jump by 40 % of the range the estimate is at the new level within six rounds."""
    rng = np.random.default_rng(2026)
    truth = np.repeat([200.0, 600.0], 5 * DAY)
    done = followed(Tracker(REACH), truth + 20 * rng.normal(size=truth.size), 20.0)
    assert abs(done[5 * DAY + 6].value - 600) < 60
    assert max(abs(one.value - 600) for one in done[5 * DAY + 6 :]) < 100


def test_gaps_widen_the_interval_and_nothing_else() -> None:
    """Withheld rounds are left out: the next estimate is less sure, however long the gap."""
    rng = np.random.default_rng(2026)
    truth = fleet_mean(rng, 5 * DAY)
    tracker = Tracker(REACH)
    before = followed(tracker, truth + 60 * rng.normal(size=truth.size), 60.0)[-1]
    copy = Tracker.from_bytes(REACH, tracker.to_bytes())
    near = tracker.update(5 * DAY * HOUR_S, mean_of(400, 60))
    far = copy.update(50 * DAY * HOUR_S, mean_of(400, 60))
    assert near.standard_error < 1.5 * before.standard_error
    assert near.standard_error < far.standard_error <= 61


def test_one_device_is_followed_too() -> None:
    """A single report a round of the widest error is enough to go on."""
    randomizer = Duchi(0.5, REACH)
    tracker, rng = Tracker(REACH), SeededRandom(2026)
    for number in range(200):
        reports = randomizer.randomize([300.0], rng=rng)
        assert spread_of(reports, randomizer) is None
        last = tracker.update(number * HOUR_S, unbiased_mean(reports, randomizer=randomizer))
    alone = math.sqrt(float(randomizer.variance(np.array([300.0]))[0]))
    # 200 rounds average to an error of 0.07 of one; five times that would be one in 1e6.
    assert abs(last.value - 300) < 0.4 * alone
    assert last.n == 1


def test_the_spread_within_rounds_tells_how_far_the_mean_moves() -> None:
    """Where readings hardly differ, the mean cannot jump about, and the interval knows it."""
    tracked = {}
    for spread in (25.0, 90_000.0):
        rng, tracker = np.random.default_rng(2026), Tracker(REACH)
        for number in range(100):
            mean = mean_of(500 + 100 * rng.normal(), 100.0)
            tracked[spread] = tracker.update(number * HOUR_S, mean, spread=spread)
    assert tracked[25.0].standard_error < tracked[90_000.0].standard_error


def test_a_mean_near_an_end_of_the_range_is_followed_more_calmly() -> None:
    """It cannot move further than the way to that end, so the same noise leaves less doubt."""
    errors, last = {}, {}
    for level in (10.0, 500.0, 990.0):
        rng = np.random.default_rng(2026)
        done = followed(Tracker(REACH), level + 100 * rng.normal(size=200), 100.0)
        errors[level] = float(np.mean([one.standard_error for one in done[100:]]))
        last[level] = done[-1].value
    assert errors[10.0] < 0.8 * errors[500.0]
    assert errors[990.0] < 0.8 * errors[500.0]
    assert abs(last[10.0] - 10) < 5 * errors[10.0]


def test_a_belief_outside_the_range_is_cut_to_it() -> None:
    """A value inside, with what is left of the error, however far outside rounds lie."""
    told = {}
    for value in (-50.0, -400.0, -40_000.0):
        tracker = Tracker(REACH)
        told[value] = followed(tracker, np.full(30, value), 100.0)[-1]
        assert 0.0 < told[value].value < 100.0
        assert told[value].standard_error > 0.0
        low, high = told[value].interval()
        assert 0.0 <= low < told[value].value < high < REACH.high
    assert told[-400.0].value < told[-50.0].value
    assert told[-400.0].standard_error < told[-50.0].standard_error


def test_no_estimate_near_an_end_is_the_end_itself() -> None:
    """Fleets at 1 % of the range under noise of 7 % of it: inside, near, and covered.

    An end of the range that is printed as an estimate reads like a measurement; of 100 runs of 48
    rounds none has one. Intervals of the last round hold the truth in 93 % of the runs or more: so
    few hits have probability 1e-6 otherwise. What lies inside costs little: the error over all
    rounds is within 1.2 times that of the mean of all rounds so far, moved to the end.
    """
    runs, truth, noise = 100, 10.0, 70.0
    seen = truth + noise * np.random.default_rng(2026).normal(size=(runs, 48))
    bank = FilterBank(REACH.low, REACH.width, runs=runs)
    squares, plain = [], []
    for place in range(48):
        belief = bank.step(place * HOUR_S, seen[:, place], variance=noise**2, n=50)
        assert (belief.means > REACH.low).all()
        squares.append(np.square(belief.means - truth))
        plain.append(np.square(seen[:, : place + 1].mean(axis=1).clip(0) - truth))
    quantiles = np.array([student_quantile(0.95, one) for one in belief.degrees.tolist()])
    held = np.abs(belief.means - truth) <= quantiles * np.sqrt(belief.variances)
    assert np.count_nonzero(held) >= stats.binom.ppf(1e-6, runs, 0.93)
    assert np.mean(squares) < 1.44 * np.mean(plain)


def test_a_fleet_near_an_end_of_a_wide_range_is_not_pulled_inside() -> None:
    """Readings of 1 % of the range under noise of a quarter of it: hardly worse than a constant.

    An error that allows for movement nobody saw must not move estimates: moved by the whole of it
    they are off by 1.2 times as much as the mean of earlier rounds.
    """
    runs, rounds, noise = 24, 300, 250.0
    rng = np.random.default_rng(2026)
    truth = rng.exponential(10.0, (runs, rounds, 64)).mean(axis=2)
    seen = truth + noise * rng.normal(size=(runs, rounds))
    bank = FilterBank(REACH.low, REACH.width, runs=runs)
    found = np.stack(
        [
            bank.step(place * HOUR_S, seen[:, place], variance=noise**2, n=64).means
            for place in range(rounds)
        ],
        axis=1,
    )
    constant = (np.cumsum(seen, axis=1)[:, :-1] / np.arange(1, rounds)).clip(0, 1000)
    ours = np.mean(np.square(found - truth)[:, 1:])
    assert ours < 1.08**2 * np.mean(np.square(constant - truth[:, 1:]))


def test_the_spread_is_the_variance_of_the_readings() -> None:
    """Mechanisms whose reports carry squares tell it."""
    readings = np.tile([300.0, 500.0], 4000)
    reports = Hybrid(8.0, REACH).randomize(readings, rng=SeededRandom(2026))
    spread = spread_of(reports, Hybrid(8.0, REACH))
    assert spread == pytest.approx(10_000, rel=0.2)


def test_a_state_written_and_read_goes_on_to_the_last_bit() -> None:
    """Estimates after a checkpoint equal those without, as bits."""
    rng = np.random.default_rng(2026)
    means = 500 + 50 * rng.normal(size=40)
    whole = Tracker(REACH)
    expected = [
        whole.update(place * HOUR_S, mean_of(value, 50.0), spread=400.0)
        for place, value in enumerate(means.tolist())
    ]
    stopped = Tracker.from_bytes(REACH, Tracker(REACH).to_bytes())
    assert stopped.time_s is None
    for place, value in enumerate(means.tolist()):
        done = stopped.update(place * HOUR_S, mean_of(value, 50.0), spread=400.0)
        assert done == expected[place]
        stopped = Tracker.from_bytes(REACH, stopped.to_bytes())
    assert stopped.to_bytes() == whole.to_bytes()
    assert stopped.time_s == 39 * HOUR_S


@each_case("state", [b"", b"rase-bank-3\n" + bytes(100), b"cut"])
def test_a_state_of_other_models_is_refused(state: bytes) -> None:
    """Bytes of another release, cut off or empty, are never taken for a state."""
    with pytest.raises(ValueError, match="state must be of the same models"):
        Tracker.from_bytes(REACH, state)
    whole = Tracker(REACH).to_bytes()
    with pytest.raises(ValueError, match="state must be of the same models"):
        Tracker.from_bytes(REACH, whole[:-8])
    with pytest.raises(ValueError, match="state must be of the same models"):
        Tracker.from_bytes(Range(0, 999), whole)


def test_estimates_stay_finite_and_inside_the_range_whatever_comes() -> None:
    """Huge, tiny and contradictory rounds give finite estimates within the range."""
    tracker = Tracker(REACH)
    hostile = [(1e300, 1e8), (-1e300, 1e-6), (1e300, 1e-6), (0.0, 1e-9), (1000.0, 1e-9)]
    for place, (value, error) in enumerate(hostile * 5):
        done = tracker.update(place * 60.0, mean_of(value, error, 1), spread=(-1.0) ** place * 1e12)
        assert REACH.low <= done.value <= REACH.high
        assert 0 <= done.standard_error < math.inf


@each_case("error", [0.0, math.inf, 1e10])
def test_a_mean_without_a_usable_error_is_refused(error: float) -> None:
    """An estimate that knows nothing of its error, or claims to have none, teaches nothing."""
    with pytest.raises(ValueError, match="mean must have a finite standard error above 0"):
        Tracker(REACH).update(0.0, mean_of(1.0, error))


def test_rounds_out_of_order_and_endless_numbers_are_refused() -> None:
    """Time goes forward, and every number is finite; a refused round leaves no trace."""
    tracker = Tracker(REACH)
    with pytest.raises(ValueError, match="time_s must be finite"):
        tracker.update(math.nan, mean_of(1.0, 1.0))
    tracker.update(100.0, mean_of(1.0, 1.0))
    state = tracker.to_bytes()
    for late in (100.0, 99.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="time_s must be later than 100"):
            tracker.update(late, mean_of(1.0, 1.0))
    with pytest.raises(ValueError, match="spread must be finite"):
        tracker.update(200.0, mean_of(1.0, 1.0), spread=math.nan)
    assert tracker.to_bytes() == state


@pytest.mark.uncovered
def test_windows_of_tracked_means_would_claim_too_much() -> None:
    """Errors of tracked rounds go together: their mean is worse than independence promises.

    The reason why windows average unbiased means. Over 40 runs the squared error of the mean of 12
    tracked rounds is more than twice what independent errors would give; the error that `window`
    tells is not too small, nor is that of unbiased means (the mean of 40 chi-squares exceeds 2.3
    with probability below 1e-6).
    """
    ratios: dict[str, list[float]] = {"naive": [], "tracked": [], "alone": []}
    for seed in range(40):
        rng = np.random.default_rng([2026, seed])
        truth = fleet_mean(rng, 36)
        noisy = truth + 100 * rng.normal(size=36)
        rounds = {
            "tracked": followed(Tracker(REACH), noisy, 100.0)[-12:],
            "alone": [mean_of(float(value), 100.0) for value in noisy[-12:]],
        }
        for name, row in rounds.items():
            (mean,) = window(row, 12)
            assert mean is not None
            off = float(mean.value - truth[-12:].mean())
            ratios[name].append((off / mean.standard_error) ** 2)
            if name == "tracked":
                independent = math.fsum(one.standard_error**2 for one in row) / 144
                ratios["naive"].append(off**2 / independent)
    assert np.mean(ratios["naive"]) > 2.3
    assert np.mean(ratios["tracked"]) < 2.3
    assert np.mean(ratios["alone"]) < 2.3


def test_no_rounds_are_followed_to_nothing() -> None:
    """A block without a round changes nothing."""
    tracker = Tracker(REACH)
    assert tracker.follow([], [], spreads=[]) == []
