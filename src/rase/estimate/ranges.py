"""Which public range serves a mean best, learnt from square-wave reports of earlier rounds.

The error of a mean is proportional to the width of the range, and readings outside are clipped: too
wide is noise, too narrow is bias. What probing rounds released is public, so choosing from it costs
no privacy: this is the paper's dynamic feedback.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.decoder import Decoder, Floats, as_reports
from rase.estimate.estimate import Estimate
from rase.estimate.shapes import Shapes, shapes_of
from rase.kernels.words import Random, Resampling, source_of
from rase.stream import ValueRange

__all__ = ["RangeAdvice", "RangeProbe", "advise_range", "latest_ranges"]

# Cells that each range a fleet was probed with is cut into, and bins of a probe's reports.
_CELLS = 24
_BINS = 48
# Ranges whose probes are remembered.
_RANGES_KEPT = 5
# Digits to which a range is rounded outwards, relative to its width.
_NEAT = 100
# A limit is taken if it is nearer than this share of the width.
_NEAR = 0.3
# No choice narrows the range further: a range that misses all readings tells nothing.
_MOST_NARROWING = 8
_FLOOR = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class RangeProbe:
    """Hold what a probing round told, in so many counts: no report can be read from it.

    Args:
        randomizer: The mechanism of its reports.
        counts: How many reports fell into each of 48 bins.
        mean: The mean of the decoded reports.
        square: The mean of their decoded squares.
        rounds: How many rounds it speaks for: those until the next probe.
    """

    randomizer: Decoder
    counts: tuple[int, ...] = field(repr=False)
    mean: float
    square: float
    rounds: int = 1

    @classmethod
    def of(cls, reports: ArrayLike, *, randomizer: Decoder, rounds: int = 1) -> "RangeProbe":
        """Count the reports of a round.

        Raises:
            ValueError: If there are none, or they cannot come from ``randomizer``.
        """
        noisy = as_reports(reports)
        counts = np.histogram(noisy, _bins(randomizer))[0]
        return cls(
            randomizer,
            tuple(counts.tolist()),
            float(randomizer.decode(noisy).mean()),
            float(randomizer.decode_square(noisy).mean()),
            rounds,
        )

    @property
    def n(self) -> int:
        """How many reports it has."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class RangeAdvice:
    """Recommend a range, and say what it and the present one lead to.

    Args:
        low: The recommended lower end.
        high: The recommended upper end.
        clip_bias: What clipping to the recommended range adds to the mean, with its error.
        noise: The standard error of such a mean with the recommended range, from noise alone.
        error: The expected root mean square error of a mean of n reports, averaged as was asked:
            noise, clipping and what is not known about it.
        present_error: The same with the range of the latest probe.
        n: How many reports a mean has.
        rounds: How many probing rounds it was learnt from.
    """

    low: float
    high: float
    clip_bias: Estimate
    noise: float
    error: float
    present_error: float
    n: int
    rounds: int

    def __str__(self) -> str:
        """Return the advice as one sentence."""
        return (
            f"Range {self.low:g} to {self.high:g}: expected error {self.error:.3g} instead of "
            f"{self.present_error:.3g} with {self.n} reports; clipping adds {self.clip_bias}."
        )


