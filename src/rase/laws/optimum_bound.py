"""A lower bound on the worst variance from dual prices, in whole numbers.

For prices w >= 0 of variance (adding up to at most 1), mu of the mean and nu of the sum, one of
each for every input x, put g_x(z) = w_x z^2 - mu_x z - nu_x. If for every real z and every pattern
p of ones and e^epsilons the sum of p_x g_x(z) is at least -s, no unbiased epsilon-LDP channel has
a worst variance below the sum of -w_x x^2 + mu_x x + nu_x, less s: weak duality. The least pattern
is p = 1 where g_x is positive and e^epsilon where it is negative, so one function of z decides.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from operator import truediv
from typing import NamedTuple

from rase.kernels.fixed import FIXED_ONE, decay_powers
from rase.laws.programme import PRICE_UNIT

__all__ = ["lower_bound"]

# Places where the pattern changes are rounded to this unit; any places give a valid bound.
_GRID = 2**50


class _Price(NamedTuple):
    """g(z) = square z^2 - mean z - whole for one input."""

    square: Fraction
    mean: Fraction
    whole: Fraction

    def at(self, z: Fraction) -> Fraction:
        return (self.square * z - self.mean) * z - self.whole

    def lowest(self, start: Fraction, end: Fraction) -> Fraction:
        """Return the smallest value between two places; the square must not be 0."""
        vertex = self.mean / (2 * self.square)
        return self.at(min(max(vertex, start), end))


def lower_bound(epsilon: float, prices: Sequence[tuple[int, int, int]]) -> float:
    """Return a worst variance that no unbiased epsilon-LDP channel on the range goes below.

    Computed with fractions for all real outputs z, and rounded down. It holds for readings
    anywhere in the range, because the inputs it looks at are some of them.

    Args:
        epsilon: The budget of a report.
        prices: For each of the inputs, evenly spread over the range, its prices (w, mu, nu).

    Returns:
        The bound in squared widths of the range.

    Raises:
        ValueError: If the prices of variance are negative or add up to more than one.

    Example:
        >>> lower_bound(1.0, [(5 * 10**11, 0, 0), (5 * 10**11, 0, 0)])
        -0.25
    """
    exact = [_Price(*(Fraction(part, PRICE_UNIT) for part in triple)) for triple in prices]
    if any(price.square < 0 for price in exact) or sum(price.square for price in exact) > 1:
        raise ValueError("prices of variance must not be negative nor add up to more than one.")
    # A factor at least e^epsilon: more channels, hence a lower bound that is valid all the more.
    factor = Fraction(-(-FIXED_ONE * _GRID // decay_powers(epsilon, 2)[1]), _GRID)
    last = len(exact) - 1
    value = sum(
        (-price.square * x * x + price.mean * x + price.whole)
        for price, x in ((price, Fraction(2 * j - last, 2 * last)) for j, price in enumerate(exact))
    )
    mirrored = [price._replace(mean=-price.mean) for price in exact]
    slack = min(_least(exact, factor), _least(mirrored, factor), Fraction(0))
    bound = value + slack
    nearest = float(bound)
    return nearest if Fraction(nearest) <= bound else math.nextafter(nearest, -math.inf)


def _least(prices: list[_Price], factor: Fraction) -> Fraction:
    """Return a lower bound of the least sum over all z >= 0."""
    places = sorted({Fraction(0), *_changes(prices, float(factor))})
    least = _beyond(prices, factor, places[-1])
    # Prices are whole numbers of one unit and places, also those halfway, of another: what is done
    # for every price in every interval is done with whole numbers.
    unit, fine = PRICE_UNIT * (2 * _GRID) ** 2, 2 * _GRID
    scaled = [
        (int(square * PRICE_UNIT), int(mean * PRICE_UNIT) * fine, int(whole * PRICE_UNIT) * fine**2)
        for square, mean, whole in prices
    ]
    for start, end in pairwise(places):
        left, right = int(start * fine), int(end * fine)
        middle = (left + right) // 2
        # The pattern is right at the middle; where it is wrong towards the ends, by rounding of
        # the places, the sum is smaller by what those inputs are off.
        wrong = 0
        above, below = [0, 0, 0], [0, 0, 0]
        for square, mean, whole in scaled:
            at_left = (square * left - mean) * left - whole
            at_right = (square * right - mean) * right - whole
            if (square * middle - mean) * middle < whole:
                below = [below[0] + square, below[1] + mean, below[2] + whole]
                wrong += max(at_left, at_right, 0)
            else:
                above = [above[0] + square, above[1] + mean, above[2] + whole]
                lowest = min(at_left, at_right)
                if 2 * square * left < mean < 2 * square * right:
                    # At the vertex, rounded down.
                    lowest = min(lowest, -(mean * mean) // (4 * square) - whole)
                wrong -= min(lowest, 0)
        sums = (one + factor * other for one, other in zip(above, below, strict=True))
        total = _Price(*map(truediv, sums, (PRICE_UNIT, PRICE_UNIT * fine, unit)))
        least = min(least, total.lowest(start, end) - (factor - 1) * Fraction(wrong, unit))
    return least


def _beyond(prices: list[_Price], factor: Fraction, start: Fraction) -> Fraction:
    """Return the least sum from the last change of pattern on, where it is one parabola."""
    total = _Price(Fraction(0), Fraction(0), Fraction(0))
    for price in prices:
        slope = 2 * price.square * start - price.mean
        weight = Fraction(1) if price.at(start) >= 0 and slope >= 0 else factor
        if weight > 1 and not (price.square == 0 and price.at(start) <= 0 and slope <= 0):
            raise ValueError("prices must settle: the last change of pattern was not found.")
        total = _Price(*(a + weight * b for a, b in zip(total, price, strict=True)))
    return total.at(start)


def _changes(prices: list[_Price], factor: float) -> Iterator[Fraction]:
    """Yield the approximate places where prices change sign, and one beyond all of them."""
    whole_square = float(sum(price.square for price in prices))
    if not whole_square:
        raise ValueError("prices of variance must not all be 0: nothing would be bounded.")
    # From here on the sum grows, whatever the pattern.
    reach = 1 + factor * sum(abs(float(price.mean)) for price in prices) / (2 * whole_square)
    for price in prices:
        square, mean, whole = (float(part) for part in price)
        roots: list[float] = []
        if square > 0:
            inside = mean * mean + 4 * square * whole
            if inside >= 0:
                root = math.sqrt(inside)
                roots = [(mean - root) / (2 * square), (mean + root) / (2 * square)]
            reach = max(reach, mean / (2 * square))
        elif mean:
            roots = [-whole / mean]
        for root in roots:
            if root > 0:
                reach = max(reach, root)
                yield Fraction(round(root * _GRID), _GRID)
    yield Fraction(math.ceil(2 * reach))
