"""Looking back: each round of a whole record with the help of the rounds before and after it.

The models of the bank are weighed by how well they predicted the whole record, and those that count
go through it once forward and once backward (Bryson and Frazier 1963): exact for each model. Models
that suppose small steps look back wrongly at jumps and spikes. So around every round an unbiased
estimate of both errors (Stein 1981) compares the smoothed with the filtered estimates, and where
looking back is not better, what was known then stays.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rase.arrays import Flags, Floats, Places
from rase.counts.estimate import Estimate
from rase.counts.registry import SMOOTHED
from rase.domain import Range
from rase.series.families import Family, Grid
from rase.series.models import edges_grid, seen_of, smooth_grid
from rase.series.posterior import as_student, reach_of

__all__ = ["smooth_record"]

# So many models of each shape are followed backward; the others count next to nothing.
_MOST_MODELS = 12
# How many rounds to both sides decide whether looking back is better there, and how much worse it
# may look by chance: in variances of the noise, in errors of the comparison around a round, and in
# errors of the comparison over the whole record.
_AROUND, _CHANCE, _DOUBT, _SURE = 12, 2.0, 1.5, 2.0
# An error is not stated to be smaller than this share of that which was known then.
_LEAST_ERROR = 0.7
# With fewer rounds there is nothing to look back with.
_LEAST_ROUNDS = 8


def smooth_record(
    times_s: Sequence[float],
    means: Sequence[Estimate],
    *,
    filtered: Sequence[Estimate],
) -> list[Estimate]:
    """Return each round's mean with the help of all rounds of a record.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        times_s: When each round began, ascending.
        means: Their unbiased means, with errors above 0.
        filtered: What `rase.series.tracker` said of each when it came; they know the range.

    Returns:
        One estimate a round. Its method is ``smoothed`` where later rounds helped; where looking
        back is not better, at jumps and spikes, it is the filtered one as it was.
    """
    if len(means) < _LEAST_ROUNDS:
        return list(filtered)
    value_range = Range(filtered[0].lowest, filtered[0].highest)
    times = np.asarray(times_s, dtype=np.float64)
    values = np.array([one.value for one in means])
    noise = np.array([one.standard_error for one in means]) ** 2
    weights, found, variances = _smooth(times, values, noise, value_range)
    about = (weights[:, None] * found).sum(axis=0)
    apart = variances + np.square(found - about)
    spread = (weights[:, None] * apart).sum(axis=0)
    before = np.array([one.value for one in filtered])
    doubts = np.array([one.standard_error for one in filtered]) ** 2
    is_better = _is_better(values, noise, about, spread, before=before, doubts=doubts)
    shares = np.tile(weights, (len(values), 1))
    reach = reach_of(shares, found.T, variances.T, about=about, deviation=np.sqrt(spread))
    factors, degrees = as_student(reach)
    # What noise hides from the filter it hides from the smoother, too.
    errors = np.maximum(factors * np.sqrt(spread), _LEAST_ERROR * np.sqrt(doubts))
    return [
        replace(
            one,
            value=min(max(float(about[place]), value_range.low), value_range.high),
            standard_error=float(errors[place]),
            degrees_of_freedom=float(degrees[place]),
            method=SMOOTHED,
        )
        if is_better[place]
        else one
        for place, one in enumerate(filtered)
    ]


def _is_better(
    values: Floats,
    noise: Floats,
    smoothed: Floats,
    spread: Floats,
    *,
    before: Floats,
    doubts: Floats,
) -> Flags:
    """Say for each round whether looking back is better around it, and in the whole record.

    Stein's estimate of a squared error is (y - f)^2 - R + 2v; R is in both and left out.
    """
    gains = np.square(values - before) + 2 * np.minimum(doubts, noise)
    gains -= np.square(values - smoothed) + 2 * np.minimum(spread, noise)
    gains /= noise
    # How far the difference of two such estimates is off by chance, as a variance; and what the
    # models claim that looking back gains.
    chance = 4 * np.square(smoothed - before) / noise
    claimed = (np.minimum(doubts, noise) - np.minimum(spread, noise)) / noise
    places = np.arange(len(values))
    first = np.maximum(places - _AROUND, 0)
    last = np.minimum(places + _AROUND + 1, len(values))

    def around(numbers: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(numbers)])
        return np.asarray(sums[last] - sums[first])

    least = np.minimum(around(claimed) - _DOUBT * np.sqrt(around(chance)), 0.0)
    is_better = around(gains) > np.maximum(least, -_CHANCE)
    # What is left must help as a whole, by more than chance.
    total, doubt = float(gains[is_better].sum()), float(chance[is_better].sum())
    return np.asarray(is_better & (total > _SURE * math.sqrt(doubt)))


def _smooth(
    times: Floats, values: Floats, noise: Floats, value_range: Range
) -> tuple[Floats, Floats, Floats]:
    """Return how much each model counts, its means and its variances, one model a row."""
    evidence, means, variances = [], [], []
    shown = zip(*(seen_of(time_s) for time_s in times.tolist()), strict=True)
    for grid, rows in zip((smooth_grid(), edges_grid()), shown, strict=True):
        odds = _forward(grid, times, values, noise, rows=rows, value_range=value_range)[0]
        odds += np.log(grid.prior)
        chosen = np.sort(np.argsort(odds)[-_MOST_MODELS:])
        some = _chosen(grid, chosen)
        _, surprises, totals, gains = _forward(
            some, times, values, noise, rows=rows, value_range=value_range
        )
        found, left = _backward(
            some, times, values, noise, rows=rows, passes=(surprises, totals, gains)
        )
        evidence.append(odds[chosen])
        means.append(found)
        variances.append(left)
    together = np.concatenate(evidence)
    weights = np.exp(together - together.max())
    return weights / weights.sum(), np.concatenate(means), np.concatenate(variances)


def _chosen(grid: Grid, chosen: Places) -> Grid:
    parts = (grid.level, grid.irregular, grid.lasting_s, grid.profile, grid.prior)
    return Grid.of(np.stack([part[chosen] for part in parts], axis=1), sizes=grid.sizes)


def _forward(
    grid: Grid,
    times: Floats,
    values: Floats,
    noise: Floats,
    *,
    rows: Sequence[Floats],
    value_range: Range,
) -> tuple[Floats, Floats, Floats, list[Floats]]:
    """Filter a record; return evidence of the models, surprises, their variances, and gains."""
    family = Family(grid, value_range.low, value_range.width)
    count = len(grid.level)
    evidence = np.zeros(count)
    surprises, totals = np.empty((len(times), count)), np.empty((len(times), count))
    gains: list[Floats] = []
    for place, row in enumerate(rows):
        if place:
            family.advance(float(times[place] - times[place - 1]))
        expected = family.predict(row)
        total = expected.variances + noise[place]
        surprise = values[place] - expected.means
        family.take(expected, surprise, total)
        evidence -= 0.5 * (np.log(total) + surprise[0] ** 2 / total)
        surprises[place], totals[place] = surprise[0], total
        if count <= _MOST_MODELS:
            gains.append(expected.gains / total[:, None])
    return evidence, surprises, totals, gains


def _backward(
    grid: Grid,
    times: Floats,
    values: Floats,
    noise: Floats,
    *,
    rows: Sequence[Floats],
    passes: tuple[Floats, Floats, list[Floats]],
) -> tuple[Floats, Floats]:
    """Return means and variances of all rounds given the whole record, one model a row.

    With y = m + e, e of variance R: m is y - R u given everything, with variance R - R^2 d, where u
    and d follow from what later rounds say of the state: a vector and a matrix that go backward.
    """
    surprises, totals, gains = passes
    count, size = len(grid.level), 2 + 2 * len(grid.sizes)
    vector, matrix = np.zeros((count, size)), np.zeros((count, size, size))
    means, variances = np.empty((count, len(times))), np.empty((count, len(times)))
    for place in range(len(times) - 1, -1, -1):
        gain, row = gains[place], rows[place]
        along = np.einsum("kij,kj->ki", matrix, gain)
        d = 1 / totals[place] + (gain * along).sum(axis=1)
        u = surprises[place] / totals[place] - (gain * vector).sum(axis=1)
        means[:, place] = values[place] - noise[place] * u
        variances[:, place] = np.maximum(noise[place] - noise[place] ** 2 * d, 1e-9 * noise[place])
        vector += u[:, None] * row
        matrix -= along[:, :, None] * row + row[:, None] * along[:, None, :]
        matrix += d[:, None, None] * np.outer(row, row)
        if place:
            passed_s = float(times[place] - times[place - 1])
            with np.errstate(divide="ignore"):
                left = np.exp(-passed_s / grid.lasting_s)
            vector[:, 1] *= left
            matrix[:, 1, :] *= left[:, None]
            matrix[:, :, 1] *= left[:, None]
    return means, variances
