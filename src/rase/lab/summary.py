"""A panel in numbers: by which synthetic and measured fleets are compared."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.errors import DataError
from rase.lab.panel import Panel

__all__ = ["PanelSummary", "summary_of"]

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PanelSummary:
    """The statistics of a panel.

    They are computed from readings before any noise: nothing here is private.

    Args:
        low: The smallest reading.
        high: The largest reading.
        median: The median of all readings.
        mean: The mean of all readings.
        lowest_mean: The smallest mean of the fleet in a round.
        highest_mean: The largest one.
        zero_share: The share of readings that are exactly 0.
        low_share: The share of readings below 1.
        day_correlation: The correlation of a device with itself a day later, mean over devices that
            are not constant; NaN if rounds do not divide a day, or the panel is too short.
        fleet_day_correlation: The same for the fleet's mean.
    """

    low: float
    high: float
    median: float
    mean: float
    lowest_mean: float
    highest_mean: float
    zero_share: float
    low_share: float
    day_correlation: float
    fleet_day_correlation: float


def summary_of(panel: Panel) -> PanelSummary:
    """Return the statistics of a panel.

    Raises:
        DataError: If the panel has no reading.

    Example:
        >>> summary = summary_of(Panel([0, 1], ["a", "b"], [[0, 4], [2, float("nan")]]))
        >>> summary.median, summary.lowest_mean, summary.zero_share
        (2.0, 2.0, 0.3333333333333333)
    """
    has_reading = ~np.isnan(panel.values)
    readings = panel.values[has_reading]
    if not readings.size:
        raise DataError("the panel must hold at least one reading, got none.")
    counts = has_reading.sum(axis=1)
    sums = np.where(has_reading, panel.values, 0.0).sum(axis=1)
    means = np.full(panel.rounds, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    lag = _rounds_per_day(panel)
    by_device = [_lag_correlation(column, lag) for column in panel.values.T]
    known = [one for one in by_device if not np.isnan(one)]
    return PanelSummary(
        low=float(readings.min()),
        high=float(readings.max()),
        median=float(np.median(readings)),
        mean=float(readings.mean()),
        lowest_mean=float(np.nanmin(means)),
        highest_mean=float(np.nanmax(means)),
        zero_share=float(np.mean(readings == 0)),
        low_share=float(np.mean(readings < 1)),
        day_correlation=float(np.mean(known)) if known else float("nan"),
        fleet_day_correlation=_lag_correlation(means, lag),
    )


def _rounds_per_day(panel: Panel) -> int:
    """Return how many rounds a day has, 0 if that is no whole number or there is one round."""
    if panel.rounds < 2:
        return 0
    interval_ms = int(np.diff(panel.times_ms).min())
    return 0 if _DAY_MS % interval_ms else _DAY_MS // interval_ms


def _lag_correlation(column: NDArray[np.float64], lag: int) -> float:
    if not 0 < lag < len(column):
        return float("nan")
    now, later = column[:-lag], column[lag:]
    both = ~(np.isnan(now) | np.isnan(later))
    now, later = now[both], later[both]
    # Of two points any correlation is 1 or -1; of equal ones there is none.
    if now.size < 3 or np.ptp(now) == 0 or np.ptp(later) == 0:
        return float("nan")
    return float(np.corrcoef(now, later)[0, 1])
