"""How much less error has a sum shared between two servers, over many rounds at one promise?

Simulated, not modelled: each of n devices splits its reading into two random shares modulo 2^64,
each server adds up its shares and noise of its own, and the two sums are joined. Both servers need
noise enough for the whole promise, because each knows its own. Ours are shuffled reports, drawn and
decoded, of a channel fitted to the same (1, 1e-6) for all reports of a device in the span. There
are no proofs of range in these shares; the last rows show what one device that lies does without.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row
from rase import Range, SeededRandom
from rase.accounting.accountant.calibrate import calibrate
from rase.laws.randomizer import RangeRandomizer

__all__ = ["gaussian_deviation", "rows", "shared_mean"]

Floats = NDArray[np.float64]
PUBLIC, STEPS = Range(0, 1), 1 << 16
EPSILON, DELTA = 1.0, 1e-6
SPANS = (("round", 1), ("day of 24", 24), ("month of 720", 720))
ERRORS = "our root mean square error / theirs"


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the errors of single rounds, by span and number of devices, and what a liar does."""
    generator = np.random.default_rng(2026)
    for n, trials in ((1000, 100),) if quick else ((1000, 4000), (10_000, 2000), (100_000, 1000)):
        readings = generator.random(n)
        truth = float(readings.mean())
        for span, reports in SPANS:
            law = calibrate(PUBLIC, shuffled_epsilon=EPSILON, delta=DELTA, n=n, rounds=reports)
            rng = SeededRandom(f"{n} devices, {span}")
            ours = _root_mean_square(partial(_shuffled, law, readings, rng), truth, trials)
            share = partial(shared_mean, readings, _noise(reports, generator), generator)
            shared, trusted = (
                _root_mean_square(partial(share, servers=servers), truth, trials)
                for servers in (2, 1)
            )
            left = f"{reports * law.budgets[0]:.3g}"
            for against, theirs in (
                ("sum shared by two servers, noise of both", shared),
                ("sum shared by two servers, noise of one of them (who is trusted)", trusted),
            ):
                yield Row(
                    f"mean of one round, ({EPSILON:g}, {DELTA:g}) for a {span}",
                    against,
                    f"n = {n}, {trials} rounds",
                    ours / theirs,
                    means=ERRORS,
                    note=(
                        f"{100 * ours:.3g} % of the range against {100 * theirs:.3g} %; if both "
                        f"servers work together, epsilon {left} against none."
                    ),
                )
        yield _liar(readings, generator)


def shared_mean(
    readings: Floats,
    noise: Callable[[], float],
    generator: np.random.Generator,
    *,
    servers: int = 2,
) -> float:
    """Return the mean that two servers learn together from shares of readings from 0 to 1.

    Args:
        readings: One for each device.
        noise: Draws what a server adds to its sum, in widths of the range.
        generator: Where shares come from.
        servers: How many of the two add noise.

    Example:
        >>> exact = shared_mean(np.array([0.25, 0.75]), lambda: 0.0, np.random.default_rng(1))
        >>> round(exact, 4)
        0.5
    """
    places = np.rint(readings * STEPS).astype(np.int64).view(np.uint64)
    first = generator.integers(0, 2**64, places.size, dtype=np.uint64)
    added = [round(noise() * STEPS) if server < servers else 0 for server in (0, 1)]
    sums = [
        int(shares.sum(dtype=np.uint64)) + one
        for shares, one in zip((first, places - first), added, strict=True)
    ]
    total = (sum(sums) + 2**63) % 2**64 - 2**63
    return total / STEPS / readings.size


def gaussian_deviation(epsilon: float, delta: float) -> float:
    """Return the least deviation of Gaussian noise for a sensitivity of 1 (Balle and Wang 2018).

    Example:
        >>> round(gaussian_deviation(1.0, 1e-6), 2)
        4.22
    """

    def excess(mu: float) -> float:
        below, above = (
            math.erfc((epsilon / mu + side * mu / 2) / math.sqrt(2)) / 2 for side in (-1, 1)
        )
        return below - math.exp(epsilon) * above - delta

    low, high = 1e-3, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return 1 / low


def _noise(reports: int, generator: np.random.Generator) -> Callable[[], float]:
    """Return the better of both noises for so many sums: Laplace by epsilon, or Gaussian."""
    gaussian = math.sqrt(reports) * gaussian_deviation(EPSILON, DELTA)
    laplace = reports / EPSILON
    if math.sqrt(2) * laplace < gaussian:
        return lambda: float(generator.laplace(0.0, laplace))
    return lambda: float(generator.normal(0.0, gaussian))


def _shuffled(law: RangeRandomizer, readings: Floats, rng: SeededRandom) -> float:
    """Return the mean of one round of shuffled reports; the order plays no part in it."""
    decoded = law.law(law.budgets[0]).decode(law.draw_many(readings, rng=rng))
    return float(decoded.mean()) / law.domain.steps


def _root_mean_square(measure: Callable[[], float], truth: float, trials: int) -> float:
    return math.sqrt(sum((measure() - truth) ** 2 for _ in range(trials)) / trials)


def _liar(readings: Floats, generator: np.random.Generator) -> Row:
    """Let the first device share a million widths instead of its reading."""
    lying = readings.copy()
    lying[0] = 1e6
    moved = shared_mean(lying, lambda: 0.0, generator) - float(readings.mean())
    law = calibrate(PUBLIC, shuffled_epsilon=EPSILON, delta=DELTA, n=readings.size)
    low, high = law.decoded_reach
    most = (high - low) / readings.size
    return Row(
        "one device that lies",
        "sum shared without proofs of range",
        f"n = {readings.size}",
        most / moved,
        means="most it can move our mean / what it moved theirs",
        note=f"{most:.3g} widths of the range against {moved:.3g}.",
    )
