"""Range feedback on panels: the best range there is, and how near feedback comes."""

import numpy as np
import pytest

from rase.lab.panel import Panel
from rase.lab.ranging import AFTER, best_range, best_tracked_range, follow_feedback


def panel(rounds: int = 64) -> Panel:
    """Return readings around 100 ± 10 of 80 devices, with a gap."""
    values = np.random.default_rng(1).normal(100, 10, (rounds, 80))
    values[3] = np.nan
    values[5, 2] = np.nan
    return Panel(
        np.arange(rounds) * 3_600_000, [str(place) for place in range(80)], values, "W", "made up"
    )


def test_the_best_range_balances_noise_and_clipping() -> None:
    """With little noise it holds most readings; with much it is narrow; it can be widened."""
    precise, noisy = (best_range(panel(), epsilon=epsilon, rounds=60) for epsilon in (8.0, 1.0))
    assert precise.high - precise.low > noisy.high - noisy.low
    assert precise.rmse < noisy.rmse
    assert precise.low < 100 < precise.high
    wide = precise.widen(10, floor=None)
    low, high = min(precise.low, precise.inner[0]), max(precise.high, precise.inner[1])
    assert wide.width == pytest.approx(10 * (high - low))
    assert wide.low < precise.low < precise.high < wide.high
    assert precise.widen(10, floor=0.0).low == 0


def test_the_best_range_may_stand_above_most_readings() -> None:
    """One device of ten draws all power, so that the mean is no quantile: it is found anyway."""
    values = np.zeros((60, 10))
    values[:, 9] = 1000 + np.arange(60)
    skewed = Panel(np.arange(60) * 60_000, [str(place) for place in range(10)], values)
    best = best_range(skewed, epsilon=0.5, rounds=60)
    assert 104.5 < best.low < best.high < 106.5
    assert best.rmse == pytest.approx(values.mean(axis=1)[AFTER:].std(), rel=0.05)


@pytest.mark.uncovered
def test_feedback_comes_near_the_best_range() -> None:
    """From ten times too wide, after 48 rounds the range is less than a third as wide."""
    readings = panel()
    best = best_range(readings, epsilon=2.0, rounds=63)
    start = best.widen(10, floor=None)
    found = follow_feedback(readings, start, epsilon=2.0, rounds=63, seed=1)
    assert len(found.widths) == 63
    assert found.widths[0] == start.width
    assert found.widths[AFTER] < start.width / 3
    assert found.rmse < 4 * best.rmse
    assert found.ranges[0][0] == 4
    assert 0.8 <= found.coverage <= 1.0


def test_tracked_means_have_a_best_range_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found by drawing noise for some ranges, and feedback comes near it."""
    monkeypatch.setattr("rase.lab.ranging._TRIED", (0.98,))
    readings = panel()
    alone = best_range(readings, epsilon=1.0, rounds=60)
    tracked = best_tracked_range(readings, epsilon=1.0, rounds=60)
    assert tracked.rmse < 1.2 * alone.rmse
    start = tracked.widen(10, floor=None)
    found = follow_feedback(readings, start, epsilon=1.0, rounds=60, seed=1, estimator="tracked")
    assert found.rmse < 6 * tracked.rmse
    assert len(found.widths) == 60
