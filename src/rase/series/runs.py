"""Many runs over the same rounds at once: what repeated drawings of the noise would show.

For studies and forecasts, which draw the noise again and again: the numbers are those of
`unbiased_mean` and `Tracker`, computed for all runs together.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.arrays import Floats
from rase.counts.counts import Counts
from rase.counts.estimate import student_quantile
from rase.counts.moments import moments_of
from rase.domain import Range
from rase.kernels import backend
from rase.laws.randomizer import RangeRandomizer
from rase.series.bank import FilterBank

__all__ = ["RunMeans", "Runs", "run_means", "runs_of"]

# Variances that are read from Duchi's bits differ by up to 6 % at epsilon 0.5; with their mean over
# the runs the errors of single short runs differ by a fiftieth or so, in a tenth of the time. The
# bank likewise averages what runs know of the spread of readings, in rounds of fewer reports.
_NEARLY = 0.07
# Errors of so many parts of a record say how far other days may differ.
_PARTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class RunMeans:
    """The unbiased means of rounds, one run a row.

    Args:
        values: The means.
        variances: Their variances by noise alone.
        spreads: The variances of the readings, where the mechanism shows them.
        sizes: How many reports each round has.
        degrees: The degrees of freedom of each round's error, by how heavy the tails of its noise
            are; None for normal tails.
    """

    values: Floats
    variances: Floats
    spreads: Floats | None
    sizes: NDArray[np.int64]
    degrees: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The errors of runs against the truth, one number a run: of the rounds scored.

    Args:
        tracked: The root mean square error of ``tracked``.
        bias: Its mean error.
        coverage: The share of its 95 % intervals that held the truth.
        alone: The root mean square error of each round's unbiased mean.
        history: That of the mean of all earlier unbiased means, kept within the range.
        last: That of the unbiased mean of the round before, likewise.
        parts: The mean square error of ``tracked`` in each eighth of the rounds, one run a row; NaN
            where there are fewer rounds than eighths.
    """

    tracked: Floats
    bias: Floats
    coverage: Floats
    alone: Floats
    history: Floats
    last: Floats
    parts: Floats


def run_means(reports: ArrayLike, sizes: ArrayLike, *, randomizer: RangeRandomizer) -> RunMeans:
    """Estimate the mean of every round of every run, without bias.

    Args:
        reports: One run a row: the reports of its rounds, one round after the other.
        sizes: How many reports each round has; one or more.
        randomizer: The mechanism they come from, with one budget for all.

    Raises:
        ValueError: If ``reports`` is no table of as many columns as ``sizes`` add up to.
    """
    table, counts = np.asarray(reports, dtype=np.float64), np.asarray(sizes, dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != counts.sum() or counts.min(initial=1) < 1:
        raise ValueError(
            f"reports must have {counts.sum()} columns, one for each report of rounds of one or "
            f"more, got shape {table.shape}."
        )
    rounds = np.repeat(np.arange(counts.size), counts)
    group = (np.arange(len(table))[:, None] * counts.size + rounds).ravel()
    rows = Counts(randomizer.places_of(table.ravel()), np.ones(table.size, dtype=np.int64))
    found = moments_of(rows, randomizer, group=group, groups=len(table) * counts.size)
    shape = (len(table), counts.size)
    spreads = None if found.spread is None else found.spread.reshape(shape)
    variances = (found.noise / found.n).reshape(shape)
    degrees = found.degrees_of_freedom.reshape(shape)[0]
    return RunMeans(found.mean.reshape(shape), variances, spreads, counts, degrees)


def runs_of(
    means: RunMeans,
    times_s: ArrayLike,
    *,
    truth: ArrayLike,
    value_range: Range,
    first: int = 1,
) -> Runs:
    """Follow all runs through time and score them.

    Args:
        means: what the rounds said.
        times_s: When each began, ascending.
        truth: The true mean of each, or of each for every run.
        value_range: The public range.
        first: The first round that is scored; 1 or more, because the very first has no history.
    """
    right = np.asarray(truth, dtype=np.float64)
    values, reach = _followed(means, np.asarray(times_s, dtype=np.float64), value_range)
    off = (values - right)[:, first:]
    counts = np.arange(first, right.shape[-1])
    history = np.cumsum(means.values, axis=1)[:, first - 1 : -1] / counts
    low, high = value_range.low, value_range.high
    return Runs(
        tracked=_root(off),
        bias=off.mean(axis=1),
        coverage=np.asarray((np.abs(off) <= reach[:, first:]).mean(axis=1)),
        alone=_root((means.values - right)[:, first:]),
        history=_root(history.clip(low, high) - right[..., first:]),
        last=_root(means.values[:, first - 1 : -1].clip(low, high) - right[..., first:]),
        parts=_eighths(off * off),
    )


def _eighths(squares: Floats) -> Floats:
    """Return the mean of each eighth of some columns."""
    if squares.shape[1] < _PARTS:
        return np.full((len(squares), _PARTS), math.nan)
    parts = np.array_split(squares, _PARTS, axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _followed(means: RunMeans, times_s: Floats, value_range: Range) -> tuple[Floats, Floats]:
    """Return what ``tracked`` says of each round, and how far its 95 % intervals reach."""
    # Where all runs are equally sure the models' covariances are the same, or nearly so.
    typical = means.variances.mean(axis=0)
    is_shared = bool((np.abs(means.variances / typical - 1) < _NEARLY).all())
    # The compiled kernels follow one run after the other faster, with the same numbers where
    # nothing is averaged over the runs.
    is_same = means.spreads is None and not np.ptp(means.variances, axis=0).any()
    if is_shared and not (is_same and backend.native is not None):
        return _followed_together(means, times_s, typical, value_range=value_range)
    sizes, count = means.sizes.astype(np.float64), times_s.size
    degrees = np.full(count, math.inf) if means.degrees is None else means.degrees
    spreads = np.full(means.values.shape, math.nan) if means.spreads is None else means.spreads
    parts = []
    for values, variances, spread in zip(means.values, means.variances, spreads, strict=True):
        rounds = np.column_stack([times_s, values, variances, sizes, degrees, spread])
        said = FilterBank(value_range.low, value_range.width).follow(rounds)
        parts.append((said[:, 0], _reach(said[:, 1], said[:, 2])))
    found, reach = np.array(parts).swapaxes(0, 1)
    return found, reach


def _followed_together(
    means: RunMeans, times_s: Floats, variances: Floats, *, value_range: Range
) -> tuple[Floats, Floats]:
    """Return the same for runs that are about equally sure, with one bank for all."""
    bank = FilterBank(value_range.low, value_range.width, runs=len(means.values))
    values, reach = np.empty(means.values.shape), np.empty(means.values.shape)
    for place, time_s in enumerate(times_s.tolist()):
        belief = bank.step(
            time_s,
            means.values[:, place],
            variance=float(variances[place]),
            n=int(means.sizes[place]),
            degrees=math.inf if means.degrees is None else float(means.degrees[place]),
        )
        if means.spreads is not None:
            bank.learn_spread(means.spreads[:, place])
        values[:, place] = belief.means
        reach[:, place] = _reach(belief.variances, belief.degrees)
    return values, reach


def _reach(variances: Floats, degrees: Floats) -> Floats:
    """Return how far 95 % intervals reach."""
    # Degrees are whole numbers up to 200, and quantiles are remembered.
    return np.array([student_quantile(0.95, one) for one in degrees.tolist()]) * np.sqrt(variances)


def _root(errors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.mean(errors * errors, axis=1)))
