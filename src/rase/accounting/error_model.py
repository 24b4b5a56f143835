"""How wrong a mean will be: bias and noise of every estimator, in closed form, before any report.

The truth is the mean of the fleet's own readings in the round. Bias is what fresh noise does not
change, noise the standard deviation over fresh noise with the readings given; so bias stays in a
window of w rounds and noise falls by sqrt(w).

The error of the median follows from the chances with which reports fall below a point. The median
lies below a point if more than half of the reports do. Their number is a sum of
independent signs, nearly normal with mean n G and variance n V, G the mean over readings of the
chance g(x) to fall below the point and V that of g(x) (1 - g(x)). So the median is the point at
which sqrt(n) (G - 1/2) / sqrt(V) equals a standard normal number.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from rase.accounting.binomial import Floats
from rase.accounting.blanket import Covered, channel_of
from rase.counts.registry import ROUND_MEANS
from rase.domain import Range
from rase.laws.checks import as_readings
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.optimal import Optimal
from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "BOOTSTRAP_RESAMPLES",
    "COMPARED",
    "PREDICTED",
    "Error",
    "ErrorModel",
    "FleetReadings",
    "SignLaw",
    "distinct",
    "line_over",
    "worst_of_two_ends",
]

_PER_WIDTH = 512
_OUTSIDE = 96
# Shares of readings at the upper end that are tried for the worst fleet; the law is symmetric.
_SHARES = np.linspace(0.0, 0.5, 17)
_NODES = np.linspace(-6.0, 6.0, 241)
_WEIGHTS = np.exp(-np.square(_NODES) / 2)
_WEIGHTS /= _WEIGHTS.sum()
_FARTHEST = 40.0
_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SignLaw:
    """How many reports fall below each point, in the mean and in variance.

    Args:
        points: Ascending points.
        below: The mean share of reports at or below each point, G.
        spread: The mean of g (1 - g) over readings, V.
    """

    points: Floats
    below: Floats
    spread: Floats

    def with_sampling(self, sampling: float) -> "SignLaw":
        """Return the law where those who report are drawn by chance, and this share is not.

        The variance of g over readings is what g (1 - g) lacks to G (1 - G).
        """
        among = np.maximum(self.below * (1 - self.below) - self.spread, 0.0)
        return SignLaw(self.points, self.below, self.spread + sampling * among)

    def moments(self, n: int) -> tuple[float, float]:
        """Return mean and standard deviation of the median of n reports."""
        size = np.sqrt(n * np.maximum(self.spread, _TINY))
        turn = np.clip(n * (self.below - 0.5) / size, -_FARTHEST, _FARTHEST)
        # Equal up to rounding must not turn back, or interpolation would jump.
        turn = np.maximum.accumulate(turn)
        # One report more or less: for even n the median is the middle of two such points.
        apart = 0.0 if n % 2 else 1 / float(np.interp(0.0, turn, size))
        lower = np.interp(_NODES - apart / 2, turn, self.points)
        upper = np.interp(_NODES + apart / 2, turn, self.points)
        medians = (lower + upper) / 2
        mean = float(_WEIGHTS @ medians)
        return mean, math.sqrt(float(_WEIGHTS @ np.square(medians - mean)))


def distinct(values: Floats) -> Floats:
    """Return the values in sequence, each once: `numpy.unique` without its import of `numpy.ma`."""
    ascending: Floats = np.sort(values)
    once: Floats = ascending[np.append(True, ascending[1:] != ascending[:-1])]
    return once


def line_over(public: Range, *, reach: float) -> Floats:
    """Return points that resolve the reports: dense in the range, and half a step about its ends.

    Args:
        public: The public range.
        reach: How far beyond the ends reports must be looked at; 0 where they are clamped.
    """
    half = public.step / 2
    inside = np.linspace(public.low, public.high, _PER_WIDTH + 1)[1:-1]
    ends = (public.low - half, public.low + half, public.high - half, public.high + half)
    line = distinct(np.concatenate((inside, ends)))
    if not reach:
        return line
    if reach <= public.width:
        beyond = np.linspace(0.0, reach + 4 * public.step, _PER_WIDTH // 2)[1:] + half
    else:
        beyond = np.geomspace(public.step, reach, _OUTSIDE) + half
    return np.concatenate((public.low - beyond[::-1], line, public.high + beyond))


def worst_of_two_ends(
    points: Floats, ends: Floats, n: int, *, low: float, high: float, sampling: float = 0.0
) -> tuple[float, float]:
    """Return the largest bias and the largest noise of the median in fleets that read the ends.

    Args:
        points: Ascending points.
        ends: Two rows: the chance below each point of a report of the lower and the upper end.
        n: How many reports.
        low: The lower end.
        high: The upper end.
        sampling: The share of the fleet that does not report, by chance.
    """
    signs = ends * (1 - ends)
    biases, noises = [], []
    for share in _SHARES:
        weights = np.array([1 - share, share])
        law = SignLaw(points, weights @ ends, weights @ signs).with_sampling(sampling)
        centre, noise = law.moments(n)
        biases.append(abs(centre - low - share * (high - low)))
        noises.append(noise)
    return max(biases), max(noises)


# The estimators of one round, whose errors follow from the mechanism and the readings.
PREDICTED = ROUND_MEANS
# Of the means that a plan compares, the winsorized one is the unbiased one but for liars.
COMPARED = tuple(name for name in ROUND_MEANS if name != "winsorized_mean")
_DECODED = ("unbiased_mean", "winsorized_mean")
# What `bootstrap_mean` draws by default.
BOOTSTRAP_RESAMPLES = 1000
# Readings that stand for all in the median's law; its error falls with their square.
_ATOMS = 64


@dataclass(frozen=True, slots=True)
class Error:
    """The expected error of an estimate, split.

    Args:
        bias: The mean error, signed; in the worst case its size.
        noise: The standard deviation over fresh noise.

    Example:
        >>> Error(bias=-3.0, noise=4.0).total
        5.0
    """

    bias: float
    noise: float

    @property
    def total(self) -> float:
        """The root mean square error."""
        return math.hypot(self.bias, self.noise)

    def over(self, rounds: int) -> "Error":
        """Return the error of the mean over many rounds: noise averages out, bias does not."""
        return Error(self.bias, self.noise / math.sqrt(rounds))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FleetReadings:
    """How the readings of a fleet are spread, as weights on the public grid.

    There is no ``repr``: these are readings before any noise.

    Args:
        value_range: The public range; its grid carries the weights.
        weights: The share of readings at each grid point, rounded as the mechanisms round.
        count: How many readings it was made of; 0 for an assumed spread.
        clipped_share: The share of readings outside the range.
        clip_bias: What moving them to its ends adds to the mean.
    """

    value_range: Range
    weights: Floats
    count: int = 0
    clipped_share: float = 0.0
    clip_bias: float = 0.0

    @classmethod
    def uniform(cls, value_range: Range) -> "FleetReadings":
        """Return readings spread evenly over the range."""
        points = value_range.steps + 1
        return cls(value_range, np.full(points, 1 / points))

    @classmethod
    def of(cls, readings: ArrayLike, value_range: Range) -> "FleetReadings":
        """Return the spread of a sample of readings.

        Raises:
            TypeError: If the readings are not numbers.
            ValueError: If there is no reading, or one is not finite.
        """
        values = as_readings(readings).ravel()
        if not values.size:
            raise ValueError("readings must hold at least one reading, got none.")
        if not np.isfinite(values).all():
            raise ValueError("readings must be finite numbers, got NaN or infinity among them.")
        inside = np.clip(values, value_range.low, value_range.high)
        exact = np.clip((inside - value_range.low) / value_range.step, 0, value_range.steps)
        below = np.minimum(np.floor(exact), value_range.steps - 1)
        index = below.astype(np.int64)
        points = value_range.steps + 1
        # Rounding to the two neighbours at random keeps the mean of every reading.
        weights = np.bincount(index, 1 - (exact - below), points)
        weights += np.bincount(index + 1, exact - below, points)
        return cls(
            value_range,
            weights / values.size,
            count=values.size,
            clipped_share=float((values != inside).mean()),
            clip_bias=float(inside.mean() - values.mean()),
        )

    @property
    def grid(self) -> Floats:
        """The grid points, as readings."""
        places = np.arange(self.value_range.steps + 1, dtype=np.float64)
        return self.value_range.low + self.value_range.step * places

    @property
    def mean(self) -> float:
        """The mean of the readings after clipping."""
        return float(self.weights @ self.grid)

    def atoms(self, most: int = _ATOMS) -> tuple[Floats, Floats]:
        """Return few readings and weights that stand for all, with the same mean."""
        # Each grid point belongs to the piece of equal mass in which its middle lies.
        middle = np.cumsum(self.weights) - self.weights / 2
        piece = np.minimum((middle * most).astype(np.int64), most - 1)
        mass: Floats = np.bincount(piece, self.weights, most).astype(np.float64)
        sums: Floats = np.bincount(piece, self.weights * self.grid, most).astype(np.float64)
        return sums[mass > 0] / mass[mass > 0], mass[mass > 0]


@dataclass(frozen=True)
class ErrorModel:
    """The expected error of the estimators for one mechanism.

    For means it is exact, but for stochastic rounding to the grid (below 1e-7 of the width
    squared). For the median it takes the number of reports below a point as normal, which holds
    within 4 % from about 50 reports on (tests/accounting/test_error_model.py).

    Args:
        mechanism: What every device draws its report from.
    """

    mechanism: RangeRandomizer

    def expected_error(
        self, estimator: str, n: int, *, readings: FleetReadings, sampling: float = 0.0
    ) -> Error:
        """Return the error of one round for readings of a known spread.

        Args:
            estimator: One of `PREDICTED`.
            n: How many reports.
            readings: How the readings are spread; clipping counts as bias.
            sampling: The share of the fleet that does not report, where those who do are drawn by
                chance. The variance of their readings, times this, is then part of the noise.

        Raises:
            ValueError: If the estimator is unknown.
        """
        _check_estimator(estimator)
        grid, weights = readings.grid, readings.weights
        if estimator in _DECODED:
            variance = float(weights @ self._decoder_of(estimator).decoded_variance(grid))
            variance += sampling * float(weights @ np.square(grid - readings.mean))
            return Error(readings.clip_bias, math.sqrt(variance / n))
        if estimator == "median":
            # Of readings that somebody gave, nothing is kept between calls.
            law = self.sign_law(readings) if readings.count else _sign_law(self, readings)
            law = law.with_sampling(sampling)
            centre, noise = law.moments(n)
            return Error(centre - readings.mean + readings.clip_bias, noise)
        means, variances = self.report_moments(grid)
        centre = float(weights @ means)
        among = float(weights @ np.square(means - centre))
        variance = (float(weights @ variances) + sampling * among) / n
        if estimator == "bootstrap_mean":
            # Resampling adds the spread of all reports, readings included, divided by n B.
            spread = (float(weights @ variances) + among) * (n - 1) / n
            variance += spread / (n * BOOTSTRAP_RESAMPLES)
        return Error(centre - readings.mean + readings.clip_bias, math.sqrt(variance))

    def worst(self, estimator: str, n: int, *, sampling: float = 0.0) -> Error:
        """Return an error of one round that no readings exceed: bias and noise each at its worst.

        For the means both are attained by readings that are all equal. For the median, fleets of
        which a part reads one end of the range and the rest the other are looked at.

        Args:
            estimator: As for `expected_error`.
            n: How many reports.
            sampling: As for `expected_error`.

        Raises:
            ValueError: If the estimator is unknown.
        """
        _check_estimator(estimator)
        public = self.mechanism.domain
        if estimator == "median":
            points = self._line()
            ends = self._below(np.array([public.low, public.high]), points)
            bias, noise = worst_of_two_ends(
                points, ends, n, low=public.low, high=public.high, sampling=sampling
            )
            return Error(bias, noise)
        readings = np.linspace(public.low, public.high, 257)
        if estimator in _DECODED:
            variance = float(self._decoder_of(estimator).decoded_variance(readings).max())
            # Nothing within the range spreads more than half of it at either end.
            return Error(0.0, math.sqrt((variance + sampling * public.width**2 / 4) / n))
        means, variances = self.report_moments(readings)
        among = float(np.ptp(means)) ** 2 / 4
        variance = (float(variances.max()) + sampling * among) / n
        if estimator == "bootstrap_mean":
            # All reports lie between two readings' means and so spread by half of that at most.
            spread = float(variances.max()) + among
            variance += spread * (n - 1) / (n * n * BOOTSTRAP_RESAMPLES)
        return Error(float(np.abs(means - readings).max()), math.sqrt(variance))

    def _decoder_of(self, estimator: str) -> "ErrorModel":
        """Return the model of what is decoded: winsorizing reads unclamped reports as clamped."""
        if estimator == "unbiased_mean" or not isinstance(self.mechanism, BudgetAware | Laplace):
            return self
        return ErrorModel(self.mechanism.clamp())

    def decoded_variance(self, reading: Floats) -> Floats:
        """Return the variance of the decoded report of each reading."""
        if not self._is_laplace:
            return self.mechanism.variance(reading)
        tail = self._tail**2 * self._decay_correction
        if not self._is_clamping:
            return np.full(reading.shape, 2 * tail)
        at_low, at_high = self._atoms(reading)
        variance: Floats = tail * (2 - at_low - at_high)
        return variance

    def report_moments(self, reading: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of the report of each reading, as it is, not decoded."""
        public = self.mechanism.domain
        if self._is_laplace and not self._is_clamping:
            return reading, self.decoded_variance(reading)
        offset = reading - public.middle
        if not self._is_laplace:
            if isinstance(self.mechanism, Optimal):
                return self.mechanism.report_moments(reading)
            slope, constant, curve = _bounded_moments(self.mechanism)
            mean = slope * offset
            return public.middle + mean, constant + curve * np.square(offset) - np.square(mean)
        # Decoding adds the tail's mean at the ends and is unbiased, so the report's mean lacks it.
        at_low, at_high = self._atoms(reading)
        mean = offset + self._tail * (at_low - at_high)
        at_ends = (self._tail * public.width + self._tail**2) * (at_low + at_high)
        square = self.decoded_variance(reading) + np.square(offset) - at_ends
        return public.middle + mean, square - np.square(mean)

    def sign_law(self, readings: FleetReadings) -> SignLaw:
        """Return how reports fall below each point, from which the median's error follows."""
        points = self._line()
        atoms, weights = readings.atoms()
        below = self._below(atoms, points)
        return SignLaw(points, weights @ below, weights @ (below * (1 - below)))

    @property
    def _is_laplace(self) -> bool:
        return isinstance(self.mechanism, BudgetAware | Laplace)

    @property
    def _is_clamping(self) -> bool:
        return isinstance(self.mechanism, BudgetAware) and self.mechanism.is_clamping is True

    @property
    def _rate(self) -> float:
        return self._epsilon / self.mechanism.domain.steps

    @property
    def _epsilon(self) -> float:
        return self.mechanism.guarantee.epsilon

    @property
    def _tail(self) -> float:
        """The mean of what lies beyond an end, a / (1 - a) steps: nearly the scale λ."""
        return self.mechanism.domain.step / math.expm1(self._rate)

    @property
    def _decay_correction(self) -> float:
        """The ratio of the tail's variance a / (1 - a)^2 to its squared mean."""
        return math.exp(self._rate)

    def _atoms(self, reading: Floats) -> tuple[Floats, Floats]:
        """Return the probability of a clamped report at either end."""
        public = self.mechanism.domain
        whole = 1 + math.exp(-self._rate)
        scale = public.width / self._epsilon
        return (
            np.exp((public.low - reading) / scale) / whole,
            np.exp((reading - public.high) / scale) / whole,
        )

    def _line(self) -> Floats:
        public = self.mechanism.domain
        if not self._is_laplace:
            reach = public.width / 2
            if isinstance(self.mechanism, Optimal):
                reach = max(self.mechanism.reach, reach)
            return line_over(public, reach=reach)
        return line_over(public, reach=0.0 if self._is_clamping else 40 * self._tail)

    def _below(self, readings: Floats, points: Floats) -> Floats:
        """Return Pr[report <= point] for each reading (row) and point."""
        public = self.mechanism.domain
        if not self._is_laplace:
            edges = np.concatenate(([-np.inf], points, [np.inf]))
            chances = self.mechanism.report_probabilities(readings, edges)
            return np.cumsum(chances, axis=1)[:, :-1]
        distance = (points[None, :] - readings[:, None]) * self._epsilon / public.width
        outer = np.exp(-np.abs(distance)) / 2
        below = np.where(distance < 0, outer, 1 - outer)
        if self._is_clamping:
            below[:, points < public.low] = 0.0
            below[:, points > public.high] = 1.0
        return below


def _check_estimator(name: str) -> None:
    if name not in PREDICTED:
        raise ValueError(f"estimator must be one of {', '.join(PREDICTED)}, got {name!r}.")


@lru_cache(maxsize=256)
def _sign_law(model: ErrorModel, readings: FleetReadings) -> SignLaw:
    return model.sign_law(readings)


@lru_cache(maxsize=256)
def _bounded_moments(mechanism: Covered) -> tuple[float, float, float]:
    """Return slope, constant and curve of a report's moments about the middle of the range.

    For Duchi, Piecewise and Hybrid the mean of a report is slope * offset and its mean square
    constant + curve * offset^2, where offset is the reading less the middle: a bit's chance is
    linear in the reading, and a window moves with it. Two readings give the three numbers.
    """
    public = mechanism.domain
    channel = channel_of(mechanism)
    margin = (channel.high.size - 1 - public.steps) // 2
    place = public.step * (np.arange(channel.high.size) - margin - public.steps / 2)
    half = public.width / 2
    slope = float(channel.high @ place) / half
    constant = float(channel.middle @ np.square(place))
    curve = (float(channel.high @ np.square(place)) - constant) / half**2
    return slope, constant, curve
