"""Errors along epsilon, for every mechanism and estimator at once, fast enough for a slider.

Errors are proportional to the width of the range, and those of means depend on the number of
devices in closed form. So each mechanism is looked at once for a range of width 1 at fixed
epsilons, and what is found is kept; a curve is then a few multiplications.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rase.accounting.binomial import Floats
from rase.accounting.error_model import BOOTSTRAP_RESAMPLES, COMPARED, ErrorModel
from rase.accounting.plan.schedule import mean_inverse
from rase.domain import Precision, Range
from rase.laws.parts import HYBRID_FROM
from rase.laws.registry import FOR_MEANS, MEAN_CHOICES, best_mechanism, randomizer_named
from rase.privacy import MAX_EPSILON, MIN_EPSILON

__all__ = ["Curves", "ErrorCurve", "error_curves"]

_PER_DECADE = 12
# The epsilons that are always shown; a smaller or larger one in question widens them.
_LOW, _HIGH = 0.05, 10.0
# The median's law is looked at in every so many points.
_MEDIAN_EVERY = 3
_UNIT = Range(0, 1)
# Budget-aware noise is clamped or it is Laplace; with the former no epsilon is enough, with the
# latter every one.
_ALWAYS_CLAMPED, _NEVER_CLAMPED = Precision(0.0, 1.0), Precision(1.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class ErrorCurve:
    """The worst error of an estimator with a mechanism at each epsilon, of a window's mean.

    Args:
        mechanism: The mechanism, or ``auto`` for the best at each epsilon.
        estimator: The estimator.
        bias: The bias at each epsilon.
        noise: The standard deviation at each epsilon; NaN where it was not computed.
    """

    mechanism: str
    estimator: str
    bias: Floats
    noise: Floats

    @property
    def total(self) -> Floats:
        """The root mean square error at each epsilon."""
        return np.hypot(self.bias, self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Curves over common epsilons.

    Args:
        epsilon: The epsilons, ascending.
        curves: One for each mechanism and mean; the median for the mechanism in question only.
    """

    epsilon: Floats
    curves: tuple[ErrorCurve, ...]

    def of(self, mechanism: str, estimator: str) -> ErrorCurve:
        """Return one curve.

        Raises:
            KeyError: If there is no such curve.
        """
        for curve in self.curves:
            if (curve.mechanism, curve.estimator) == (mechanism, estimator):
                return curve
        raise KeyError(f"there is no curve of {estimator!r} with {mechanism!r}.")


