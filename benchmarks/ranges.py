"""How near does range feedback come to the best fixed range, from one ten times too wide?

On the five slices of measured data of `rase.lab.accuracy`, 20 drawings of the noise each: the error
from the 48th to the 336th round, against that of the best fixed range chosen with knowledge of all
readings. "Ten times" is of what holds that range and nine tenths of the readings: with few devices
and a small epsilon the best range is hardly more than a constant. Needs the folder of RASE_DATA;
takes about ten minutes of one core for each epsilon.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.harness import PeerMissing, Row, Target
from rase.errors import DataError
from rase.lab.accuracy import SETS
from rase.lab.panel import Panel
from rase.lab.ranging import best_range, follow_feedback

EPSILONS = (1.0, 4.0)
SEEDS = range(1, 21)
ROUNDS = 336
# Quantities that cannot be negative begin at 0; temperature has no such floor.
FLOORS = {name: None if "temperature" in name else 0.0 for name in SETS}


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice and epsilon how much larger the error is than with the best range."""
    for epsilon in EPSILONS[:1] if quick else EPSILONS:
        for name in list(SETS)[:1] if quick else SETS:
            try:
                panel = SETS[name].panel()
            except DataError as error:
                raise PeerMissing(str(error)) from error
            yield row_of(name, panel, epsilon=epsilon, seeds=SEEDS[:1] if quick else SEEDS)


def row_of(name: str, panel: Panel, *, epsilon: float, seeds: range) -> Row:
    """Measure one slice at one epsilon."""
    best = best_range(panel, epsilon=epsilon, rounds=ROUNDS)
    start = best.widened(10, floor=FLOORS[name])
    found = [
        follow_feedback(panel, start, epsilon=epsilon, rounds=ROUNDS, seed=seed) for seed in seeds
    ]
    errors = [one.rmse for one in found]
    ratio = float(np.mean(errors)) / best.rmse
    return Row(
        "range feedback",
        "best fixed range, with knowledge of the data",
        f"{name}, epsilon {epsilon:g}, {len(found)} seeds",
        ratio,
        means="our RMSE / its RMSE",
        target=Target("at most", 1.3),
        note=f"best range {best.low:.4g} to {best.high:.4g} (RMSE {best.rmse:.3g}), begun with "
        f"{start.low:.4g} to {start.high:.4g}; single seeds {min(errors) / best.rmse:.2f} to "
        f"{max(errors) / best.rmse:.2f}",
    )
