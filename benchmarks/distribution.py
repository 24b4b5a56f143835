"""How often do intervals of shares, quantiles, counts and variances hold the truth?

Six made-up fleets (even, skewed, two peaks, three atoms, exponential, narrow), square-wave reports,
at 95 %. Takes about ten minutes of one core.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, Target
from rase import SeededRandom, SquareWave, ValueRange, count, histogram, quantiles, variance
from rase.estimate.estimate import Estimate

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SIZES = (100, 1000, 10_000)
TRIALS = 10
UNIT = ValueRange(0, 1)
BINS = np.linspace(0, 1, 17)
SHARES = (0.1, 0.5, 0.9)

Floats = NDArray[np.float64]


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each epsilon and size how often the intervals of each answer held."""
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for n in SIZES[:1] if quick else SIZES:
            held: dict[str, dict[str, float]] = {}
            for name, readings in fleets(n).items():
                for answer, share in covered(epsilon, readings, 1 if quick else TRIALS).items():
                    held.setdefault(answer, {})[name] = share
            for answer, by_fleet in held.items():
                worst = min(by_fleet, key=lambda name: by_fleet[name])
                yield Row(
                    f"{answer}, 95 % intervals",
                    "the truth",
                    f"epsilon {epsilon:g}, n = {n}",
                    float(np.mean(list(by_fleet.values()))),
                    means="share of intervals that held it",
                    target=Target("at least", 0.92),
                    note=f"worst fleet: {worst}, {by_fleet[worst]:.2f}",
                )


def covered(epsilon: float, readings: Floats, trials: int) -> dict[str, float]:
    """Return the share of intervals that held the truth, by answer."""
    wave = SquareWave(epsilon, UNIT)
    true_shares = np.histogram(readings, BINS)[0] / readings.size
    held: dict[str, list[bool]] = {"histogram": [], "quantiles": [], "count": [], "variance": []}
    for trial in range(1, trials + 1):
        source = SeededRandom(trial)
        reports = wave.randomize(readings, rng=source)
        bins = histogram(reports, randomizer=wave, rng=source)
        reach = 1.96 * np.array(bins.standard_errors)
        held["histogram"] += (np.abs(np.array(bins.shares) - true_shares) <= reach).tolist()
        for share, one in zip(
            SHARES, quantiles(reports, SHARES, randomizer=wave, rng=source), strict=True
        ):
            held["quantiles"].append(_holds(one, float(np.quantile(readings, share))))
        above = count(reports, randomizer=wave, above=0.33, rng=source)
        held["count"].append(_holds(above, float((readings > 0.33).sum())))
        held["variance"].append(_holds(variance(reports, randomizer=wave), float(readings.var())))
    return {answer: float(np.mean(found)) for answer, found in held.items()}


def fleets(n: int) -> dict[str, Floats]:
    """Return the readings of each made-up fleet."""
    even = (np.arange(n) + 0.5) / n
    chance = np.random.default_rng(2026)
    return {
        "even": even,
        "skewed": 1 - np.sqrt(1 - even),
        "two peaks": np.where(even < 0.5, 0.25, 0.75) + 0.07 * (2 * chance.random(n) - 1),
        "three atoms": np.where(even < 0.6, 0.02, np.where(even < 0.8, 0.3, 0.9)),
        "exponential": np.minimum(-0.1 * np.log(1 - even), 1),
        "narrow": np.clip(chance.normal(0.45, 0.03, n), 0, 1),
    }


def _holds(estimate: Estimate, truth: float) -> bool:
    low, high = estimate.interval()
    return low <= truth <= high
