"""Rotate against split on the Swiss households: the same budget, how much less error."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from rase import BudgetAware, Precision, Range, SeededRandom, unbiased_mean
from rase.accounting.schedule import Rotate, Split

WINDOW, BUDGET = 24, 1.0
GUIDE = Path(__file__).parents[3] / "docs/guides/budget.md"
PRECISION = Precision(beta=0.5, rho=0.9)
# A Swiss home is connected with 25 A on three phases of 400 V, which carry 17 kW.
PER_HOUR_KWH = Range(0, 16)


def errors_of(readings: NDArray[np.float64], *, seed: int) -> tuple[float, float]:
    """Return the errors (root of the mean square over rounds) of split and of rotate.

    Args:
        readings: One row a round, one column a device.
        seed: For the noise and the devices' secrets.
    """
    public = PER_HOUR_KWH
    rounds, devices = readings.shape
    truth = np.clip(readings, public.low, public.high).mean(axis=1)
    split = BudgetAware(Split(BUDGET, WINDOW).epsilon_at(0), public, PRECISION)
    rng = SeededRandom(seed)
    by_split = [
        unbiased_mean(split.randomize(row, rng=rng), randomizer=split).value for row in readings
    ]
    rotate = BudgetAware(BUDGET, public, PRECISION)
    turns = np.array(
        [
            Rotate(
                BUDGET,
                WINDOW,
                secret=hashlib.sha256(f"{seed} {device}".encode()).digest(),
                campaign="power",
            ).turn
            for device in range(devices)
        ]
    )
    by_rotate = [
        unbiased_mean(
            rotate.randomize(readings[r, turns == r % WINDOW], rng=rng), randomizer=rotate
        ).value
        for r in range(rounds)
    ]
    return _root_mean_square(by_split - truth), _root_mean_square(by_rotate - truth)


def _root_mean_square(errors: NDArray[np.float64]) -> float:
    return math.sqrt(float(np.square(errors).mean()))


def theory(readings: NDArray[np.float64]) -> tuple[float, float]:
    """Return both errors from the mechanism's variance, with the sampling error of rotate."""
    public = PER_HOUR_KWH
    devices = readings.shape[1]
    clipped = np.clip(readings, public.low, public.high)
    split = BudgetAware(Split(BUDGET, WINDOW).epsilon_at(0), public, PRECISION)
    rotate = BudgetAware(BUDGET, public, PRECISION)
    noise = [float(np.mean(each.variance(clipped.ravel()))) for each in (split, rotate)]
    spread = float(clipped.var(axis=1).mean())
    reporting = devices / WINDOW
    return math.sqrt(noise[0] / devices), math.sqrt((noise[1] + spread) / reporting)


def is_as_in_theory(by_split: float, by_rotate: float, readings: NDArray[np.float64]) -> bool:
    """Tell whether the ratio of the errors lies within 17 % of theory."""
    split_theory, rotate_theory = theory(readings)
    return abs(math.log(by_split / by_rotate) - math.log(split_theory / rotate_theory)) < 0.17


@pytest.mark.uncovered
def test_rotate_beats_split_in_a_synthetic_fleet() -> None:
    """With 480 devices over 40 days the error falls by the factor of theory, about four.

    960 rounds know each error to 2.3 % and the ratio to 3.2 %, so 17 % fails fewer than one
    correct run in a million; a rotate with 30 % more error is caught.
    """
    hours = np.arange(960)[:, None]
    homes = np.arange(480)[None, :]
    readings = 1 + np.sin(hours / 24 * 2 * np.pi + homes) + homes % 7 / 3
    by_split, by_rotate = errors_of(readings, seed=2026)
    assert is_as_in_theory(by_split, by_rotate, readings)
    assert not is_as_in_theory(by_split, 1.3 * by_rotate, readings)


def swiss_readings(folder: Path) -> NDArray[np.float64]:
    """Return 49 days of 537 homes, kWh per hour: one row a round, one column a home."""
    table = pq.read_table(folder / "swiss_households_15min.parquet", columns=["value"])
    quarters = table["value"].to_numpy().astype(np.float64)
    # Sorted by device and then time, 49 days without a gap: four quarters make an hour.
    return np.asarray(quarters.reshape(537, 49 * 24, 4).sum(axis=2).T)


def guide_rows(readings: NDArray[np.float64], by_split: float, by_rotate: float) -> list[str]:
    """Return the lines of docs/guides/budget.md that state the two errors and their ratio."""
    split_theory, rotate_theory = theory(readings)
    return [
        f"| split, 537 reports a round | {by_split:.2f} kWh | {split_theory:.2f} kWh |",
        f"| rotate, about 22 reports a round | {by_rotate:.2f} kWh | {rotate_theory:.2f} kWh |",
        f"| ratio | **{by_split / by_rotate:.2f}** | {split_theory / rotate_theory:.2f} |",
        f"the mean reading, {readings.mean():.2f} kWh",
    ]


@pytest.mark.uncovered
def test_rotate_against_split_on_the_swiss_households(data_folder: Path) -> None:
    """Over 49 days of 537 homes both errors are those of theory and those of the guide.

    1176 rounds know each error to 2.1 % (one standard error), so 15 % is seven of them. With the
    seed the guide's figures are reproduced to their last digit.
    """
    readings = swiss_readings(data_folder)
    by_split, by_rotate = errors_of(readings, seed=2026)
    split_theory, rotate_theory = theory(readings)
    assert by_split == pytest.approx(split_theory, rel=0.15)
    assert by_rotate == pytest.approx(rotate_theory, rel=0.15)
    assert is_as_in_theory(by_split, by_rotate, readings)
    assert not is_as_in_theory(by_split, 1.3 * by_rotate, readings)
    guide = GUIDE.read_text(encoding="utf-8")
    assert [row for row in guide_rows(readings, by_split, by_rotate) if row not in guide] == []
    # A figure that is off by one in its last digit would be noticed.
    wrong = guide_rows(readings, by_split + 0.01, by_rotate - 0.01)
    assert [row in guide for row in wrong] == [False, False, False, True]
