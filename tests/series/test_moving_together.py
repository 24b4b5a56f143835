"""Intervals of `tracked` on made-up fleets whose devices share a cause and move together."""

import numpy as np
import pytest
from benchmarks.together import EPSILONS, ORDINARY, TOGETHER, UNIT, Fleet, followed

from rase.domain import Precision
from rase.kernels.words import SeededRandom
from rase.laws.registry import randomizer_named
from rase.series.runs import Runs, run_means, runs_of

# Worlds that served neither the choice of the estimator's numbers nor its benchmark.
WORLDS = (901, 902)
MORE_WORLDS = (911, 912, 913, 914)
# From here on most of what moves has been seen; what noise hides before is another question.
ROUNDS, FIRST, DRAWINGS = 300, 100, 2


def found_in(fleet: Fleet, epsilon: float) -> list[Runs]:
    """Return two drawings each of two worlds of 300 rounds, all followed at once."""
    mechanism = randomizer_named(
        "auto", epsilon, domain=UNIT, precision=Precision(beta=0.5, rho=0.9)
    )
    tables = [fleet.readings(world, rounds=ROUNDS) for world in WORLDS]
    reports = [
        mechanism.randomize(table[~np.isnan(table)], rng=SeededRandom(10_000 * world + drawing))
        for world, table in zip(WORLDS, tables, strict=True)
        for drawing in range(DRAWINGS)
    ]
    # As many report in a round of any world; who does so differs.
    sizes = (~np.isnan(tables[0])).sum(axis=1)
    means = run_means(np.stack(reports), sizes, randomizer=mechanism)
    truth = np.repeat([np.nanmean(table, axis=1) for table in tables], DRAWINGS, axis=0)
    times_s = np.arange(ROUNDS) * fleet.every_s
    return [runs_of(means, times_s, truth=truth, value_range=UNIT, first=FIRST)]


def covered(runs: list[Runs]) -> float:
    """Return the share of intervals that held."""
    return float(np.mean([one.coverage for one in runs]))


def against_unbiased(runs: list[Runs]) -> float:
    """Return the error as a share of that of the unbiased mean."""
    tracked, alone = (
        np.mean([np.square(getattr(r, k)) for r in runs]) for k in ("tracked", "alone")
    )
    return float(np.sqrt(tracked / alone))


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("sine of 3.3 h, 50 devices", 0.83),
        ("sine of 3.3 h, 1000 devices", 0.90),
        ("tide of 12.42 h", 0.91),
        ("square wave of 5 h", 0.90),
        ("sine of 90 min, by minutes", 0.93),
        ("office hours", 0.90),
        ("5 and 200 in turns", 0.91),
    ],
)
def test_intervals_hold_where_devices_move_together(name: str, least: float) -> None:
    """At epsilon 1, 2 and 4 on average, and with no more error than the unbiased mean has.

    Six other worlds of each fleet gave means from which these floors lie five or more standard
    errors away; by Student's law of so few worlds a false alarm has a chance below 1 in 200 should
    the seeds change, and none while they stay.
    """
    found = [found_in(TOGETHER[name], epsilon) for epsilon in (1.0, 2.0, 4.0)]
    assert np.mean([covered(runs) for runs in found]) >= least
    assert max(against_unbiased(runs) for runs in found) <= 1.06


@pytest.mark.parametrize(("name", "most"), [("daily sine", 0.38), ("drift", 0.43), ("flat", 0.2)])
def test_ordinary_fleets_keep_what_earlier_rounds_are_worth(name: str, most: float) -> None:
    """Errors stay far below those of the unbiased mean, and intervals hold.

    Six other worlds gave 0.30, 0.35 and 0.12 at epsilon 1, 2 and 4 on average, with standard errors
    of 0.01; following every motion that noise might hide would give 0.5 and more.
    """
    found = [found_in(ORDINARY[name], epsilon) for epsilon in (1.0, 2.0, 4.0)]
    assert np.mean([against_unbiased(runs) for runs in found]) <= most
    assert np.mean([covered(runs) for runs in found]) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [*TOGETHER, *ORDINARY])
def test_intervals_hold_from_the_first_round_on(name: str, epsilon: float) -> None:
    """Over 600 rounds, the first included: in 88 % and more, up to epsilon 1 in 80 % and more.

    Four worlds, four drawings each; other worlds gave 92 and 87 % or more. Single worlds of 300
    rounds differed by 1 to 2 points from epsilon 2 on and by up to 8 below; a mean of four longer
    ones is off by half of that at most. So floors lie two standard errors below the worst cell and
    more below all others: a false alarm in one cell of 40 has a chance of a few in 100 should the
    seeds change, and none while they stay.
    """
    fleet = {**TOGETHER, **ORDINARY}[name]
    runs = [followed(fleet, epsilon, world) for world in MORE_WORLDS]
    assert covered(runs) >= (0.80 if epsilon <= 1 else 0.88)
    assert against_unbiased(runs) <= 1.06