def advise_range(
    probes: Sequence[RangeProbe],
    *,
    limits: ValueRange,
    n: int,
    noise: float,
    averaged: int = 1,
    rng: Random | Resampling | None = None,
) -> RangeAdvice:
    """Recommend the range with the least expected squared error of a mean of n reports.

    Shapes of the readings' distribution are drawn with the chance that all probes give them, each
    probe with the range it had (`rase.estimate.shapes`). For every pair of ends the squared clip
    error is averaged over these shapes, and the noise added; so a range is narrowed no further than
    what is known allows. Readings of one round that move together make clipping worse than
    readings of their own mind; how far they do is estimated from the probes' means.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        probes: What probing rounds told, oldest first; the present range is that of the last.
        limits: The widest range that may be recommended, such as the owners allow; its ``steps``
            do not matter.
        n: How many reports a mean has.
        noise: The variance of one decoded report of the mechanism for means, in squared widths.
        averaged: Over how many rounds means are averaged afterwards, by windows or `auto`: noise
            averages out and bias does not, so the range is the wider the more.
        rng: For drawing shapes; None for the secure source.

    Raises:
        ValueError: If there is no probe, n is below 1 or ``noise`` is not positive.
    """
    if not probes:
        raise ValueError("probes must hold at least one probing round, got none.")
    for name, number in (("n", n), ("averaged", averaged)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}.")
    if not (math.isfinite(noise) and noise > 0):
        raise ValueError(f"noise must be finite and greater than 0, got {noise}.")
    edges = _cell_edges([probe.randomizer.value_range for probe in probes], limits)
    shapes = _shapes(probes, edges, rng)
    # What readings of a round have in common moves the bulk of them more than the clipped tails,
    # whose correlation is of higher order.
    together = _moving_together(probes) ** 2
    widths = edges - edges[:, None]
    kept = together + (1 - together) / n
    each = noise / (n * averaged)
    errors = _squared_errors(edges, shapes, kept) + each * np.square(widths)
    present = probes[-1].randomizer.value_range
    allowed = np.where(widths > present.width / _MOST_NARROWING, errors, np.inf)
    first, last = (int(place) for place in np.unravel_index(allowed.argmin(), errors.shape))
    low, high = _neat(float(edges[first]), float(edges[last]), limits)
    begin, end = (int(np.abs(edges - value).argmin()) for value in (present.low, present.high))
    bias = (shapes.lost_below(edges[[first]]) - shapes.lost_above(edges[[last]]))[:, 0]
    return RangeAdvice(
        low=low,
        high=high,
        clip_bias=Estimate(
            float(bias.mean()),
            float(bias.std()),
            n=sum(probe.n for probe in probes),
            method="clip_bias",
            target="what clipping adds to the mean",
        ),
        noise=math.sqrt(each) * (high - low),
        error=math.sqrt(errors[first, last]),
        present_error=math.sqrt(errors[begin, end]),
        n=n,
        rounds=len(probes),
    )


def latest_ranges(probes: Sequence[RangeProbe]) -> list[RangeProbe]:
    """Return the probes of the latest five ranges: older ones only cost time."""
    kept = list(dict.fromkeys(probe.randomizer for probe in reversed(probes)))[:_RANGES_KEPT]
    return [probe for probe in probes if probe.randomizer in kept]


def _shapes(probes: Sequence[RangeProbe], edges: Floats, rng: Random | Resampling | None) -> Shapes:
    """Return shapes of the readings that all probes leave possible, each probe with its range."""
    counts: dict[Decoder, Floats] = {}
    # Probes that stand for more rounds count more, without making more reports of them all.
    each = len(probes) / sum(probe.rounds for probe in probes)
    for probe in probes:
        found = each * probe.rounds * np.asarray(probe.counts, dtype=np.float64)
        counts[probe.randomizer] = counts.get(probe.randomizer, 0.0) + found
    points = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    # Reports of another range are one more set of columns: readings beyond it stand at its ends.
    channel = np.hstack([one.report_probabilities(points, _bins(one)) for one in counts])
    reports = np.concatenate(list(counts.values()))
    used = reports > 0
    channel, reports = channel[:, used], reports[used]

    def likelihood(masses: Floats) -> Floats:
        expected: Floats = np.log(np.maximum(masses @ channel, _FLOOR)) @ reports
        return expected

    # The reports are public already, so fitting needs no cryptographic randomness.
    source = rng if isinstance(rng, Resampling) else source_of(rng)
    seed = [int(word) for word in source.words(4)]
    return shapes_of(edges, likelihood, chance=np.random.Generator(np.random.PCG64(seed)))


