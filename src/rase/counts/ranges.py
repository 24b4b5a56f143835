"""Which public range serves a mean best, learnt from reports of earlier rounds.

The error of a mean is proportional to the width of the range, and readings outside are clipped: too
wide is noise, too narrow is bias. What rounds released is public, so choosing from it costs no
privacy: this is the paper's dynamic feedback. Reports of the square wave reveal most; those of the
other mechanisms what they can, a bit of Duchi's the mean within its range.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rase.answer import rounded_alike
from rase.arrays import Floats
from rase.counts.clipping import Clipping, clipping_of
from rase.counts.counts import Counts, as_counts
from rase.counts.deconvolve import bin_counts
from rase.counts.estimate import Estimate
from rase.counts.moments import moments_of
from rase.counts.shapes import Shapes, shapes_of
from rase.domain import Range, least_width
from rase.kernels.words import Random, Resampling, source_of
from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "QUANTILES",
    "TRACKED_ROUNDS",
    "RangeAdvice",
    "RangeOutlook",
    "RangeProbe",
    "advise_range",
    "latest_ranges",
]

# What advice states about the readings.
QUANTILES = (0.05, 0.5, 0.95)

# Over how many rounds the estimator `tracked` averages, for the choice of a range: more where a
# fleet rests, but there a narrow range costs little.
TRACKED_ROUNDS = 8

# Cells that each range a fleet was probed with is cut into, and bins of a probe's reports.
_CELLS = 24
_BINS = 48
# Ranges whose probes are remembered, besides the widest.
_RANGES_KEPT = 8
# Digits to which a range is rounded outwards, relative to its width.
_NEAT = 100
# A limit is taken if it is nearer than this share of the width.
_NEAR = 0.1
# No choice narrows the range further: a range that misses all readings shows nothing.
_MOST_NARROWING = 8
_FLOOR = 1e-300
# Shares of the readings' variance that a round may have in common.
_SHARES = np.geomspace(1e-3, 1, 25)


@dataclass(frozen=True, slots=True, eq=False)
class RangeProbe:
    """What a round showed, in so many counts: no report can be read from it.

    Args:
        randomizer: The mechanism of its reports.
        counts: How many reports fell into each of 48 bins.
        mean: The mean of the decoded reports.
    """

    randomizer: RangeRandomizer
    counts: tuple[int, ...] = field(repr=False)
    mean: float

    @classmethod
    def of(cls, reports: Counts | ArrayLike, *, randomizer: RangeRandomizer) -> "RangeProbe":
        """Count the reports of a round.

        Raises:
            ValueError: If there are none, or they cannot come from ``randomizer``.
        """
        given = as_counts(reports, randomizer)
        counts = bin_counts(given, _bins(randomizer), randomizer).astype(np.int64)
        mean = float(moments_of(given, randomizer).mean[0])
        return cls(randomizer, tuple(counts.tolist()), mean)

    @property
    def n(self) -> int:
        """How many reports it has."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class RangeOutlook:
    """Say what a range leads to.

    Args:
        low: Its lower end.
        high: Its upper end.
        clip_bias: What clipping to it adds to the mean of all readings within the limits, with its
            error. Readings beyond the limits look like readings at them, to every report.
        clip_error: The root mean square of what clipping adds to the mean of one round: that bias,
            what is not known about it, and rounds whose readings lie further out.
        noise: The standard error from noise alone of a mean, averaged as was asked.
        error: The expected root mean square error of such a mean: both together.
        clipping: What clipping to it adds to the mean of a round that came to some value.
    """

    low: float
    high: float
    clip_bias: Estimate
    clip_error: float
    noise: float
    error: float
    clipping: Clipping | None = field(default=None, repr=False, compare=False)

    @property
    def clipping_in_words(self) -> str:
        """What clipping adds to the mean, with its error; in words where it is too small to say."""
        bias = self.clip_bias
        if abs(bias.value) + bias.standard_error < self.error / 1000:
            return "almost nothing"
        value, error = rounded_alike(bias.value, bias.standard_error, error=bias.standard_error)
        return f"{value} ± {error}"