def error_curves(
    value_range: Range,
    epsilon: float,
    *,
    devices: int,
    precision: Precision,
    window: int = 1,
    turns: int = 1,
    mechanism: str = "auto",
) -> Curves:
    """Return the worst errors along epsilon.

    Args:
        value_range: The public range.
        epsilon: The epsilon in question, which the curves surround.
        devices: How many devices there are.
        precision: The (beta, rho) asked for, which decides where budget-aware stops clamping.
        window: How many rounds are averaged.
        turns: Of how many devices one reports in a round, by chance; 1 if all do.
        mechanism: The mechanism in question, or ``auto``.

    Raises:
        ValueError: If there is no such mechanism.

    Example:
        >>> power, asked = Range(0, 3000), Precision(0.5, 0.9)
        >>> found = error_curves(power, 1.0, devices=1000, precision=asked)
        >>> near = int(np.abs(found.epsilon - 1.0).argmin())
        >>> round(float(found.of("hybrid", "unbiased_mean").total[near]), 1)
        98.2
    """
    if mechanism not in MEAN_CHOICES:
        raise ValueError(f"mechanism must be one of {', '.join(MEAN_CHOICES)}, got {mechanism!r}.")
    crowd = _Crowd.of(devices, turns)
    bound = precision.epsilon_bound(value_range)
    points = _points(epsilon, bound)
    curves = []
    for name in (*FOR_MEANS, "auto"):
        laws = [_law(name, one, bound) for one in points]
        units = np.array([_unit(law, one) for law, one in zip(laws, points, strict=True)])
        curves += [_mean(units, one, name, crowd) for one in COMPARED if one != "median"]
        if name == mechanism:
            curves.append(_median(laws, points, name, crowd))
    scale, rounds = value_range.width, math.sqrt(window) / crowd.factor
    return Curves(
        np.array(points),
        tuple(
            ErrorCurve(one.mechanism, one.estimator, scale * one.bias, scale * one.noise / rounds)
            for one in curves
        ),
    )


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The reports of a round as `turn_error` takes them: how many, who is left out, a factor."""

    reports: int
    sampling: float
    factor: float

    @classmethod
    def of(cls, devices: int, turns: int) -> "_Crowd":
        if turns == 1:
            return cls(devices, 0.0, 1.0)
        inverse = mean_inverse(devices, turns)
        reports = max(1, math.floor(1 / inverse))
        return cls(reports, 1 - 1 / turns, math.sqrt(reports * inverse))


def _points(epsilon: float, bound: float) -> list[float]:
    """Return fixed epsilons, and both sides of where a law changes."""
    low = max(min(_LOW, epsilon / 2), MIN_EPSILON)
    high = min(max(_HIGH, 2 * epsilon), MAX_EPSILON)
    first = math.ceil(_PER_DECADE * math.log10(low) - 1e-9)
    last = math.floor(_PER_DECADE * math.log10(high) + 1e-9)
    fixed = [10 ** (place / _PER_DECADE) for place in range(first, last + 1)]
    jumps = [(1 - 1e-8) * bound, bound, HYBRID_FROM, (1 + 1e-8) * HYBRID_FROM]
    return sorted({*fixed, *(one for one in jumps if low < one < high)})


def _law(name: str, epsilon: float, bound: float) -> str:
    """Return which law a mechanism has at an epsilon, whatever the precision."""
    if name == "auto":
        return best_mechanism(epsilon)
    if name == "budget-aware":
        return "clamped" if epsilon < bound else "laplace"
    return name


def _model(law: str, epsilon: float) -> ErrorModel:
    name = "budget-aware" if law == "clamped" else law
    precision = _ALWAYS_CLAMPED if law == "clamped" else _NEVER_CLAMPED
    return ErrorModel(randomizer_named(name, epsilon, domain=_UNIT, precision=precision))


@lru_cache(maxsize=2048)
def _unit(law: str, epsilon: float) -> tuple[float, float, float, float]:
    """Return decoded variance, bias, variance and spread of means of one report, each at worst."""
    model = _model(law, epsilon)
    readings = np.linspace(_UNIT.low, _UNIT.high, 257)
    means, variances = model.report_moments(readings)
    return (
        float(model.decoded_variance(readings).max()),
        float(np.abs(means - readings).max()),
        float(variances.max()),
        float(np.ptp(means)),
    )


def _mean(units: Floats, estimator: str, mechanism: str, crowd: _Crowd) -> ErrorCurve:
    decoded, bias, variance, spread = units.T
    n, sampling = crowd.reports, crowd.sampling
    if estimator == "unbiased_mean":
        noise = np.sqrt((decoded + sampling / 4) / n)
        return ErrorCurve(mechanism, estimator, np.zeros(len(units)), noise)
    among = np.square(spread) / 4
    noise = (variance + sampling * among) / n
    if estimator == "bootstrap_mean":
        noise = noise + (variance + among) * (n - 1) / (n * n * BOOTSTRAP_RESAMPLES)
    return ErrorCurve(mechanism, estimator, bias, np.sqrt(noise))


def _median(laws: list[str], points: list[float], mechanism: str, crowd: _Crowd) -> ErrorCurve:
    found = [
        _unit_median(law, one, crowd.reports, crowd.sampling)
        if place % _MEDIAN_EVERY == 0
        else (math.nan, math.nan)
        for place, (law, one) in enumerate(zip(laws, points, strict=True))
    ]
    bias, noise = np.array(found).T
    return ErrorCurve(mechanism, "median", bias, noise)


@lru_cache(maxsize=2048)
def _unit_median(law: str, epsilon: float, n: int, sampling: float) -> tuple[float, float]:
    error = _model(law, epsilon).worst("median", n, sampling=sampling)
    return error.bias, error.noise
