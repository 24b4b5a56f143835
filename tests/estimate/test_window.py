"""The mean over a sliding window."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase.estimate.estimate import Estimate
from rase.estimate.tracker import Tracker
from rase.estimate.window import rolling, surer_window, window
from rase.stream import ValueRange


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


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 5))
def test_a_withheld_round_withholds_its_windows(present: list[bool], w: int) -> None:
    """A window is None exactly if one of its rounds is."""
    one = rounds([1.0])[0]
    series = [one if is_there else None for is_there in present]
    done = window(series, w)
    assert [entry is not None for entry in done] == [
        all(present[start : start + w]) for start in range(len(done))
    ]


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


@pytest.mark.parametrize(("error", "degrees"), [(math.inf, 1.0), (0.0, math.inf)])
def test_errors_unknown_or_absent_stay_so(error: float, degrees: float) -> None:
    """An infinite error stays infinite, an error of 0 stays 0."""
    done = window(rounds([1.0, 2.0], error=error, degrees=4.0), 2)[0]
    assert done is not None
    assert done.standard_error == error
    assert done.degrees_of_freedom == degrees


@pytest.mark.parametrize("w", [0, -1])
def test_windows_below_one_are_refused(w: int) -> None:
    """A window has at least one round."""
    with pytest.raises(ValueError, match="w must be at least 1"):
        rolling([], w)


@pytest.mark.parametrize("w", [1.5, "3", True])
def test_windows_must_be_whole_numbers(w: object) -> None:
    """A broken number of rounds means nothing."""
    with pytest.raises(TypeError, match="w must be a whole number"):
        window([], w)  # type: ignore[arg-type]


def tracked(value: float, error: float) -> Estimate:
    """Return one round of ``auto``."""
    return Estimate(value, error, n=10, method="auto", target="mean", degrees_of_freedom=12.0)


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
        assert one.value == pytest.approx(5.0 if one.method == "auto" else 1.0)
        assert one.degrees_of_freedom == (12.0 if one.method == "auto" else math.inf)


def test_a_withheld_round_withholds_the_surer_window() -> None:
    """As with every other window."""
    followed = [tracked(5.0, 1.0), None, tracked(5.0, 1.0)]
    alone = [rounds([1.0])[0], None, rounds([1.0])[0]]
    assert surer_window(followed, alone, w=2) == [None, None]


def test_tracked_rounds_and_rounds_alone_are_the_same_rounds() -> None:
    """Series of different lengths cannot be compared."""
    with pytest.raises(ValueError, match="shorter"):
        surer_window([tracked(5.0, 1.0)] * 3, rounds([1.0]), w=1)


def test_short_windows_of_auto_are_nearer_and_as_honest() -> None:
    """Over four noisy rounds tracked means come nearer to a wandering truth than unbiased ones.

    50 days of a level that wanders by 0.25 % of the range a day under noise of 10 %, seeded.
    Windows overlap and errors last, so the bounds are far from what was seen: a quarter of the
    error, and all covered.
    """
    chance = np.random.default_rng(2026)
    truth = 50 + np.cumsum(chance.normal(0, 1 / math.sqrt(24), 1200))
    tracker = Tracker(ValueRange(-150, 250))
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