def _moving_together(probes: Sequence[RangeProbe]) -> float:
    """Return which share of the readings' variance all readings of a round have in common."""
    if len(probes) < 2:
        return 0.0
    n = np.array([probe.n for probe in probes], dtype=np.float64)
    mean = np.array([probe.mean for probe in probes])
    square = np.array([probe.square for probe in probes])
    # A round's mean scatters by its noise, too; E[decoded^2] - E[square] is the noise of a report.
    noise = np.array([_report_noise(probe.randomizer) for probe in probes]) / n
    weight = 1 / noise**2
    centre = float(np.average(mean, weights=1 / noise))
    between = float(np.average((mean - centre) ** 2 - noise, weights=weight))
    total = float(np.average(square - 2 * centre * mean + centre**2, weights=weight))
    if total <= 0:
        return 1.0 if between > 0 else 0.0
    return min(max(between / total, 0.0), 1.0)


@functools.lru_cache(maxsize=64)
def _report_noise(randomizer: Decoder) -> float:
    """Return the variance of a decoded report, averaged over the range."""
    reach = randomizer.value_range
    return float(randomizer.variance(np.linspace(reach.low, reach.high, 33)).mean())


def _squared_errors(edges: Floats, shapes: Shapes, kept: float) -> Floats:
    """Return for each pair of ends (row low, column high) the mean squared clip error.

    Pairs that are no range are infinite.
    """
    below, above = shapes.lost_below(edges), shapes.lost_above(edges)
    # The mean over the shapes of (below - above)^2, for all pairs at once.
    bias = (
        np.square(below).mean(axis=0)[:, None]
        + np.square(above).mean(axis=0)[None, :]
        - 2 * below.T @ above / len(below)
    )
    square = (
        shapes.lost_below(edges, power=2).mean(axis=0)[:, None]
        + shapes.lost_above(edges, power=2).mean(axis=0)[None, :]
    )
    errors = np.maximum(bias, 0.0) + kept * np.maximum(square - bias, 0.0)
    places = np.arange(edges.size)
    return np.where(places[:, None] < places[None, :], errors, np.inf)


def _cell_edges(ranges: Sequence[ValueRange], limits: ValueRange) -> Floats:
    """Return the edges of all ranges' cells, and of cells that grow outwards from the present one.

    The latter matter because readings beyond a range all stand at its end: how far out they lie
    must stay open, on every scale up to the limits.
    """
    present = ranges[-1]
    low = min(limits.low, *(reach.low for reach in ranges))
    high = max(limits.high, *(reach.high for reach in ranges))
    parts: list[Floats] = [
        np.linspace(reach.low, reach.high, _CELLS + 1) for reach in dict.fromkeys(ranges)
    ]
    growing: Floats = present.width / _CELLS * np.power(1.5, np.arange(100.0))
    parts += [present.low - growing, present.high + growing, np.array([low, high])]
    edges = np.unique(np.concatenate(parts).clip(low, high))
    # Edges of several ranges may nearly fall together.
    apart = np.diff(edges, prepend=-np.inf) > present.width / _CELLS / 16
    return edges[apart]


def _bins(randomizer: Decoder) -> Floats:
    """Return the edges of a probe's bins, between grid points."""
    reach = randomizer.value_range
    places = np.unique(np.rint(np.linspace(-0.5, 1.5, _BINS - 1) * reach.steps)) + 0.5
    return np.concatenate([[-np.inf], reach.low + reach.step * places, [np.inf]])


def _neat(low: float, high: float, limits: ValueRange) -> tuple[float, float]:
    """Return the ends rounded outwards to two digits of the width; a limit that is near is taken.

    Many readings stand at the limit itself (an appliance that is off), and it costs little noise.
    """
    near = _NEAR * (high - low)
    low = limits.low if low - limits.low < near else low
    high = limits.high if limits.high - high < near else high
    unit = 10.0 ** math.floor(math.log10((high - low) / _NEAT * 10))
    return (
        max(math.floor(low / unit + 1e-9) * unit, limits.low),
        min(math.ceil(high / unit - 1e-9) * unit, limits.high),
    )
