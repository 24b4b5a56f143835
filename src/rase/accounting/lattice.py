"""Laws of sums of many independent numbers, by FFT on a lattice, with the errors kept on one side.

Two devices keep the error small. Atoms are *split* between their two neighbours on the lattice, so
that the mean stays and only the spread grows: a step of a tenth of the standard deviation changes
results by a thousandth, where rounding up would add its bias once for each summand. And the law is
*tilted*, multiplied by e^(tilt x), so that the rare sums of interest become the common ones and are
computed with small relative error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.accounting.binomial import Floats

__all__ = ["Lattice", "split"]

_STEEPEST = 1e12
_FLATTEST = 1e-300
_CLOSE = 1e-3
# The log of a share of the largest frequency far below the rounding of the FFT.
_FAINTEST = -100.0


def split(
    values: Floats,
    masses: Floats,
    step: float,
    *,
    upper_share: Callable[[Floats], Floats] = lambda share: share,
) -> "Lattice":
    """Return a law on multiples of ``step`` of which the given law is a coarsening.

    Args:
        values: Where the mass lies.
        masses: How much lies there.
        step: The distance of two places.
        upper_share: What share of an atom goes to the place above it, by how far it has come
            towards that place. The default keeps the mean.
    """
    scaled = values / step
    below = np.floor(scaled)
    share = upper_share(scaled - below)
    places = below.astype(np.int64)
    start = int(places.min())
    size = int(places.max()) - start + 2
    held = np.zeros(size)
    held += np.bincount(places - start, weights=masses * (1 - share), minlength=size)
    held += np.bincount(places - start + 1, weights=masses * share, minlength=size)
    # The highest place must hold mass: a steep tilt leaves nothing else.
    return Lattice(step, start, held[: int(np.flatnonzero(held)[-1]) + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """A finite law on multiples of a step; its masses may sum to less than 1.

    Args:
        step: The distance of two places.
        start: The lowest place, in steps.
        masses: The mass at each place from there on; the last is above 0.
    """

    step: float
    start: int
    masses: Floats

    @property
    def values(self) -> Floats:
        """The value at each place."""
        places = np.arange(self.start, self.start + self.masses.size, dtype=np.float64)
        return self.step * places

    def log_mgf(self, tilt: float) -> float:
        """Return ln E[e^(tilt x)]."""
        return self._tilt_weights(tilt)[1]

    def moments(self, tilt: float = 0.0) -> tuple[float, float]:
        """Return mean and standard deviation of the tilted law."""
        weights, _ = self._tilt_weights(tilt)
        values = self.values
        mean = float((weights * values).sum())
        return mean, math.sqrt(float((weights * np.square(values - mean)).sum()))

    def tilt_for(self, mean: float) -> float:
        """Return, to a part in a thousand, the tilt at or above 0 that moves the mean there.

        A mean that no tilt reaches gets a tilt that is merely large. Bounds hold at any tilt.
        """
        tilt, low, high = 0.0, 0.0, math.inf
        while tilt < _STEEPEST:
            reached, deviation = self.moments(tilt)
            if reached >= mean:
                if tilt == 0.0:
                    return 0.0
                high = tilt
            else:
                low = tilt
            # Newton, for the variance is the slope of the mean; halving where that leaves the
            # bracket.
            wanted = tilt + (mean - reached) / max(deviation**2, _FLATTEST)
            if abs(wanted - tilt) <= _CLOSE * tilt or high - low <= _CLOSE * tilt:
                return tilt
            # No law needs a tilt that decides within a step, unless none is enough.
            wanted = min(wanted, max(8 * tilt, 1 / self.step))
            if not low < wanted < high:
                wanted = (low + high) / 2 if math.isfinite(high) else 2 * tilt
            tilt = wanted
        return _STEEPEST

    def log_tail(self, count: int, level: float, *, least_tilt: float = 0.0) -> float:
        """Return a bound on ln Pr[sum of ``count`` >= level] (Chernoff); -inf if it cannot be.

        Args:
            count: How many summands.
            level: The level reached or passed.
            least_tilt: A tilt below which the caller's bound does not hold.
        """
        if level > count * self.step * (self.start + self.masses.size - 1) + self.step / 2:
            return -math.inf
        tilt = max(self.tilt_for(level / count), least_tilt)
        return count * self.log_mgf(tilt) - tilt * level

    def sum_of(self, count: int, *, tilt: float, size: int) -> tuple[Floats, float]:
        """Return the tilted law of a sum of ``count`` and the log of what it was divided by.

        Args:
            count: How many summands.
            tilt: The tilt; the sums wanted should be common under it.
            size: How many places the result has.

        Returns:
            The mass of the sum at place ``j`` modulo ``size``. Sums beyond one cycle add to the
            masses of others, so no mass is too small but for rounding; the caller bounds what it
            needs from beyond.
        """
        weights, log_total = self._tilt_weights(tilt)
        places = np.arange(self.start, self.start + weights.size) % size
        cycle = np.bincount(places, weights=weights, minlength=size)
        spectrum = np.fft.rfft(cycle)
        # Most frequencies of a long sum are too weak to count; raising them is most of the work.
        is_heard = np.abs(spectrum) > math.exp(_FAINTEST / count)
        powers = np.zeros_like(spectrum)
        powers[is_heard] = _power(spectrum[is_heard], count)
        return np.maximum(np.fft.irfft(powers, size), 0.0), count * log_total

    def _tilt_weights(self, tilt: float) -> tuple[Floats, float]:
        exponent = tilt * self.values
        top = float(exponent.max())
        weights = self.masses * np.exp(exponent - top)
        total = float(weights.sum())
        return weights / total, top + math.log(total)


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return base ** count by squaring, many times faster than NumPy's complex power."""
    result = np.ones_like(base)
    while count:
        if count & 1:
            result *= base
        count >>= 1
        if count:
            base = base * base
    return result
