"""Do intervals of all aggregates hold the truth, with ten reports and at both ends of epsilon?

Four made-up fleets in a range of 0 to 1; fleets of states are their quarters. 95 % intervals of
each aggregate at n = 10 and 100 and epsilon 0.1, 1 and 12: 92 % or more is asked of each, and what
holds more than it says is conservative; what reports cannot show is refused and has no row. Totals
are of a fleet of which each device reports with a chance of a half. Takes some minutes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, Target
from rase import Categories, Range, SeededRandom, SquareWave, count, histogram, quantiles, variance
from rase.counts.above import quantile as quantile_between
from rase.counts.above import shares_above
from rase.counts.aggregates import total
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.mean import unbiased_mean
from rase.counts.regional import block_mixing, regional_means
from rase.counts.shares import shares
from rase.errors import NotIdentifiable
from rase.laws.optimal import Optimal
from rase.laws.registry import auto
from rase.laws.response import CategoryRandomizer
from rase.shuffle.mallows import Mallows

EPSILONS = (0.1, 1.0, 12.0)
SIZES = (10, 100)
TRIALS, FITS = 100, 8
UNIT = Range(0, 1)
QUARTERS = Categories(("first", "second", "third", "fourth"))
EDGES = np.linspace(0, 1, 5)
_BOUND, _CHANCE, _THETA = 0.33, 0.5, 0.5

Floats = NDArray[np.float64]


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each aggregate, epsilon and size how often its intervals held the truth."""
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for n in SIZES[:1] if quick else SIZES:
            found: dict[str, dict[str, float]] = {}
            for name, readings in fleets(n).items():
                for aggregate, share in covered(epsilon, readings, quick=quick).items():
                    found.setdefault(aggregate, {})[name] = share
            for aggregate, by_fleet in found.items():
                worst = min(by_fleet, key=lambda name: by_fleet[name])
                yield Row(
                    f"{aggregate}, 95 % intervals",
                    "the truth",
                    f"epsilon {epsilon:g}, n = {n}, {len(by_fleet)} fleets",
                    float(np.mean(list(by_fleet.values()))),
                    means="share of intervals that held it",
                    target=Target("at least", 0.92),
                    note=f"worst fleet: {worst}, {by_fleet[worst]:.3f}",
                )


def fleets(n: int) -> dict[str, Floats]:
    """Return the readings of some made-up fleets."""
    even = (np.arange(n) + 0.5) / n
    return {
        "even": even,
        "skewed": 1 - np.sqrt(1 - even),
        "two peaks": np.where(even < 0.5, 0.2, 0.8) + 0.1 * (even - 0.5),
        "narrow": 0.62 + 0.02 * (even - 0.5),
    }


def covered(epsilon: float, readings: Floats, *, quick: bool) -> dict[str, float]:
    """Return the share of intervals that held the truth, by aggregate."""
    cheap = {
        "mean": _mean,
        "total, half report": _total,
        "variance, square wave": lambda *given: _variance(SquareWave(given[0], UNIT), *given),
        "variance, optimal": lambda *given: _variance(Optimal(given[0], UNIT), *given),
        "shares of states": _shares,
        "shares above bounds": _above,
        "median between bounds": _median_between,
        "means of two regions": _regions,
    }
    fitted = {"histogram": _histogram, "median": _median, "count above a bound": _count}
    found = {}
    for asked, trials in ((cheap, 2 if quick else TRIALS), (fitted, 1 if quick else FITS)):
        for name, ask in asked.items():
            # Bits carry no more than the mean, and an even shuffle nothing of regions.
            with suppress(NotIdentifiable):
                found[name] = _share(ask, epsilon, readings, trials)
    return found


_Ask = Callable[[float, Floats, SeededRandom], list[bool]]


def _share(ask: _Ask, epsilon: float, readings: Floats, trials: int) -> float:
    seeds = range(1, trials + 1)
    return float(
        np.mean([held for seed in seeds for held in ask(epsilon, readings, SeededRandom(seed))])
    )


