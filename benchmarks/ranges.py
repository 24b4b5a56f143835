"""How near does range feedback come to the best fixed range, from one ten times too wide?

On the five slices of measured data of `rase.lab.accuracy`, 20 drawings of the noise at epsilon 1
and 8 at 0.5 and 2: the error from the 48th to the 336th round, against that of the best fixed range
chosen with knowledge of all readings. "Ten times" is of what holds that range and nine tenths of
the readings: with few devices and a small epsilon the best range is hardly more than a constant.
Needs the folder of RASE_DATA; takes about seven minutes of one core.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import PeerMissing, Row, Target
from rase.errors import DataError
from rase.lab.accuracy import SETS
from rase.lab.panel import Panel
from rase.lab.ranging import best_range, follow_feedback

# By epsilon, how often the noise is drawn.
DRAWINGS = {1.0: 20, 0.5: 8, 2.0: 8}
ROUNDS = 336
# Quantities that cannot be negative begin at 0; temperature has no such floor.
FLOORS = {name: None if "temperature" in name else 0.0 for name in SETS}
_ROW = re.compile(
    r"(?P<name>.+), epsilon (?P<epsilon>\S+), \d+ seeds; best range (?P<best>.+) "
    r"\(RMSE (?P<rmse>.+)\), begun with (?P<start>.+); single seeds (?P<singles>.+)"
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice and epsilon how much larger the error is than with the best range."""
    for epsilon in list(DRAWINGS)[:1] if quick else DRAWINGS:
        seeds = range(1, 2 if quick else 1 + DRAWINGS[epsilon])
        for name in list(SETS)[:1] if quick else SETS:
            try:
                panel = SETS[name].panel()
            except DataError as error:
                raise PeerMissing(str(error)) from error
            yield row_of(name, panel, epsilon=epsilon, seeds=seeds)


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
        f"{start.low:.5g} to {start.high:.5g}; single seeds {min(errors) / best.rmse:.1f} to "
        f"{max(errors) / best.rmse:.1f}",
    )


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    lines = [
        "| data | ε | error / best | single drawings | best range | its error | begun with |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in kept:
        told = _ROW.fullmatch(f"{row['size']}; {row['note']}")
        if told is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        lines.append(
            f"| {told['name']} | {told['epsilon']} | {row['ratio']:.2f} | {told['singles']} | "
            f"{told['best']} | {told['rmse']} | {told['start']} |"
        )
    return lines
