"""How often do 95 % intervals of `auto` hold the truth of made-up fleets?

On the fleets the estimator's numbers were chosen on: some rest or nearly so, some move far. Three
worlds of each, four drawings of the noise in each world, at six epsilons. Takes some minutes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, Target
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.lab.fleet import SyntheticFleet
from rase.laws.registry import randomizer_named
from rase.series.runs import Runs, run_means, runs_of

Floats = NDArray[np.float64]

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
WORLDS, DRAWINGS = range(1, 4), range(4)
_ROW = re.compile(
    r"(?P<name>\w+), epsilon (?P<epsilon>\S+), \d+ worlds; covered (?P<covered>\S+), worlds .+"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fleet: how to make its readings, rounds x devices, and its public range."""

    made: Callable[[int], Floats]
    every_s: int
    low: float
    high: float


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each kind and epsilon how far the share of intervals that hold is from 95 %."""
    for name in list(KINDS)[-1:] if quick else KINDS:
        tables = [KINDS[name].made(world) for world in (WORLDS[:1] if quick else WORLDS)]
        for epsilon in EPSILONS[2:3] if quick else EPSILONS:
            found = [
                followed(KINDS[name], table, epsilon, world)
                for world, table in enumerate(tables, start=1)
            ]
            shares = [float(one.coverage.mean()) for one in found]
            covered = float(np.mean(shares))
            error = float(np.sqrt(np.mean([np.square(one.tracked).mean() for one in found])))
            constant = float(np.sqrt(np.mean([np.square(one.history).mean() for one in found])))
            yield Row(
                "auto, 95 % intervals",
                "95 %",
                f"{name}, epsilon {epsilon:g}, {len(tables)} worlds",
                abs(covered - 0.95),
                "|share of rounds covered - 95 %|",
                target=Target("at most", 0.03),
                note=f"covered {covered:.3f}, worlds {min(shares):.3f} to {max(shares):.3f}; "
                f"RMSE {error:.4g}, constant {constant:.4g}",
            )


def followed(kind: Kind, table: Floats, epsilon: float, world: int) -> Runs:
    """Draw the noise of one world some times and follow its mean."""
    public = Range(kind.low, kind.high)
    mechanism = randomizer_named(
        "auto", epsilon, domain=public, precision=Precision(beta=0.5, rho=0.9)
    )
    readings = table.clip(public.low, public.high)
    reports = np.stack(
        [
            mechanism.randomize(readings.ravel(), rng=SeededRandom(1000 * world + drawing))
            for drawing in DRAWINGS
        ]
    )
    sizes = np.full(len(readings), readings.shape[1])
    return runs_of(
        run_means(reports, sizes, randomizer=mechanism),
        np.arange(len(readings)) * float(kind.every_s),
        truth=readings.mean(axis=1),
        value_range=public,
    )


def appliances(world: int, *, devices: int, days: int, every_s: int, a_home: int = 1) -> Floats:
    """Return the power of appliances, or of homes that have some each."""
    fleet = SyntheticFleet(devices=devices, days=days, seed=world, interval_s=every_s)
    values = np.concatenate([day.value for day in fleet.batches()]).reshape(-1, devices)
    return np.asarray(values.reshape(len(values), -1, a_home).sum(axis=2))


def weather(world: int) -> Floats:
    """Return temperatures of 15 stations: fronts, a daily wave, and what is local."""
    rng, hours = np.random.default_rng([world, 11]), np.arange(1000)
    wave = 3.5 * np.cos(2 * np.pi * (hours - 15) / 24)
    level = rng.uniform(-5, 25) + 5 * wander(rng, 60.0)[:, 0]
    mean = level + wave * (1 + 0.3 * wander(rng, 48.0)[:, 0]) + 0.8 * wander(rng, 5.0)[:, 0]
    return np.asarray(mean[:, None] + 1.5 * rng.normal(size=15) + 0.7 * wander(rng, 6.0, n=15))


def dust(world: int) -> Floats:
    """Return concentrations at 15 stations: as variable as they are large."""
    rng = np.random.default_rng([world, 12])
    mean = np.log(60) + 0.8 * wander(rng, 36.0) + 0.15 * wander(rng, 3.0)
    return np.asarray(np.exp(mean + 0.2 * rng.normal(size=15) + 0.15 * wander(rng, 8.0, n=15)))


def resting(world: int) -> Floats:
    """Return 50 devices that differ for good and hardly move."""
    rng = np.random.default_rng([world, 13])
    level = rng.uniform(20, 60) + 10 * rng.normal(size=50)
    return np.asarray(level + 3 * wander(rng, 4.0, rounds=600, n=50))


def steps(world: int) -> Floats:
    """Return steps of 100 people: none at night."""
    rng, hours = np.random.default_rng([world, 14]), np.arange(600)
    awake = np.clip(np.sin(2 * np.pi * (hours - 7) / 24), 0, None)[:, None]
    return np.asarray(2 * rng.gamma(0.5, 1, (600, 100)) * awake * rng.lognormal(6.5, 0.5, 100))


def jumps(world: int) -> Floats:
    """Return 40 devices whose common level jumps every three days or so."""
    rng = np.random.default_rng([world, 15])
    level = 30 + np.cumsum((rng.random(700) < 1 / 70) * rng.normal(size=700) * 8)
    own = 4 * rng.normal(size=40) + 4 * rng.normal(size=(700, 40))
    return np.asarray(level.clip(5, 95)[:, None] + own)


def shift(world: int) -> Floats:
    """Return appliances that draw three times as much from the middle of the time on."""
    table = appliances(world, devices=64, days=25, every_s=3600)
    table[len(table) // 2 :] *= 3
    return table


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    shares: dict[str, dict[str, str]] = {}
    for row in kept:
        told = _ROW.fullmatch(f"{row['size']}; {row['note']}")
        if told is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        share = f"{100 * float(told['covered']):.1f} %"
        shares.setdefault(told["name"], {})[told["epsilon"]] = share
    budgets = list(next(iter(shares.values())))
    return [
        f"| made-up fleet | {' | '.join(f'ε = {budget}' for budget in budgets)} |",
        f"|---{len(budgets) * '|---'}|",
        *(f"| {name} | {' | '.join(found.values())} |" for name, found in shares.items()),
    ]


def wander(rng: np.random.Generator, lasting: float, *, rounds: int = 1000, n: int = 1) -> Floats:
    """Return n paths of deviation 1 that forget themselves in so many rounds."""
    kept, path = np.exp(-1 / lasting), rng.normal(size=(rounds, n))
    for number in range(1, rounds):
        path[number] = kept * path[number - 1] + np.sqrt(1 - kept**2) * path[number]
    return path


KINDS = {
    "appliances": Kind(lambda w: appliances(w, devices=64, days=25, every_s=3600), 3600, 0, 2800),
    "minutes": Kind(lambda w: appliances(w, devices=12, days=1, every_s=60), 60, 0, 6000),
    "homes": Kind(
        lambda w: appliances(w, devices=800, days=8, every_s=900, a_home=4), 900, 0, 20_000
    ),
    "weather": Kind(weather, 3600, -30, 50),
    "dust": Kind(dust, 3600, 0, 1000),
    "resting": Kind(resting, 3600, 0, 100),
    "steps": Kind(steps, 3600, 0, 10_000),
    "jumps": Kind(jumps, 3600, 0, 100),
    "shift": Kind(shift, 3600, 0, 2800),
}
