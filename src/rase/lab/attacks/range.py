"""Attack `range`: who can have sent such a large report?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.errors import DataError
from rase.lab.attacks.likelihood import ReadingModel, likelihood_of
from rase.lab.attacks.protocol import Case, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import best_first

__all__ = ["RangeAttack"]


@dataclass(frozen=True, slots=True)
class RangeAttack:
    """Name only the senders of outliers, from the largest reading of each device.

    A nameplate is enough: a report of 2 kW is not from a lamp. A device is taken to read anything
    up to its largest reading with equal chance; of the devices that reach a report, those that
    reach little further are the likeliest. Reports below the threshold get no answer.

    Knowledge:
        Knows the smallest and the largest raw reading of each device in the training rounds, which
        a type plate would show as well, and the public mechanism. Sees the value. Cost n x bins^2
        and one look-up a report: within n log n.

    Args:
        threshold: From where on reports count as outliers; if not given, what only one device in
            ten ever reaches.
        bins: How many bins of readings, and of reports.
    """

    threshold: float | None = None
    bins: int = 128

    name: ClassVar[str] = "range"
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HISTORY, Knowledge.MECHANISM})
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n log n"

    def guess(self, case: Case) -> Guesses:
        """Rank the devices once per bin of reports, and look up the outliers."""
        lows, highs = _ranges(case.known_history())
        if case.randomizer is not None:
            grid = case.randomizer.domain
            lows, highs = np.clip((lows, highs), grid.low, grid.high)
        threshold = float(np.quantile(highs, 0.9)) if self.threshold is None else self.threshold
        rounds, slots = np.nonzero(case.is_test)
        reports = case.values[rounds, slots]
        likelihood = likelihood_of(
            _uniform_on(lows, highs, self.bins), case.randomizer, reports, self.bins
        )
        posterior = (likelihood.table / likelihood.table.sum(axis=0)).T
        ranked = best_first(posterior)
        best = np.take_along_axis(posterior, ranked[:, :1], axis=1)[:, 0]
        bins = likelihood.bin_of(reports)
        is_outlier = reports >= threshold
        return Guesses(
            rounds,
            slots,
            np.where(is_outlier[:, np.newaxis], ranked[bins], -1),
            np.where(is_outlier, best[bins], 0.0),
            clusters=rounds,
        )


def _ranges(history: Floats) -> tuple[Floats, Floats]:
    is_known = ~np.isnan(history)
    if not is_known.any():
        raise DataError("the training rounds must hold at least one reading, got none.")
    lows = np.where(is_known, history, np.inf).min(axis=0)
    highs = np.where(is_known, history, -np.inf).max(axis=0)
    # Of a device without a reading anything is possible.
    silent = ~is_known.any(axis=0)
    lows[silent], highs[silent] = lows.min(), highs.max()
    return lows, highs


def _uniform_on(lows: Floats, highs: Floats, bins: int) -> ReadingModel:
    """Spread each device's readings evenly over the bins its range touches."""
    low, high = lows.min(), highs.max()
    inner = np.linspace(low, high, bins + 1)[1:-1] if high > low else np.empty(0)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    first = np.searchsorted(inner, lows, side="right")[:, np.newaxis]
    last = np.searchsorted(inner, highs, side="right")[:, np.newaxis]
    place = np.arange(edges.size - 1)
    weights = ((place >= first) & (place <= last)).astype(np.float64)
    bounds = np.concatenate([[low], inner, [high]])
    points = (bounds[:-1] + bounds[1:]) / 2
    return ReadingModel(points, weights / weights.sum(axis=1, keepdims=True), edges)