@dataclass(frozen=True, slots=True)
class RangeAdvice:
    """Recommend a range, and say what it and the present one lead to.

    Args:
        recommended: What the best range leads to.
        present: What the present one does.
        limits: Within which readings were looked for, low and high.
        quantiles: Between which readings lie: the 5 %, 50 % and 95 % quantiles of all rounds that
            were learnt from, with their errors.
        n: How many reports a mean has.
        averaged: Over how many rounds means are averaged afterwards.
        rounds: How many rounds it was learnt from.
    """

    recommended: RangeOutlook
    present: RangeOutlook
    limits: tuple[float, float]
    quantiles: tuple[Estimate, ...]
    n: int
    averaged: int
    rounds: int

    def __str__(self) -> str:
        """Return the advice as one sentence."""
        best, now = self.recommended, self.present
        return (
            f"Range {best.low:g} to {best.high:g}: expected error {best.error:.3g} instead of "
            f"{now.error:.3g} with {self.n} reports; clipping adds {best.clipping_in_words} "
            f"instead of {now.clipping_in_words}, counting readings of {self.limits[0]:g} to "
            f"{self.limits[1]:g}."
        )


def advise_range(
    probes: Sequence[RangeProbe],
    *,
    limits: Range,
    n: int,
    noise: float,
    present: Range | None = None,
    averaged: int = 1,
    rng: Random | Resampling | None = None,
) -> RangeAdvice:
    """Recommend the range with the least expected squared error of a mean of n reports.

    Shapes of the readings' distribution are drawn with the chance that all probes give them, each
    probe with the range it had (`rase.counts.shapes`). For every pair of ends the squared clip
    error is averaged over these shapes, and the noise added; so a range is narrowed no further than
    what is known allows. Readings of one round that move together make clipping worse than
    readings of their own mind: a mean that moves by 1 is followed only by the readings inside. How
    far they move together is estimated from the probes' means.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        probes: What rounds showed, oldest first; square-wave reports show most.
        limits: The widest range that may be recommended; its ``steps`` do not matter.
        n: How many reports a mean has.
        noise: The variance of one decoded report of the mechanism for means, in squared widths.
        present: The range to compare with; that of the last probe unless given.
        averaged: Over how many rounds means are averaged afterwards; bias does not average out.
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
    edges = _cell_edges([probe.randomizer.domain for probe in probes], limits)
    shapes = _shapes(probes, edges, rng)
    widths = edges - edges[:, None]
    each = noise / (n * averaged)
    likely = _movement_shares(probes, shapes)
    movement = float(likely @ _SHARES), float(likely @ _SHARES**2)
    errors = _squared_errors(edges, shapes, movement=movement, n=n) + each * np.square(widths)
    latest = probes[-1].randomizer.domain
    present = latest if present is None else present
    # Or readings that never change would narrow the grid until floats cannot tell its points apart.
    finest = min(2 * least_width(edges[0], edges[-1], steps=latest.steps), 0.9 * latest.width)
    allowed = np.where(widths > max(latest.width / _MOST_NARROWING, finest), errors, np.inf)
    first, last = (int(place) for place in np.unravel_index(allowed.argmin(), errors.shape))
    best = _neat(float(edges[first]), float(edges[last]), limits)
    reports = sum(probe.n for probe in probes)

    def outlook(low: float, high: float) -> RangeOutlook:
        ends = np.array([low, high])
        clipped = float(_squared_errors(ends, shapes, movement=movement, n=n)[0, 1])
        bias = shapes.lost_below(ends)[:, 0] - shapes.lost_above(ends)[:, 1]
        return RangeOutlook(
            low,
            high,
            clip_bias=Estimate(
                float(bias.mean()),
                float(bias.std()),
                n=reports,
                method="clip_bias",
                target="what clipping adds to the mean",
            ),
            clip_error=math.sqrt(clipped),
            noise=math.sqrt(each) * (high - low),
            error=math.sqrt(clipped + each * (high - low) ** 2),
            clipping=clipping_of(shapes, (_SHARES, likely), ends, n=n),
        )

    return RangeAdvice(
        recommended=outlook(*best),
        present=outlook(present.low, present.high),
        limits=(float(edges[0]), float(edges[-1])),
        quantiles=tuple(_quantiles(shapes, reports)),
        n=n,
        averaged=averaged,
        rounds=len(probes),
    )


def latest_ranges(probes: Sequence[RangeProbe]) -> list[RangeProbe]:
    """Return the probes of the latest eight ranges and of the widest: others only cost time.

    Without the widest a range that readings have left could not show how far they went.
    """
    kept = list(dict.fromkeys(probe.randomizer for probe in reversed(probes)))[:_RANGES_KEPT]
    widest = max((probe.randomizer.domain.width for probe in probes), default=0.0)
    return [
        probe
        for probe in probes
        if probe.randomizer in kept or probe.randomizer.domain.width == widest
    ]


def _shapes(probes: Sequence[RangeProbe], edges: Floats, rng: Random | Resampling | None) -> Shapes:
    """Return shapes of the readings that all probes leave possible, each probe with its range."""
    counts: dict[RangeRandomizer, Floats] = {}
    for probe in probes:
        found = np.asarray(probe.counts, dtype=np.float64)
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


def _movement_shares(probes: Sequence[RangeProbe], shapes: Shapes) -> Floats:
    """Return how likely each share of the readings' variance is to be what a round has in common.

    Every order of magnitude is alike likely beforehand; the means of rounds scatter by what is
    shared, by n readings of their own mind and by noise.
    """
    total = shapes.variances()
    evidence = np.zeros(_SHARES.size)
    for randomizer in dict.fromkeys(probe.randomizer for probe in probes):
        reach = randomizer.domain
        some = [probe for probe in probes if probe.randomizer == randomizer]
        clipped = shapes.points.clip(reach.low, reach.high)
        centres = shapes.masses @ clipped
        spread = float((shapes.masses @ clipped**2 - centres**2).mean())
        inside = (shapes.points > reach.low) & (shapes.points < reach.high)
        follows = (shapes.masses * shapes.moving)[:, inside].sum(axis=1)
        # No more than all of what is left within the range can be in common.
        common = np.minimum(_SHARES * float((total * follows**2).mean()), spread)
        n = np.array([[probe.n] for probe in some], dtype=np.float64)
        away = np.array([[probe.mean] for probe in some]) - centres.mean()
        variance = common + (spread - common + _report_noise(randomizer)) / n + centres.var()
        evidence -= (np.log(variance) + away**2 / variance).sum(axis=0) / 2
    weights = np.exp(evidence - evidence.max())
    return np.asarray(weights / weights.sum())


@functools.lru_cache(maxsize=64)
def _report_noise(randomizer: RangeRandomizer) -> float:
    """Return the variance of a decoded report, averaged over the range."""
    reach = randomizer.domain
    return float(randomizer.variance(np.linspace(reach.low, reach.high, 33)).mean())


def _squared_errors(
    edges: Floats, shapes: Shapes, *, movement: tuple[float, float], n: int
) -> Floats:
    """Return for each pair of ends (row low, column high) the mean squared clip error.

    Pairs that are no range are infinite.
    """
    bias = _mean_square(shapes.lost_below(edges), -shapes.lost_above(edges))
    square = (
        shapes.lost_below(edges, power=2).mean(axis=0)[:, None]
        + shapes.lost_above(edges, power=2).mean(axis=0)[None, :]
    )
    spread = np.maximum(square - bias, 0.0)
    # A mean that moves by 1 moves what is clipped by the part outside; the rest is second order.
    deviation = np.sqrt(shapes.variances())[:, None]
    moved = _mean_square(
        deviation * shapes.moved_below(edges), deviation * shapes.moved_above(edges)
    )
    common = movement[0] * moved + movement[1] * np.maximum(spread - moved, 0.0)
    errors = bias + common + np.maximum(spread - common, 0.0) / n
    places = np.arange(edges.size)
    return np.where(places[:, None] < places[None, :], errors, np.inf)


def _quantiles(shapes: Shapes, reports: int) -> Iterator[Estimate]:
    """Yield the quantiles of the readings, each as uncertain as the shapes and their cells are."""
    cells = np.gradient(shapes.points)
    for share, found in zip(QUANTILES, shapes.quantiles(QUANTILES).T, strict=True):
        value = float(found.mean())
        # A reading may lie anywhere in its cell: evenly, with a variance of a twelfth.
        cell = float(np.interp(value, shapes.points, cells))
        yield Estimate(
            value,
            math.hypot(float(found.std()), cell / math.sqrt(12)),
            n=reports,
            method="quantile",
            target=f"{share:g} quantile of the readings",
        )


def _mean_square(below: Floats, above: Floats) -> Floats:
    """Return the mean over the shapes of (below + above)^2, for all pairs of ends at once."""
    mean: Floats = (
        np.square(below).mean(axis=0)[:, None]
        + np.square(above).mean(axis=0)[None, :]
        + 2 * below.T @ above / len(below)
    )
    return np.maximum(mean, 0.0)


def _cell_edges(ranges: Sequence[Range], limits: Range) -> Floats:
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


def _bins(randomizer: RangeRandomizer) -> Floats:
    """Return the edges of a probe's bins, between grid points."""
    reach = randomizer.domain
    places = np.unique(np.rint(np.linspace(-0.5, 1.5, _BINS - 1) * reach.steps)) + 0.5
    return np.concatenate([[-np.inf], reach.low + reach.step * places, [np.inf]])


def _neat(low: float, high: float, limits: Range) -> tuple[float, float]:
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
