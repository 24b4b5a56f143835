"""How near does range feedback come to the best fixed range, from one ten times too wide?

On the five slices of measured data of `rase.lab.accuracy`: the error from the 48th to the 336th
round, against that of the best fixed range chosen with knowledge of all readings. At epsilon 1 of
unbiased means and of `tracked`, which has a best range of its own, with 20 drawings of the noise,
at 0.5 and 2 of unbiased means with 8. "Ten times" is of what holds the best range and nine tenths
of the readings: with few devices and a small epsilon the best range is hardly more than a constant.
The share of 95 % intervals that held the mean of the readings as measured is told beside it. Needs
the folder of RASE_DATA; takes about half an hour of one core.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.harness import PeerMissing, Row, Target
from rase.errors import DataError
from rase.lab.accuracy import SETS
from rase.lab.panel import Panel
from rase.lab.ranging import best_range, best_tracked_range, follow_feedback

# By estimator and epsilon, how often the noise is drawn.
DRAWINGS = {
    ("unbiased_mean", 1.0): 20,
    ("tracked", 1.0): 20,
    ("unbiased_mean", 0.5): 8,
    ("unbiased_mean", 2.0): 8,
}
ROUNDS = 336
# Quantities that cannot be negative begin at 0; temperature has no such floor.
FLOORS = {name: None if "temperature" in name else 0.0 for name in SETS}
# Rows may be kept under the name that the estimator had when they were measured.
_NAMES = {"auto": "tracked"}
_ROW = re.compile(
    r"(?P<name>.+), (?P<estimator>\w+), epsilon (?P<epsilon>\S+), \d+ seeds; best range "
    r"(?P<best>.+) \(RMSE (?P<rmse>.+)\), begun with (?P<start>.+); single seeds (?P<singles>.+); "
    r"covered (?P<covered>.+)"
)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice and epsilon how much larger the error is than with the best range."""
    for estimator, epsilon in list(DRAWINGS)[:1] if quick else DRAWINGS:
        seeds = range(1, 2 if quick else 1 + DRAWINGS[estimator, epsilon])
        for name in list(SETS)[:1] if quick else SETS:
            try:
                panel = SETS[name].panel()
            except DataError as error:
                raise PeerMissing(str(error)) from error
            yield row_of(name, panel, estimator=estimator, epsilon=epsilon, seeds=seeds)


def row_of(name: str, panel: Panel, *, estimator: str, epsilon: float, seeds: range) -> Row:
    """Measure one slice with one estimator at one epsilon."""
    find = best_tracked_range if estimator == "tracked" else best_range
    best = find(panel, epsilon=epsilon, rounds=ROUNDS)
    start = best.widen(10, floor=FLOORS[name])
    found = [
        follow_feedback(
            panel, start, epsilon=epsilon, rounds=ROUNDS, seed=seed, estimator=estimator
        )
        for seed in seeds
    ]
    errors = [one.rmse for one in found]
    ratio = float(np.mean(errors)) / best.rmse
    covered = float(np.mean([one.coverage for one in found]))
    return Row(
        "range feedback",
        "best fixed range, with knowledge of the data",
        f"{name}, {estimator}, epsilon {epsilon:g}, {len(found)} seeds",
        ratio,
        means="our RMSE / its RMSE",
        target=Target("at most", 1.3),
        note=f"best range {best.low:.4g} to {best.high:.4g} (RMSE {best.rmse:.3g}), begun with "
        f"{start.low:.5g} to {start.high:.5g}; single seeds {min(errors) / best.rmse:.1f} to "
        f"{max(errors) / best.rmse:.1f}; covered {100 * covered:.0f} %",
    )


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as the lines of a table, as docs/explain/accuracy.md shows it."""
    lines = [
        "| data | estimator | ε | error/best | single | covered | best range | its error | start |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in kept:
        told = _ROW.fullmatch(f"{row['size']}; {row['note']}")
        if told is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        estimator = _NAMES.get(told["estimator"], told["estimator"])
        lines.append(
            f"| {told['name']} | `{estimator}` | {told['epsilon']} | {row['ratio']:.2f} | "
            f"{told['singles']} | {told['covered']} | {told['best']} | {told['rmse']} | "
            f"{told['start']} |"
        )
    return lines
