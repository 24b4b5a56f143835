"""How often do intervals of shares, quantiles, counts and variances hold the truth?

Square-wave reports at 95 %. The numbers behind the intervals were chosen on six made-up fleets, so
what counts is measured on others: eight made-up ones, and readings of the five measured slices
where the folder of RASE_DATA has them. Takes about five minutes of one core.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, Target
from rase import Range, SeededRandom, SquareWave, count, histogram, quantiles, variance
from rase.counts.estimate import Estimate
from rase.errors import DataError
from rase.lab.accuracy import SETS

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SIZES = (100, 1000, 10_000)
TRIALS = 10
# An interval of the variance needs no fit, so there may be more of them.
CHEAP = 15
UNIT = Range(0, 1)
BINS = np.linspace(0, 1, 17)
SHARES = (0.1, 0.5, 0.9)

Floats = NDArray[np.float64]


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each epsilon and size how often the intervals of each answer held."""
    trials = 1 if quick else TRIALS
    slices = {} if quick else measured()
    for epsilon in EPSILONS[1:2] if quick else EPSILONS:
        for n in SIZES[:1] if quick else SIZES:
            known = held(epsilon, chosen_on(n), trials)
            others = held(epsilon, {**others_of(n), **drawn(slices, n)}, trials)
            for answer, by_fleet in others.items():
                worst = min(by_fleet, key=lambda name: by_fleet[name])
                before = known[answer]
                least = min(before, key=lambda name: before[name])
                yield Row(
                    f"{answer}, 95 % intervals",
                    "the truth",
                    f"epsilon {epsilon:g}, n = {n}, {len(by_fleet)} fleets",
                    float(np.mean(list(by_fleet.values()))),
                    means="share of intervals that held it",
                    target=Target("at least", 0.92),
                    note=f"worst fleet: {worst}, {by_fleet[worst]:.2f}; fleets it was chosen on: "
                    f"{np.mean(list(before.values())):.3f}, worst {least}, {before[least]:.2f}",
                )


def held(epsilon: float, fleets: dict[str, Floats], trials: int) -> dict[str, dict[str, float]]:
    """Return the share of intervals that held the truth, by answer and fleet."""
    found: dict[str, dict[str, float]] = {}
    for name, readings in fleets.items():
        for answer, share in covered(epsilon, readings, trials, fleet=name).items():
            found.setdefault(answer, {})[name] = share
    return found


def covered(epsilon: float, readings: Floats, trials: int, *, fleet: str) -> dict[str, float]:
    """Return the share of intervals that held the truth, by answer."""
    wave = SquareWave(epsilon, UNIT)
    true_shares = np.histogram(readings, BINS)[0] / readings.size
    found: dict[str, list[bool]] = {"histogram": [], "quantiles": [], "count": [], "variance": []}
    for trial in range(1, trials + 1):
        source = SeededRandom(trial).child(fleet)
        reports = wave.randomize(readings, rng=source)
        bins = histogram(reports, randomizer=wave, rng=source)
        reach = 1.96 * np.array(bins.standard_errors)
        found["histogram"] += (np.abs(np.array(bins.shares) - true_shares) <= reach).tolist()
        for share, one in zip(
            SHARES, quantiles(reports, SHARES, randomizer=wave, rng=source), strict=True
        ):
            found["quantiles"].append(_holds(one, float(np.quantile(readings, share))))
        above = count(reports, randomizer=wave, above=0.33, rng=source)
        found["count"].append(_holds(above, float((readings > 0.33).sum())))
    for trial in range(1, CHEAP * trials + 1):
        reports = wave.randomize(readings, rng=SeededRandom(-trial).child(fleet))
        found["variance"].append(_holds(variance(reports, randomizer=wave), float(readings.var())))
    return {answer: float(np.mean(one)) for answer, one in found.items()}


def chosen_on(n: int) -> dict[str, Floats]:
    """Return the readings of the made-up fleets that the intervals' numbers were chosen on."""
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


def others_of(n: int) -> dict[str, Floats]:
    """Return the readings of made-up fleets of other shapes."""
    even = (np.arange(n) + 0.5) / n
    chance = np.random.default_rng(2027)
    on = chance.random(n) < 0.3
    return {
        "both ends": np.sin(np.pi * even / 2) ** 2,
        "triangle": chance.triangular(0, 0.5, 1, n),
        "a box": 0.2 + 0.4 * even,
        "four atoms": np.select([even < 0.1, even < 0.5, even < 0.8], [0.1, 0.35, 0.6], 0.95),
        "mostly off": np.where(on, chance.normal(0.5, 0.1, n), 0.0).clip(0, 1),
        "lognormal": chance.lognormal(-2.5, 1, n).clip(0, 1),
        "from above": (1 - 0.08 * chance.gamma(2, size=n)).clip(0, 1),
        "one point": np.full(n, 0.62),
    }


def measured() -> dict[str, Floats]:
    """Return the readings of the measured slices, as shares of their public ranges."""
    found = {}
    for name, one in SETS.items():
        try:
            values = one.panel().values
        except DataError:
            continue
        readings = values[~np.isnan(values)]
        found[name] = ((readings - one.low) / (one.high - one.low)).clip(0, 1)
    return found


def drawn(slices: dict[str, Floats], n: int) -> dict[str, Floats]:
    """Return n readings of each slice."""
    chance = np.random.default_rng(2028)
    return {name: chance.choice(readings, n) for name, readings in slices.items()}


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    lines = [
        "| ε, n | shares of 16 bins | quantiles .1 .5 .9 | counts | variance |",
        "|---|---|---|---|---|",
    ]
    cells: dict[str, list[str]] = {}
    for row in kept:
        worst = float(row["note"].split(";")[0].rsplit(" ", 1)[1])
        setting = row["size"].removeprefix("epsilon ").rsplit(",", 1)[0].replace("n = ", "")
        cells.setdefault(setting, []).append(f"{100 * row['ratio']:.0f} % ({100 * worst:.0f})")
    lines += [f"| {setting} | {' | '.join(found)} |" for setting, found in cells.items()]
    return lines


def _holds(estimate: Estimate, truth: float) -> bool:
    low, high = estimate.interval()
    return low <= truth <= high
