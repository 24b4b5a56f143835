"""Binomial laws with nearly full relative accuracy, and windows that hold all but a stated mass.

The probabilities follow Loader, "Fast and accurate computation of binomial probabilities", 2000:
what is large cancels on paper, not in floating point. Relative errors stay below 1e-11 up to 1e9
trials (tests/accounting/test_binomial.py).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Floats", "log_tail", "probabilities", "window"]

Floats = NDArray[np.float64]

_TABLE = 16
_SERIES_BELOW = 0.1


def probabilities(successes: ArrayLike, trials: ArrayLike, chance: float) -> Floats:
    """Return Pr[Bin(trials, chance) = successes]; 0 outside 0 .. trials.

    Args:
        successes: Whole numbers.
        trials: Whole numbers; broadcast against ``successes``.
        chance: The chance of one success, strictly between 0 and 1.
    """
    hits, total = np.broadcast_arrays(
        np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    )
    misses = total - hits
    result = np.zeros(hits.shape)
    inner = (hits > 0) & (misses > 0)
    k, m, n = hits[inner], misses[inner], total[inner]
    exponent = _stirling_error(n) - _stirling_error(k) - _stirling_error(m)
    exponent -= _deviance(k, n * chance) + _deviance(m, n * (1 - chance))
    result[inner] = np.exp(exponent) * np.sqrt(n / (2 * math.pi * k * m))
    none, every = (hits == 0) & (misses >= 0), (misses == 0) & (hits > 0)
    result[none] = np.exp(total[none] * math.log1p(-chance))
    result[every] = np.exp(total[every] * math.log(chance))
    return result


def window(trials: int, chance: float, log_mass: float) -> tuple[int, int]:
    """Return ``low, high`` beyond each of which lies a mass of e^log_mass at most.

    The narrowest by Chernoff's bound, which the tails themselves are below.

    Args:
        trials: How many trials.
        chance: The chance of one success, strictly between 0 and 1.
        log_mass: The log of the mass allowed beyond each end.
    """
    middle = math.floor(trials * chance)
    inside, outside = middle, -1
    while inside - outside > 1:
        probe = (inside + outside) // 2
        if log_tail(probe, trials, chance) <= log_mass:
            outside = probe
        else:
            inside = probe
    low = inside
    inside, outside = middle, trials + 1
    while outside - inside > 1:
        probe = (inside + outside) // 2
        if log_tail(probe, trials, chance) <= log_mass:
            outside = probe
        else:
            inside = probe
    return low, inside


def log_tail(successes: int, trials: int, chance: float) -> float:
    """Return a bound on the log of the tail from ``successes`` away from the mean (Chernoff)."""
    misses = trials - successes
    hit = successes * math.log(successes / (trials * chance)) if successes else 0.0
    miss = misses * math.log(misses / (trials * (1 - chance))) if misses else 0.0
    return min(0.0, -hit - miss)


def _deviance(count: Floats, mean: Floats) -> Floats:
    """Return x ln(x / m) + m - x, by a series where x is near m."""
    gap, both = count - mean, count + mean
    ratio = gap / both
    near = np.abs(ratio) < _SERIES_BELOW
    result = np.empty(count.shape)
    v = ratio[near]
    square = v * v
    series = np.zeros(v.shape)
    for power in range(17, 1, -2):
        series = (series + 1 / power) * square
    result[near] = gap[near] * v + 2 * count[near] * v * series
    x, m = count[~near], mean[~near]
    result[~near] = x * np.log(x / m) + m - x
    return result


def _stirling_error(count: Floats) -> Floats:
    """Return ln(n!) less Stirling's formula, for whole n above 0."""
    result = _SMALL[np.minimum(count, _TABLE - 1).astype(np.int64)]
    large = count >= _TABLE
    n = count[large]
    square = n * n
    result[large] = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    ) / n
    return result


def _small_errors() -> Floats:
    stirling = [(n + 0.5) * math.log(n) - n + 0.5 * math.log(2 * math.pi) for n in range(1, _TABLE)]
    exact = [math.log(math.factorial(n)) for n in range(1, _TABLE)]
    return np.array([0.0, *(a - b for a, b in zip(exact, stirling, strict=True))])


_SMALL = _small_errors()
