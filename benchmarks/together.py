"""Do 95 % intervals of `auto` hold where devices share a cause and move together?

On made-up fleets in a range of 0 to 1: every device has an offset of its own and jitter, and all
follow one mean. Four worlds of each fleet, four drawings of the noise in each
world, 600 rounds, at four epsilons. The error is compared to that of the unbiased mean, which takes
nothing from earlier rounds. Takes some minutes.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Row, Target
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.laws.registry import randomizer_named
from rase.series.runs import Runs, run_means, runs_of

Floats = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0, 4.0)
# Worlds from 501 on served the choice of the estimator's numbers; tests have others again.
WORLDS, DRAWINGS = range(1, 5), range(4)
UNIT = Range(0, 1)
# What is asked of fleets that move together, and of ordinary ones, whose error is far below that of
# the unbiased mean.
LEAST_COVERED, MOST_ERROR = 0.87, 1.05
_ROUNDS, _HOUR_S, _DAY_H = 600, 3600.0, 24.0
_ROW = re.compile(
    r"(?P<name>[\w., -]+), epsilon (?P<epsilon>\S+), \d+ worlds; covered (?P<covered>\S+), "
    r"worlds .+; error / unbiased (?P<error>\S+), .+"
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A made-up fleet.

    Args:
        mean: The common mean by the hour since the beginning and a phase from 0 to 1.
        devices: How many devices there are.
        every_s: The length of a round.
        few: How many report in every other round; None if all report in all.
        own: How far devices differ for good, as a standard deviation.
        jitter: How far each reading is off, likewise.
    """

    mean: Callable[[Floats, float], Floats]
    devices: int
    every_s: float = _HOUR_S
    few: int | None = None
    own: float = 0.03
    jitter: float = 0.02

    def readings(self, world: int, *, rounds: int = _ROUNDS) -> Floats:
        """Return rounds x devices; NaN where a device does not report."""
        rng = np.random.default_rng([world, self.devices])
        hours: Floats = np.arange(rounds, dtype=np.float64) * (self.every_s / _HOUR_S)
        mean = self.mean(hours, float(rng.uniform()))
        table = mean[:, None] + self.own * rng.normal(size=self.devices)
        table = (table + self.jitter * rng.normal(size=table.shape)).clip(0, 1)
        if self.few is not None:
            for row in table[1::2]:
                row[rng.permutation(self.devices)[self.few :]] = math.nan
        return np.asarray(table)


def wave(period_h: float, amplitude: float) -> Callable[[Floats, float], Floats]:
    """Return a sine around 0.3."""

    def mean(hours: Floats, phase: float) -> Floats:
        return np.asarray(0.3 + amplitude * np.sin(2 * math.pi * (hours / period_h + phase)))

    return mean


def square(hours: Floats, phase: float) -> Floats:
    """Return 0.4 and 0.2 in turns of two and a half hours."""
    return np.where((hours / 5 + phase) % 1 < 0.5, 0.4, 0.2)


def office(hours: Floats, phase: float) -> Floats:
    """Return 0.6 from 8 to 18 o'clock and 0.2 at other hours."""
    return np.where((hours % _DAY_H >= 8) & (hours % _DAY_H < 18), 0.6, 0.2)


def drift(hours: Floats, phase: float) -> Floats:
    """Return a mean that goes from 0.2 to 0.7 within 600 hours."""
    return np.asarray(0.2 + 0.5 * hours / _ROUNDS)


def flat(hours: Floats, phase: float) -> Floats:
    """Return 0.3 at all hours."""
    return np.full(hours.shape, 0.3)


TOGETHER: Mapping[str, Fleet] = MappingProxyType(
    {
        "sine of 3.3 h, 50 devices": Fleet(wave(3.3, 0.1), 50),
        "sine of 3.3 h, 1000 devices": Fleet(wave(3.3, 0.1), 1000),
        "tide of 12.42 h": Fleet(wave(12.42, 0.25), 50),
        "square wave of 5 h": Fleet(square, 50),
        "sine of 90 min, by minutes": Fleet(wave(1.5, 0.1), 60, 60.0),
        "office hours": Fleet(office, 100),
        "5 and 200 in turns": Fleet(wave(_DAY_H, 0.1), 200, few=5, own=0.15, jitter=0.05),
    }
)
ORDINARY: Mapping[str, Fleet] = MappingProxyType(
    {
        "daily sine": Fleet(wave(_DAY_H, 0.15), 100),
        "drift": Fleet(drift, 100),
        "flat": Fleet(flat, 50),
    }
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each fleet and epsilon the share of intervals that hold, and the error."""
    fleets = {**TOGETHER, **ORDINARY}
    for name in list(fleets)[-1:] if quick else fleets:
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            worlds = WORLDS[:1] if quick else WORLDS
            found = [followed(fleets[name], epsilon, world) for world in worlds]
            shares = [float(one.coverage.mean()) for one in found]
            covered = float(np.mean(shares))
            error, alone, constant = (
                float(np.sqrt(np.mean([np.square(getattr(one, which)).mean() for one in found])))
                for which in ("tracked", "alone", "history")
            )
            yield Row(
                "auto, 95 % intervals",
                "the truth",
                f"{name}, epsilon {epsilon:g}, {len(found)} worlds",
                covered,
                "share of rounds covered",
                target=Target("at least", LEAST_COVERED),
                note=f"covered {covered:.3f}, worlds {min(shares):.3f} to {max(shares):.3f}; "
                f"error / unbiased {error / alone:.3f}, / constant {error / constant:.3f}",
            )


def followed(
    fleet: Fleet,
    epsilon: float,
    world: int,
    *,
    rounds: int = _ROUNDS,
    first: int = 1,
    drawings: Sequence[int] = DRAWINGS,
) -> Runs:
    """Draw the noise of one world some times and follow its mean from the first round on.

    Args:
        fleet: The fleet.
        epsilon: The budget of a report.
        world: Decides offsets, jitter and phase.
        rounds: How many rounds there are.
        first: The first round that is scored.
        drawings: One drawing of the noise each.
    """
    mechanism = randomizer_named(
        "auto", epsilon, domain=UNIT, precision=Precision(beta=0.5, rho=0.9)
    )
    table = fleet.readings(world, rounds=rounds)
    is_there = ~np.isnan(table)
    reports = np.stack(
        [
            mechanism.randomize(table[is_there], rng=SeededRandom(10_000 * world + drawing))
            for drawing in drawings
        ]
    )
    return runs_of(
        run_means(reports, is_there.sum(axis=1), randomizer=mechanism),
        np.arange(rounds) * fleet.every_s,
        truth=np.nanmean(table, axis=1),
        value_range=UNIT,
        first=first,
    )


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    cells: dict[str, dict[str, str]] = {}
    for row in kept:
        found = _ROW.fullmatch(f"{row['size']}; {row['note']}")
        if found is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        cell = f"{100 * float(found['covered']):.0f} % ({float(found['error']):.2f})"
        cells.setdefault(found["name"], {})[found["epsilon"]] = cell
    budgets = list(next(iter(cells.values())))
    return [
        f"| devices that move together | {' | '.join(f'ε = {budget}' for budget in budgets)} |",
        f"|---{len(budgets) * '|---'}|",
        *(f"| {name} | {' | '.join(found.values())} |" for name, found in cells.items()),
    ]
