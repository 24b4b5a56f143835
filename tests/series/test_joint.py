import math
from copy import deepcopy

import numpy as np
import pytest

from rase.counts.estimate import Estimate
from rase.domain import Range
from rase.series.bank import FilterBank
from rase.series.families import DAY_S
from rase.series.joint import joint_law
from rase.series.models import seen_of, smooth_grid
from rase.series.tracker import Tracker

HOUR_S, ROUNDS, WINDOW, NOISE = 3600.0, 60, 24, 0.1
MISSING = {50, 51, 58}
IS_THERE = np.array([place not in MISSING for place in range(ROUNDS)])


@pytest.fixture(scope="module")
def followed() -> tuple[FilterBank, np.ndarray]:
    """A bank after 60 rounds, of which three are missing, and their means."""
    values = 0.3 + NOISE * np.random.default_rng(5).normal(size=ROUNDS)
    bank = FilterBank(0, 1, remembered=WINDOW)
    for place, value in enumerate(values):
        if IS_THERE[place]:
            bank.step(HOUR_S * place, np.array([value]), variance=NOISE**2, n=50)
        else:
            bank.skip(HOUR_S * place)
    return bank, values


def dense(model: int, values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return a weighted sum of all rounds and its variance, by one model's whole covariance."""
    grid, times = smooth_grid(), HOUR_S * np.arange(ROUNDS)
    waves = np.array([seen_of(time_s)[0] for time_s in times])[:, 2:]
    both, apart = np.minimum.outer(times, times), np.abs(np.subtract.outer(times, times))
    lasting = grid.lasting_s[model]
    irregular = np.exp(-apart / lasting) if lasting else np.eye(ROUNDS)
    sizes = (grid.profile[model] * np.repeat(grid.sizes, 2)) ** 2
    covariance = (
        1 / 3
        + grid.level[model] ** 2 * both / DAY_S
        + grid.irregular[model] ** 2 * irregular
        + (waves * sizes) @ waves.T * (1 + 0.02**2 * both / DAY_S)
    )
    seen = covariance[np.ix_(IS_THERE, IS_THERE)] + NOISE**2 * np.eye(int(IS_THERE.sum()))
    along = covariance[IS_THERE] @ weights
    gain = np.linalg.solve(seen, along)
    return 0.5 + gain @ (values[IS_THERE] - 0.5), weights @ covariance @ weights - along @ gain


@pytest.mark.parametrize("model", [0, 20, 57, 100, 140, 161])
@pytest.mark.parametrize("is_present", [False, True])
def test_the_joint_law_is_that_of_the_whole_covariance(
    followed: tuple[FilterBank, np.ndarray], model: int, is_present: bool
) -> None:
    """Mean and variance of a window with gaps are those of one solve over all rounds."""
    bank, values = followed
    chances = np.zeros(204)
    chances[model] = 1.0
    assert bank._recent is not None
    steps = list(bank._recent._steps)
    weights = np.zeros(ROUNDS)
    weights[-WINDOW:] = 1.0
    if is_present:
        weights *= IS_THERE
    weights /= weights.sum()
    mean, variance = joint_law(steps, chances, is_present=is_present)
    assert (mean, variance) == pytest.approx(dense(model, values, weights), rel=1e-7)


def test_looking_back_is_that_of_the_whole_covariance(
    followed: tuple[FilterBank, np.ndarray],
) -> None:
    """Each of the last rounds that is there, as one model and all rounds tell it."""
    bank, values = followed
    recent = deepcopy(bank._recent)
    assert recent is not None
    recent._chances = np.zeros(204)
    recent._chances[57] = 1.0
    means, variances, factors, _ = recent.look_back()
    places = [place for place in range(ROUNDS - WINDOW, ROUNDS) if IS_THERE[place]]
    expected = np.array([dense(57, values, np.eye(ROUNDS)[place]) for place in places])
    assert means == pytest.approx(expected[:, 0], rel=1e-7)
    assert variances == pytest.approx(expected[:, 1], rel=1e-6)
    # How far a law reaches is interpolated.
    assert factors == pytest.approx(np.ones(len(places)), rel=5e-3)


def test_windows_are_for_banks_that_remember() -> None:
    """A bank that keeps no rounds has no windows, and refuses to be told of missing rounds."""
    bank = FilterBank(0, 1)
    bank.step(0.0, np.array([0.3]), variance=0.01, n=50)
    assert bank.window(1) is None
    with pytest.raises(ValueError, match="remembered must be above 0 for windows"):
        bank.skip(HOUR_S)
    with pytest.raises(ValueError, match="remembered must be above 0 for looking back"):
        bank.look_back()


def windows_of(
    truth: np.ndarray, *, noise: float, missing: float, seed: int
) -> list[tuple[float, Estimate, float]]:
    """Return the truth of windows, what the tracker says, and the mean of what is there."""
    rng = np.random.default_rng(seed)
    tracker = Tracker(Range(0, 1), window=WINDOW, every_s=HOUR_S)
    is_there = rng.uniform(size=len(truth)) >= missing
    values = truth + noise * rng.normal(size=len(truth))
    found = []
    for place in np.flatnonzero(is_there).tolist():
        mean = Estimate(values[place], noise, n=50, method="unbiased_mean", target="mean")
        tracker.update(HOUR_S * place, mean)
        window = tracker.mean_of_last() if place >= 72 and place % 4 == 0 else None
        if window is not None:
            last = slice(place - WINDOW + 1, place + 1)
            plain = float(values[last][is_there[last]].mean())
            found.append((float(truth[last].mean()), window, plain))
    return found


def test_windows_with_gaps_hold_the_mean_of_all_rounds() -> None:
    """95 % intervals of windows that lack rounds hold, and errors are below half the plain mean's.

    The fleet has a daily wave, so what is missing is not like what is there.
    """
    found = []
    for seed in range(4):
        truth = 0.4 + 0.15 * np.sin(2 * math.pi * (np.arange(300) / 24 + seed / 4))
        found += windows_of(truth, noise=0.1, missing=0.06, seed=seed)
    held = [low <= truth <= high for truth, one, _ in found for low, high in [one.interval()]]
    ours, plain = (
        math.sqrt(np.mean([(pair - truth) ** 2 for truth, pair in pairs]))
        for pairs in (
            [(truth, one.value) for truth, one, _ in found],
            [(truth, mean) for truth, _, mean in found],
        )
    )
    assert len(found) > 150
    assert np.mean(held) >= 0.92
    assert ours < 0.75 * plain
    claimed = np.sqrt(np.mean([one.standard_error**2 for _, one, _ in found]))
    assert claimed < 2 * ours


def test_windows_follow_the_rounds_where_all_models_are_wrong() -> None:
    """With spikes that no model has, windows come near the unbiased mean's, and still hold."""
    hours = np.arange(400)
    truth = np.where(hours % 90 < 4, 0.6, 0.2)
    found = windows_of(truth, noise=0.02, missing=0.0, seed=3)
    held = [low <= truth <= high for truth, one, _ in found for low, high in [one.interval()]]
    ours = math.sqrt(np.mean([(one.value - truth) ** 2 for truth, one, _ in found]))
    plain = math.sqrt(np.mean([(mean - truth) ** 2 for truth, _, mean in found]))
    assert np.mean(held) >= 0.85
    assert ours < 1.4 * plain


def test_a_window_states_how_many_of_its_rounds_are_there() -> None:
    """Missing rounds are counted, and too few are no answer."""
    tracker = Tracker(Range(0, 1), window=8, every_s=60.0)
    mean = Estimate(0.3, 0.1, n=10, method="unbiased_mean", target="mean")
    answers = {}
    for place in (0, 1, 2, 3, 4, 6, 7, 8, 40, *range(41, 50)):
        tracker.update(60.0 * place, mean)
        answers[place] = tracker.mean_of_last()
    assert answers[6] is None
    assert answers[40] is None
    assert answers[44] is None
    gap = answers[8]
    assert gap is not None
    assert (gap.rounds, gap.of_rounds, gap.n) == (7, 8, 70)
    assert gap.target == "mean of the readings, over 7 of 8 rounds"
    whole = answers[48]
    assert whole is not None
    assert whole.target == "mean of the readings, over 8 rounds"
    assert Tracker(Range(0, 1)).mean_of_last() is None


def test_filters_of_a_cycle_that_began_within_a_window_do_not_speak_of_it() -> None:
    """While a cycle is new its windows come from the other models; later from it as well."""
    truth = 0.4 + 0.2 * np.sin(2 * math.pi * np.arange(160) / 3.3)
    found = windows_of(truth, noise=0.05, missing=0.0, seed=2)
    assert all(abs(one.value - right) < 5 * one.standard_error for right, one, _ in found)
    assert found[-1][1].standard_error < 0.02