def _mean(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    mechanism = auto(epsilon, UNIT)
    reports = mechanism.randomize(readings, rng=rng)
    return [_holds(unbiased_mean(reports, randomizer=mechanism), float(readings.mean()))]


def _total(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    mechanism = auto(epsilon, UNIT)
    # Twice as many devices as reports are expected of.
    fleet = np.tile(readings, 2)
    chance = np.random.default_rng(int(rng.seed))
    there = fleet[chance.random(fleet.size) < _CHANCE]
    if not there.size:
        return []
    reports = mechanism.randomize(there, rng=rng)
    found = total(reports, randomizer=mechanism, participation=_CHANCE)
    return [_holds(found, float(fleet.sum()))]


def _variance(
    mechanism: SquareWave | Optimal, epsilon: float, readings: Floats, rng: SeededRandom
) -> list[bool]:
    reports = mechanism.randomize(readings, rng=rng)
    return [_holds(variance(reports, randomizer=mechanism), float(readings.var()))]


def _votes(epsilon: float, readings: Floats, rng: SeededRandom) -> tuple[Counts, Any, Floats]:
    """Return reports of quarters, what they come from, and the true shares."""
    mechanism = auto(epsilon, QUARTERS)
    if not isinstance(mechanism, CategoryRandomizer):
        raise TypeError(f"the best mechanism for states must be one of theirs, got {mechanism!r}.")
    quarters = np.minimum((4 * readings).astype(int), 3)
    places = mechanism.draw_names([QUARTERS.names[one] for one in quarters], rng=rng)
    return Counts.of(places), mechanism, np.bincount(quarters, minlength=4) / quarters.size


def _shares(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    counts, mechanism, true = _votes(epsilon, readings, rng)
    found = shares(counts, randomizer=mechanism).values()
    return [_holds(one, share) for one, share in zip(found, true.tolist(), strict=True)]


def _above(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    counts, mechanism, true = _votes(epsilon, readings, rng)
    above = 1 - np.cumsum(true)[:-1]
    found = shares_above(counts, randomizer=mechanism)
    return [_holds(one, share) for one, share in zip(found, above.tolist(), strict=True)]


def _median_between(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    counts, mechanism, _ = _votes(epsilon, readings, rng)
    above = shares_above(counts, randomizer=mechanism)
    low, high = quantile_between(EDGES[1:-1].tolist(), above, 0.5)
    median = float(np.quantile(readings, 0.5))
    return [(low is None or low <= median) and (high is None or median <= high)]


def _regions(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    mechanism, law = auto(epsilon, UNIT), Mallows(readings.size, _THETA)
    reports = mechanism.randomize(readings, rng=rng)[law.sample(rng=rng)]
    mixing = block_mixing(law.marginals(), 2)
    found = regional_means(reports, randomizer=mechanism, mixing=mixing)
    parts = np.array_split(readings, 2)
    return [_holds(one, float(part.mean())) for one, part in zip(found, parts, strict=True)]


def _histogram(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    wave = SquareWave(epsilon, UNIT)
    reports = wave.randomize(readings, rng=rng)
    found = histogram(reports, randomizer=wave, edges=EDGES, rng=rng)
    true = np.histogram(readings, EDGES)[0] / readings.size
    return [low <= one <= high for (low, high), one in zip(found.intervals(), true, strict=True)]


def _median(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    wave = SquareWave(epsilon, UNIT)
    reports = wave.randomize(readings, rng=rng)
    (found,) = quantiles(reports, [0.5], randomizer=wave, rng=rng)
    return [_holds(found, float(np.quantile(readings, 0.5)))]


def _count(epsilon: float, readings: Floats, rng: SeededRandom) -> list[bool]:
    wave = SquareWave(epsilon, UNIT)
    reports = wave.randomize(readings, rng=rng)
    found = count(reports, randomizer=wave, above=_BOUND, rng=rng)
    return [_holds(found, float((readings > _BOUND).sum()))]


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    cells: dict[str, dict[str, str]] = {}
    for row in kept:
        setting = row["size"].removeprefix("epsilon ").rsplit(", ", 1)[0]
        name = row["what"].removesuffix(", 95 % intervals")
        worst = float(row["note"].rsplit(", ", 1)[1])
        cell = f"{100 * row['ratio']:.0f} % ({100 * worst:.0f})"
        cells.setdefault(name, {})[setting] = cell
    settings = max((list(row) for row in cells.values()), key=len)
    heads = [f"ε = {one.replace('n = ', '')}" for one in settings]
    return [
        f"| aggregate | {' | '.join(heads)} |",
        f"|---{len(settings) * '|---'}|",
        *(
            f"| {name} | {' | '.join(found.get(one, 'refused') for one in settings)} |"
            for name, found in cells.items()
        ),
    ]


def _holds(estimate: Estimate, truth: float) -> bool:
    low, high = estimate.interval()
    # What is nothing but rounding is no miss.
    return low - 1e-9 <= truth <= high + 1e-9 and not math.isnan(low)
