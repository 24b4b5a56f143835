"""The mean over a sliding window."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from tests.cases import each_case

from rase.counts.estimate import Estimate
from rase.domain import Range
from rase.series.tracker import Tracker
from rase.series.window import is_enough, rolling, surer_window, window


def rounds(values: list[float], error: float = 3.0, degrees: float = math.inf) -> list[Estimate]:
    """Return one estimate a value."""
    return [
        Estimate(v, error, n=10, method="m", target="mean", degrees_of_freedom=degrees)
        for v in values
    ]


values_strategy = st.lists(st.floats(-1e6, 1e6), max_size=12)


@given(values_strategy, st.integers(1, 14))
def test_a_window_is_the_mean_of_its_rounds(values: list[float], w: int) -> None:
    """There is one window for each round from the w-th on, and each is a plain mean."""
    done = window(rounds(values), w)
    assert len(done) == max(len(values) - w + 1, 0)
    for start, one in enumerate(done):
        assert one is not None
        assert one.value == pytest.approx(math.fsum(values[start : start + w]) / w)
        assert one.standard_error == pytest.approx(3 / math.sqrt(w))
        assert one.n == 10 * w


@given(values_strategy)
def test_a_window_of_one_changes_nothing(values: list[float]) -> None:
    """Win(t, 1) = avg(t)."""
    assert window(rounds(values), 1) == rounds(values)


@given(values_strategy, st.integers(1, 5), st.floats(-100, 100))
def test_windows_move_with_their_rounds(values: list[float], w: int, shift: float) -> None:
    """Adding a constant to every round adds it to every window."""
    moved = window(rounds([v + shift for v in values]), w)
    for one, other in zip(window(rounds(values), w), moved, strict=True):
        assert one is not None
        assert other is not None
        assert other.value == pytest.approx(one.value + shift, abs=1e-6)


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 9))
def test_a_window_answers_with_the_rounds_it_has(present: list[bool], w: int) -> None:
    """Three quarters of the rounds are enough, and the answer says how many; strict wants all."""
    one = rounds([1.0])[0]
    series = [one if is_there else None for is_there in present]
    counts = [sum(present[start : start + w]) for start in range(len(present) - w + 1)]
    done = window(series, w)
    assert [entry is not None for entry in done] == [4 * count >= 3 * w for count in counts]
    for entry, count in zip(done, counts, strict=True):
        if entry is not None:
            assert (entry.rounds, entry.of_rounds, entry.n) == (count, w, 10 * count)
    strict = window(series, w, strict=True)
    assert [entry is not None for entry in strict] == [count == w for count in counts]


def test_a_missing_round_widens_the_error_by_how_far_rounds_differ() -> None:
    """Rounds 10 apart without noise: one of four missing adds a quarter of their deviation."""
    series = [*rounds([0.0, 10.0], 0.0), None, *rounds([20.0], 0.0)]
    (one,) = window(series, 4)
    assert one is not None
    assert one.value == 10.0
    assert one.standard_error == pytest.approx(10.0 / 4)
    assert one.degrees_of_freedom == 2
    assert one.target == "mean, over 3 of 4 rounds"


def test_noise_is_not_taken_for_motion() -> None:
    """Equal rounds under noise: only the doubt about their spread is added."""
    series = [*rounds([5.0] * 3, 3.0), None]
    (one,) = window(series, 4)
    assert one is not None
    assert one.standard_error == pytest.approx(math.hypot(3 / math.sqrt(3), 3 / 4))
    tracked_series = [*[tracked(5.0, 3.0)] * 3, None]
    (one,) = window(tracked_series, 4)
    assert one is not None
    assert one.standard_error == pytest.approx(math.hypot(3, 3 / 4))


def test_a_window_is_bounded_as_its_rounds_are() -> None:
    """The mean of means within a range lies within it, also in a window with a gap."""
    bounded = Estimate(-9.0, 3.0, n=9, method="m", target="mean", lowest=0.0, highest=10.0)
    for series in ([bounded] * 4, [bounded, None, bounded, bounded]):
        (one,) = window(series, 4)
        assert one is not None
        assert (one.lowest, one.highest, one.value) == (0.0, 10.0, -9.0)
        assert one.interval()[0] == 0.0


HOURS = np.arange(168)


def a_day(chance: np.random.Generator) -> NDArray[np.float64]:
    """Return a daily curve that is lowest at five."""
    return np.asarray(100 * np.sin(2 * np.pi * (HOURS - 11) / 24))


def office(chance: np.random.Generator) -> NDArray[np.float64]:
    """Return a square day."""
    return np.where((HOURS % 24 >= 8) & (HOURS % 24 < 18), 100.0, 0.0)


def walk(chance: np.random.Generator) -> NDArray[np.float64]:
    """Return a random walk."""
    return np.cumsum(chance.normal(0, 30, len(HOURS)))


@pytest.mark.uncovered
@each_case("noise", [10.0, 60.0, 300.0])
@each_case("w", [24, 168])
@each_case("fleet", [a_day, office, walk])
def test_windows_with_gaps_hold_the_mean_of_all_their_rounds(
    fleet: Callable[[np.random.Generator], NDArray[np.float64]], w: int, noise: float
) -> None:
    """With the same hour of every day withheld, 95 % intervals hold the mean of all rounds.

    The hard case: on the daily curve that hour is the lowest. 200 runs, of weeks 80; so few hits
    have probability 1e-6 if the share is 93 %. Without what is added for missing rounds, the
    interval of the daily curve under little noise holds it hardly ever.
    """
    chance = np.random.default_rng([2026, w, int(noise)])
    runs = 200 if w == 24 else 80
    hits = plain_hits = 0
    for _ in range(runs):
        truth = fleet(chance)[-w:]
        seen = truth + chance.normal(0, noise, w)
        series = [
            None if hour % 24 == 5 else rounds([float(value)], noise)[0]
            for hour, value in zip(HOURS[-w:], seen, strict=True)
        ]
        (one,) = window(series, w)
        assert one is not None
        low, high = one.interval()
        hits += low <= truth.mean() <= high
        reach = 1.96 * noise / math.sqrt(one.rounds)
        plain_hits += abs(one.value - truth.mean()) <= reach
    assert hits >= stats.binom.ppf(1e-6, runs, 0.93)
    if fleet is a_day and noise == 10 and w == 168:
        assert plain_hits < runs / 10


@pytest.mark.uncovered
@each_case("noise", [10.0, 60.0, 300.0])
@each_case("fleet", [a_day, office, walk])
@each_case("first", [0, 18])
def test_a_quarter_missing_at_a_stretch_is_mostly_held(
    first: int, fleet: Callable[[np.random.Generator], NDArray[np.float64]], noise: float
) -> None:
    """Six hours of a day, at its begin or end: 87 % or more, the least for a walk that goes on.

    200 runs; so few hits have probability 1e-6 if the share is 87 %.
    """
    chance = np.random.default_rng([2026, first, int(noise)])
    hits = 0
    for _ in range(200):
        truth = fleet(chance)[-24:]
        seen = rounds((truth + chance.normal(0, noise, 24)).tolist(), noise)
        series = [None if first <= hour < first + 6 else one for hour, one in enumerate(seen)]
        (one,) = window(series, 24)
        assert one is not None
        low, high = one.interval()
        hits += low <= truth.mean() <= high
    assert hits >= stats.binom.ppf(1e-6, 200, 0.87)


def test_what_is_always_missing_and_unlike_the_rest_is_not_held() -> None:
    """The limit that the page states: nothing in the other rounds speaks of it."""
    series = [None if hour == 5 else rounds([100.0], 1.0)[0] for hour in range(24)]
    (one,) = window(series, 24)
    assert one is not None
    assert one.interval()[0] > (23 * 100 + 0) / 24


def test_half_a_day_does_not_answer_for_the_whole() -> None:
    """Nothing in the one half says what the other was like; three quarters are needed."""
    assert window([*rounds([1.0] * 12), *[None] * 12], 24) == [None]
    assert not is_enough(17, 24)
    assert is_enough(18, 24)


def test_an_endless_series_is_read_no_further_than_needed() -> None:
    """The first window of 3 takes 3 rounds."""
    taken = itertools.count()
    series = (rounds([float(place)])[0] for place in taken)
    first = next(rolling(series, 3))
    assert first is not None
    assert first.value == 1.0
    assert next(taken) == 3


def test_long_series_do_not_drift() -> None:
    """After a huge round has left, the window is exact again."""
    done = window(rounds([1e17, 1.0, 1.0, 1.0]), 3)[-1]
    assert done is not None
    assert done.value == 1.0


def test_mixed_methods_and_targets_are_named() -> None:
    """A window says what it averages."""
    other = Estimate(1.0, 1.0, n=1, method="median", target="median")
    done = window([*rounds([1.0]), other], 2)[0]
    assert done is not None
    assert done.method == "m and median"
    assert done.target == "mean and median, over 2 rounds"


def test_degrees_of_freedom_add_up() -> None:
    """Equal rounds of 9 degrees have 9 w together (Welch and Satterthwaite)."""
    done = window(rounds([1.0, 2.0, 3.0], degrees=9.0), 3)[0]
    assert done is not None
    assert done.degrees_of_freedom == pytest.approx(27)


@each_case(("error", "degrees"), [(math.inf, 1.0), (0.0, math.inf)])
def test_errors_unknown_or_absent_stay_so(error: float, degrees: float) -> None:
    """An infinite error stays infinite, an error of 0 stays 0."""
    done = window(rounds([1.0, 2.0], error=error, degrees=4.0), 2)[0]
    assert done is not None
    assert done.standard_error == error
    assert done.degrees_of_freedom == degrees


@each_case("w", [0, -1])
def test_windows_below_one_are_refused(w: int) -> None:
    """A window has at least one round."""
    with pytest.raises(ValueError, match="w must be at least 1"):
        rolling([], w)


@each_case("w", [1.5, "3", True])
def test_windows_must_be_whole_numbers(w: object) -> None:
    """A broken number of rounds means nothing."""
    with pytest.raises(TypeError, match="w must be a whole number"):
        window([], w)  # type: ignore[arg-type]


def tracked(value: float, error: float) -> Estimate:
    """Return one round of ``tracked``."""
    return Estimate(value, error, n=10, method="tracked", target="mean", degrees_of_freedom=12.0)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=12), st.integers(1, 12))
def test_the_surer_window_is_taken(errors: list[float], w: int) -> None:
    """Errors of tracked rounds count as if they went together; standard errors alone decide."""
    followed = [tracked(5.0, error) for error in errors]
    alone = rounds([1.0] * len(errors))
    done = surer_window(followed, alone, w=w)
    assert len(done) == max(len(errors) - w + 1, 0)
    for start, one in enumerate(done):
        assert one is not None
        together = math.fsum(errors[start : start + w]) / w
        assert one.standard_error == pytest.approx(min(together, 3 / math.sqrt(w)))
        assert one.value == pytest.approx(5.0 if one.method == "tracked" else 1.0)
        assert one.degrees_of_freedom == (12.0 if one.method == "tracked" else math.inf)


def test_the_surer_window_follows_the_same_rule() -> None:
    """As with every other window: three of four answer, one of two does not, strict wants all."""
    followed = [tracked(5.0, 1.0), None, *[tracked(5.0, 1.0)] * 2]
    alone = [rounds([1.0])[0], None, *rounds([1.0]) * 2]
    assert surer_window(followed, alone, w=2)[:2] == [None, None]
    (one,) = surer_window(followed, alone, w=4)
    assert one is not None
    assert (one.rounds, one.of_rounds, one.method) == (3, 4, "tracked")
    assert surer_window(followed, alone, w=4, strict=True) == [None]


def test_tracked_rounds_and_rounds_alone_are_the_same_rounds() -> None:
    """Series of different lengths cannot be compared."""
    with pytest.raises(ValueError, match="shorter"):
        surer_window([tracked(5.0, 1.0)] * 3, rounds([1.0]), w=1)


@pytest.mark.uncovered
def test_short_windows_of_tracked_rounds_are_nearer_and_as_honest() -> None:
    """Over four noisy rounds tracked means come nearer to a wandering truth than unbiased ones.

    50 days of a level that wanders by 0.25 % of the range a day under noise of 10 %, seeded.
    Windows overlap and errors last, so the bounds are far from what was seen: a quarter of the
    error, and all covered.
    """
    chance = np.random.default_rng(2026)
    truth = 50 + np.cumsum(chance.normal(0, 1 / math.sqrt(24), 1200))
    tracker = Tracker(Range(-150, 250))
    alone = [
        Estimate(float(value), 40.0, n=50, method="unbiased_mean", target="mean")
        for value in truth + chance.normal(0, 40, len(truth))
    ]
    followed = [tracker.update(3600 * place, mean) for place, mean in enumerate(alone)]
    means = np.convolve(truth, np.ones(4) / 4, "valid")
    done = [one for one in surer_window(followed, alone, w=4) if one is not None]
    off = np.array([one.value for one in done]) - means
    plain = np.array([one.value for one in window(alone, 4) if one is not None]) - means
    low, high = np.array([one.interval() for one in done]).T
    assert math.sqrt(np.mean(off**2)) < math.sqrt(np.mean(plain**2)) / 2
    assert np.mean((low <= means) & (means <= high)) > 0.92


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.integers(1, 12))
def test_what_lasts_does_not_average_out(noise: float, lasting: float, w: int) -> None:
    """Over w rounds noise shrinks by the root of w; what rounds have in common stays."""
    one = rounds([5.0], noise)[0].with_lasting(lasting, degrees_of_freedom=5)
    (mean,) = window([one] * w, w)
    assert mean is not None
    assert mean.standard_error == pytest.approx(np.hypot(noise / np.sqrt(w), lasting))
    assert mean.lasting_error == pytest.approx(lasting)


def test_a_window_is_known_as_well_as_its_parts() -> None:
    """Where clipping makes the error its few degrees stay; where noise does they are many."""
    for noise, fewest, most in ((1e-6, 4.9, 5.1), (1e3, 1e6, math.inf)):
        one = rounds([5.0], noise)[0].with_lasting(1.0, degrees_of_freedom=5)
        (mean,) = window([one] * 4, 4)
        assert mean is not None
        assert fewest <= mean.degrees_of_freedom <= most
