"""Lying devices: how far part of a fleet can move each estimator by choosing its reports.

A liar sends a report that its mechanism can draw, or it is refused; nothing tells it from an
honest one. What it can do is therefore bounded by how far a report is stretched when it is decoded
(`RangeRandomizer.decoded_reach`), not by the range of readings alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.counts.counts import as_counts
from rase.counts.registry import TRACKED, estimator_named
from rase.kernels.words import SeededRandom
from rase.laws.randomizer import RangeRandomizer
from rase.series.rounds import estimate_round
from rase.series.tracker import Tracker

__all__ = ["Poisoned", "highest_report", "poison_rounds"]

Floats = NDArray[np.float64]

_ROUND_S = 3600
# Twelve liars leave the middle of so many groups honest.
_GROUPS = 25


@dataclass(frozen=True, slots=True)
class Poisoned:
    """The effect of liars on one estimator, in widths of the range.

    Args:
        shift: How far the estimate moved, averaged over the rounds.
        bound: The farthest it could have moved.
        error: How wrong the estimate of an honest fleet is, as the root of its mean square.
        bias: How wrong it is on average.
    """

    shift: float
    bound: float
    error: float
    bias: float


def poison_rounds(
    readings: Floats,
    randomizer: RangeRandomizer,
    *,
    liars: int,
    estimators: Sequence[str],
    window: int,
    seed: int,
) -> dict[str, Poisoned]:
    """Estimate rounds twice, honest and with liars who all send the highest report in all rounds.

    Noise and resampling are the same both times, so the difference is the liars' alone.

    Args:
        readings: One round a row, one device a column; the last ones lie.
        randomizer: The mechanism of all devices.
        liars: How many of them lie.
        estimators: Names of estimators. Two are not in `estimator_named`: ``window``, the mean of
            unbiased means over so many rounds, and ``median_of_means``, the median of the means
            of 25 groups of decoded reports.
        window: The length of that window.
        seed: Of noise and resampling.

    Raises:
        ValueError: If there are not fewer liars than devices, or fewer rounds than a window has.
    """
    rounds, n = readings.shape
    if not 0 <= liars < n:
        raise ValueError(f"liars must be 0 or more and fewer than the {n} devices, got {liars}.")
    if not 1 <= window <= rounds:
        raise ValueError(f"window must be between 1 and the {rounds} rounds, got {window}.")
    truth = readings.mean(axis=1)
    honest = randomizer.randomize(readings, rng=SeededRandom(seed))
    lied = honest.copy()
    lied[:, n - liars :] = highest_report(randomizer)
    found = {}
    for name in estimators:
        before, after = (
            _estimates(reports, randomizer, name, window=window, seed=seed)
            for reports in (honest, lied)
        )
        target = _rolling_mean(truth, window) if name == "window" else truth
        width = randomizer.domain.width
        errors = (before - target) / width
        found[name] = Poisoned(
            float((after - before).mean()) / width,
            _shift_bound(honest, randomizer, name, liars) / width,
            math.sqrt(float(np.square(errors).mean())),
            float(errors.mean()),
        )
    return found


def highest_report(randomizer: RangeRandomizer) -> float:
    """Return the report that is decoded to the greatest value of all that are not refused."""
    public, top = randomizer.domain, randomizer.decoded_reach[1]
    if randomizer.clamp() is not randomizer:
        # Noise without end is decoded as it is.
        return top
    # Every place that a report can have stands in every row of the table.
    row = next(iter(randomizer.table_rows(epsilon=randomizer.budgets[0])))
    reports = public.low + public.step * np.array(list(row), dtype=np.float64)
    return float(reports[randomizer.decode(reports).argmax()])


def _estimates(
    reports: Floats, randomizer: RangeRandomizer, name: str, *, window: int, seed: int
) -> Floats:
    if name == "window":
        alone = _estimates(reports, randomizer, "unbiased_mean", window=window, seed=seed)
        return _rolling_mean(alone, window)
    if name == "median_of_means":
        return np.asarray(np.median(_group_means(randomizer.decode(reports)), axis=1))
    tracker = Tracker(randomizer.domain) if name == TRACKED else None
    rng = SeededRandom(seed).child("resamples")
    values = []
    for number, row in enumerate(reports):
        counts = as_counts(row, randomizer)
        found = estimate_round(counts, randomizer, {name: estimator_named(name)}, rng=rng)
        estimate = found.estimates[name]
        if tracker is not None:
            estimate = tracker.update(_ROUND_S * number, estimate, spread=found.spread)
        values.append(estimate.value)
    return np.array(values)


def _shift_bound(honest: Floats, randomizer: RangeRandomizer, name: str, liars: int) -> float:
    """Return how far an estimator can be moved, in the unit of readings."""
    n: int = honest.shape[1]
    if name == TRACKED:
        # The tracker keeps its estimate in the range, whatever it is given.
        return randomizer.domain.width
    if name == "median":
        # Of n reports m can move the middle by m places, no matter how far out they are.
        ordered = np.sort(honest, axis=1)
        middle = np.median(honest, axis=1)
        return float((ordered[:, min(n // 2 + liars, n - 1)] - middle).mean())
    if name in ("sample_mean", "bootstrap_mean"):
        # Reports count as they stand: from the lowest that was drawn to the highest there is.
        return liars / n * (highest_report(randomizer) - float(honest.min()))
    reader = randomizer.clamp() if name == "winsorized_mean" else randomizer
    width = reader.decoded_reach[1] - reader.decoded_reach[0]
    if name != "median_of_means":
        return liars / n * width
    # Every group moves by its own liars at most, and fewer groups than half move the middle only
    # as far as the others are scattered.
    most = math.ceil(liars / _GROUPS) / (n // _GROUPS) * width
    half = _GROUPS // 2
    if liars > half:
        return most
    means = np.sort(_group_means(randomizer.decode(honest)), axis=1)
    return min(most, float((means[:, half + liars] - means[:, half]).mean()))


def _group_means(decoded: Floats) -> Floats:
    """Return the means of groups of reports, one round a row; each takes every 25th report."""
    return np.stack([decoded[:, group::_GROUPS].mean(axis=1) for group in range(_GROUPS)], axis=1)


def _rolling_mean(values: Floats, window: int) -> Floats:
    return np.convolve(values, np.full(window, 1 / window), mode="valid")
