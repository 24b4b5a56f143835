"""The likelihood of each report for each device, from known readings and the exact noise.

The attackers of the second kind do not learn from released records. They know how each device's
readings are distributed and how the public mechanism draws a report, and compute.
"""

from dataclasses import dataclass

import numpy as np

from rase.errors import DataError
from rase.lab.attacks.protocol import Case, Codes, Floats
from rase.laws.randomizer import RangeRandomizer

__all__ = ["Likelihood", "ReadingModel", "case_likelihood", "histograms", "likelihood_of"]

# One reading's weight, spread like the readings of all, keeps unseen readings possible.
_PSEUDO_COUNT = 1.0
# Differences of cumulative probabilities carry an error of this size.
_FLOOR = 1e-17


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadingModel:
    """What is known about each device's readings: weights on points.

    Args:
        points: The readings that may occur, ascending.
        weights: The probability of each point for each device, devices x points.
        edges: Where the readings counted to a point begin and end, from -inf to inf.
    """

    points: Floats
    weights: Floats
    edges: Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Likelihood:
    """Pr[a report falls into a bin | device], for bins fine enough to matter.

    Args:
        table: Probabilities, devices x bins.
        edges: The bins of reports: ``[edges[b], edges[b + 1])``, from -inf to inf.
    """

    table: Floats
    edges: Floats

    def bin_of(self, reports: Floats) -> Codes:
        """Return the bin of each report."""
        return _bin_of(reports, self.edges)


def case_likelihood(case: Case, bins: int) -> Likelihood:
    """Return the likelihood of the test reports of a case under its history's histograms."""
    return likelihood_of(
        histograms(case.known_history(), bins), case.randomizer, case.values[case.is_test], bins
    )


def histograms(history: Floats, bins: int) -> ReadingModel:
    """Return each device's histogram of its raw readings.

    Up to ``bins`` different readings are points of their own. Beyond, bins hold equal shares of
    all readings, and a reading that fills more than one bin, such as 0, is a bin of its own. Every
    device gets one more reading's weight, spread like the readings of all.

    Args:
        history: Raw readings, rounds x devices, NaN where none is known.
        bins: How many bins, at most.

    Raises:
        DataError: If no reading is known.
    """
    devices = history.shape[1]
    rounds, device = np.nonzero(~np.isnan(history))
    readings = history[rounds, device]
    if not readings.size:
        raise DataError("the training rounds must hold at least one reading, got none.")
    edges = _reading_edges(readings, bins)
    bin_of = _bin_of(readings, edges)
    count = edges.size - 1
    totals = np.bincount(bin_of, minlength=count)
    sums = np.bincount(bin_of, weights=readings, minlength=count)
    points = np.divide(sums, totals, out=edges[:-1].copy(), where=totals > 0)
    counts = np.bincount(device * count + bin_of, minlength=devices * count)
    weights = counts.reshape(devices, count) + _PSEUDO_COUNT * totals / readings.size
    return ReadingModel(points, weights / weights.sum(axis=1, keepdims=True), edges)


def likelihood_of(
    model: ReadingModel, randomizer: RangeRandomizer | None, reports: Floats, bins: int
) -> Likelihood:
    """Carry a model of readings through the noise: O(devices x points x bins).

    Args:
        model: What is known of readings.
        randomizer: The mechanism; None if readings are reported as they are.
        reports: Reports that the bins resolve; up to ``bins`` different ones are told apart
            exactly.
        bins: How many bins of reports, at most.
    """
    if randomizer is None:
        return Likelihood(np.maximum(model.weights, _FLOOR), model.edges)
    edges = _report_edges(reports, randomizer, bins)
    channel = randomizer.report_probabilities(model.points, edges)
    return Likelihood(np.maximum(model.weights @ channel, _FLOOR), edges)


def _bin_of(values: Floats, edges: Floats) -> Codes:
    return np.searchsorted(edges[1:-1], values, side="right").astype(np.int64)


def _reading_edges(readings: Floats, bins: int) -> Floats:
    distinct = np.unique(readings)
    if distinct.size <= bins:
        inner = distinct[1:]
    else:
        cuts = np.quantile(readings, np.arange(1, bins) / bins)
        repeated = cuts[1:][cuts[1:] == cuts[:-1]]
        inner = np.unique(np.concatenate([cuts, np.nextafter(repeated, np.inf)]))
        inner = inner[inner > distinct[0]]
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _report_edges(reports: Floats, randomizer: RangeRandomizer, bins: int) -> Floats:
    """Cut halfway between grid points, so that no point lies on an edge."""
    grid = randomizer.domain
    places = np.rint((reports - grid.low) / grid.step)
    codes = np.unique(places)
    if codes.size > bins:
        cuts = np.quantile(places, np.arange(1, bins) / bins, method="lower")
        # The ends collect clamped reports and must stand apart from their neighbours.
        ends = np.array([0.0, 1.0, grid.steps, grid.steps + 1.0])
        cuts = np.unique(np.concatenate([cuts, cuts[1:][cuts[1:] == cuts[:-1]] + 1, ends]))
        cuts = cuts[cuts > codes[0]]
    else:
        cuts = codes[1:]
    return np.concatenate([[-np.inf], grid.low + (cuts - 0.5) * grid.step, [np.inf]])
