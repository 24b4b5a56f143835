"""The distribution of the readings from the law of the reports, by smoothed maximum likelihood."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rase.counts.counts import Counts, as_counts
from rase.errors import NotIdentifiable
from rase.kernels.words import resampling_source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from rase.arrays import Floats
    from rase.kernels.words import Random, Resampling
    from rase.laws.randomizer import RangeRandomizer

__all__ = ["Deconvolution", "bin_counts", "deconvolve"]

_CELLS = 128
_RESAMPLES = 80
# Stop smoothed steps when they gain less than this in log-likelihood. Li et al. use 1e-3, which
# fits even fleets worse (distance 0.39 instead of 0.24 at n = 64, epsilon 1); it fits some skewed
# ones a little better (0.18 instead of 0.21 at n = 100,000, epsilon 0.5).
_SMOOTH_GAIN = 0.01
# Go on without smoothing only while the reports ask for it: below this they fit noise again.
_ROUGH_GAIN = 0.3
_MOST_STEPS = 2000
# How rough the beginnings of the resampled fits are, and how much longer than their spread an error
# must be: both chosen on synthetic fleets (docs/explain/accuracy.md).
_ROUGHNESS = 6.0
_CALIBRATION = 1.4
_FEWEST_STEPS = 30
_NORMAL = 1.959964
_FLOOR = 1e-300
# Differences of distribution functions leave rounding errors of about this size.
_NEVER = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Deconvolution:
    """The estimated shares of the readings in small cells, and what else fits the reports.

    Args:
        edges: The cells' edges, ascending.
        shares: The share of the readings in each cell; they sum to 1.
        resampled: Shares that explain the reports as well, one set a row: they show what the
            reports leave open.
        n: How many reports went into it.
    """

    edges: Floats
    shares: Floats
    resampled: Floats
    n: int

    def between(self, bounds: Floats) -> tuple[Floats, Floats]:
        """Return the share of readings between neighbouring bounds, and its standard error."""
        places = np.interp(bounds, self.edges, np.arange(self.edges.size))
        cell = np.minimum(places.astype(np.int64), self.shares.size - 1)
        part = places - cell

        def masses(shares: Floats) -> Floats:
            before = np.cumsum(shares) - shares
            return np.diff(before[cell] + part * shares[cell])

        # Where in a cell that a bound cuts its readings lie is not known.
        cut = np.where(part > 0, np.maximum(part, 1 - part) * (part < 1), 0.0) * self.shares[cell]
        reach = self._reach(masses) + cut[:-1] + cut[1:]
        return masses(self.shares), reach / _NORMAL

    def quantiles(self, q: Floats) -> tuple[Floats, Floats]:
        """Return the reading below which each share of readings lies, and its standard error."""

        def inverse(shares: Floats) -> Floats:
            reached = np.concatenate([[0.0], np.cumsum(shares)])
            return np.interp(q, reached / reached[-1], self.edges)

        values = inverse(self.shares)
        last = np.clip(np.searchsorted(self.edges, values), 1, self.shares.size)
        # Where in its cell a reading lies is not known.
        reach = self._reach(inverse) + np.diff(self.edges)[last - 1]
        return values, reach / _NORMAL

    def _reach(self, function: Callable[[Floats], Floats]) -> Floats:
        """Return how far 95 % of what fits the reports lies from the estimate, on either side."""
        estimate = function(self.shares)
        found = np.array([function(row) for row in self.resampled])
        low, high = np.quantile(found, (0.025, 0.975), axis=0)
        reach: Floats = _CALIBRATION * np.maximum(high - estimate, estimate - low)
        return np.maximum(reach, 0.0)


def deconvolve(
    reports: Counts | ArrayLike,
    *,
    randomizer: RangeRandomizer,
    rng: Random | Resampling | None = None,
) -> Deconvolution:
    """Estimate how the readings are distributed, from noisy reports.

    Expectation maximisation with binomial smoothing (EMS, Li et al. 2020) on 128 cells until a step
    gains little likelihood, then unsmoothed steps as long as each gains much: the second
    stage is for reports so many or so good that EMS would blur what they show for ever.
    For the errors, resampled reports are fitted again without smoothing, each from a rough
    beginning of its own: what the reports determine comes out alike in all of them, and what they
    leave open stays as different as it began. Simulating from one fit would hide the latter: such
    intervals covered as little as 5 % at epsilon 0.5.

    Args:
        reports: Counts, or the reports of one round in any order.
        randomizer: The mechanism they come from; all contributors must share one budget.
        rng: For the resampled fits; None for the secure source.

    Raises:
        NotIdentifiable: If the mechanism's reports carry only the mean of the readings (Duchi).
        ValueError: If there are no reports, or they cannot come from ``randomizer``.

    Validation: distance to the truth and coverage in tests/counts/test_distribution.py.
    """
    given = as_counts(reports, randomizer)
    edges, channel = _channel(randomizer)
    counts = bin_counts(given, edges, randomizer)
    if counts[channel.max(axis=0) <= _NEVER].any():
        raise ValueError("reports must be such as this randomizer can draw; one is not.")
    shares = _fit(counts, channel)
    return Deconvolution(
        edges=np.linspace(randomizer.domain.low, randomizer.domain.high, _CELLS + 1),
        shares=shares,
        resampled=_resample_shares(counts, channel, rng),
        n=given.n,
    )


def bin_counts(counts: Counts, edges: Floats, randomizer: RangeRandomizer) -> Floats:
    """Return how many reports fall between neighbouring edges."""
    values = randomizer.values_of(counts.places)
    return np.histogram(values, edges, weights=counts.counts)[0].astype(np.float64)


@functools.lru_cache(maxsize=32)
def _channel(randomizer: RangeRandomizer) -> tuple[Floats, Floats]:
    """Return edges for the reports and Pr[report in bin | reading in the middle of cell]."""
    reach = randomizer.domain
    # Edges stand between grid points, so that the atoms at the range's ends fall into bins alone.
    inside = np.rint(np.linspace(0, reach.steps, _CELLS + 1)[1:-1])
    beyond = np.rint(np.linspace(0, reach.steps, _CELLS // 4 + 1)[1:])
    places = np.concatenate([-beyond - 1, [-1, 0], inside, [reach.steps - 1, reach.steps]])
    places = np.unique(np.concatenate([places, reach.steps + beyond]))
    edges = np.concatenate([[-np.inf], reach.low + reach.step * (places + 0.5), [np.inf]])
    readings = reach.low + reach.width * (np.arange(_CELLS) + 0.5) / _CELLS
    channel = np.clip(randomizer.report_probabilities(readings, edges), 0.0, 1.0)
    if np.linalg.matrix_rank(channel, tol=1e-9) <= 2:
        raise NotIdentifiable(
            "The reports carry only the mean of the readings, not how they are distributed. "
            "Use Piecewise, Hybrid with a larger epsilon, BudgetAware or Laplace."
        )
    return edges, channel


def _fit(counts: Floats, channel: Floats) -> Floats:
    """Return the shares after smoothed and, where the reports ask for it, unsmoothed steps."""
    shares, _ = _climb_likelihood(
        counts, channel, _flat(channel), least_gain=_SMOOTH_GAIN, is_smooth=True
    )
    shares, _ = _climb_likelihood(counts, channel, shares, least_gain=_ROUGH_GAIN, is_smooth=False)
    return shares


def _climb_likelihood(
    counts: Floats, channel: Floats, shares: Floats, *, least_gain: float, is_smooth: bool
) -> tuple[Floats, int]:
    """Return the shares once a step gains little likelihood, and how many steps that took."""
    likelihood, taken = -np.inf, 0
    while taken < _MOST_STEPS:
        expected = np.maximum(shares @ channel, _FLOOR)
        reached = float(counts @ np.log(expected))
        if reached - likelihood < least_gain:
            break
        likelihood = reached
        shares = _step(shares, counts, channel, expected, is_smooth=is_smooth)
        taken += 1
    return shares, taken


def _resample_shares(counts: Floats, channel: Floats, rng: Random | Resampling | None) -> Floats:
    """Return shares fitted to resampled counts, each from a rough beginning of its own."""
    # The reports are public already, so resampling needs no cryptographic randomness.
    seed = [int(word) for word in resampling_source_of(rng).words(4)]
    chance = np.random.Generator(np.random.PCG64(seed))
    _, steps = _climb_likelihood(
        counts, channel, _flat(channel), least_gain=_SMOOTH_GAIN, is_smooth=False
    )
    drawn = chance.multinomial(int(counts.sum()), counts / counts.sum(), size=_RESAMPLES)
    cells = channel.shape[0]
    # Brownian paths are log-densities that wander by _ROUGHNESS over the range.
    path = chance.normal(size=(_RESAMPLES, cells)).cumsum(axis=1) * _ROUGHNESS / np.sqrt(cells)
    shares = _normalise(np.exp(path - path.max(axis=1, keepdims=True)))
    resampled = drawn.astype(np.float64)
    for _ in range(max(steps, _FEWEST_STEPS)):
        expected = np.maximum(shares @ channel, _FLOOR)
        shares = _step(shares, resampled, channel, expected, is_smooth=False)
    return shares


def _step(
    shares: Floats, counts: Floats, channel: Floats, expected: Floats, *, is_smooth: bool
) -> Floats:
    """Return the shares after one step of expectation maximisation."""
    shares = shares * ((counts / expected) @ channel.T)
    if is_smooth:
        # Weights 1, 2, 1; a cell at an end takes its missing neighbour's share from itself.
        left = np.concatenate([shares[..., :1], shares[..., :-1]], axis=-1)
        right = np.concatenate([shares[..., 1:], shares[..., -1:]], axis=-1)
        shares = left + 2 * shares + right
    return _normalise(shares)


def _normalise(shares: Floats) -> Floats:
    normalised: Floats = shares / shares.sum(axis=-1, keepdims=True)
    return normalised


def _flat(channel: Floats) -> Floats:
    return np.full(channel.shape[0], 1 / channel.shape[0])
