"""How near do windows of tracked means come to the truth, against those of unbiased means?

On the five slices of measured data of `rase.lab.accuracy`, with windows of 4, 24 and 96 rounds. A
window of `tracked` takes tracked or unbiased means, whichever standard error is smaller. Needs the
folder of RASE_DATA; takes about three minutes of one core.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import PeerMissing, Row, Target
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.mean import unbiased_mean
from rase.counts.moments import moments_of
from rase.domain import Precision, Range
from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.accuracy import SETS
from rase.lab.panel import Panel
from rase.laws.registry import randomizer_named
from rase.series.tracker import Tracker
from rase.series.window import surer_window, window

Floats = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0, 8.0)
SIZES = (4, 24, 96)
SEEDS = range(1, 6)
_SIZE = re.compile(r"(?P<data>.+), epsilon (?P<epsilon>\S+), w = (?P<w>\d+), \d+ seeds")
_COVERED = re.compile(r"covered (\S+);")


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice, epsilon and size how many times nearer, and how often it is held."""
    for name in list(SETS)[:1] if quick else SETS:
        try:
            panel = SETS[name].panel()
        except DataError as error:
            raise PeerMissing(str(error)) from error
        for epsilon in EPSILONS[1:2] if quick else EPSILONS:
            seeds = SEEDS[:1] if quick else SEEDS
            runs = [_followed(panel, SETS[name].value_range, epsilon, seed) for seed in seeds]
            for w in SIZES:
                yield _row(f"{name}, epsilon {epsilon:g}, w = {w}, {len(runs)} seeds", runs, w)


def table(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return kept rows as lines of a table: how many times nearer, and the share covered.

    Raises:
        ValueError: If a row is of another benchmark.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    for row in kept:
        named, covered = _SIZE.fullmatch(row["size"]), _COVERED.search(row["note"])
        if named is None or covered is None:
            raise ValueError(f"row must be one of this benchmark, got {row['size']!r}.")
        cell = f"{row['ratio']:.2f} ({100 * float(covered[1]):.0f} %)"
        lines.setdefault((named["data"], named["epsilon"]), []).append(cell)
    return [
        "| data | ε | " + " | ".join(f"w = {w}" for w in SIZES) + " |",
        "|---|---|" + "---|" * len(SIZES),
        *(
            f"| {data} | {epsilon} | {' | '.join(cells)} |"
            for (data, epsilon), cells in lines.items()
        ),
    ]


def _row(size: str, runs: Sequence[tuple[list[Estimate], list[Estimate], Floats]], w: int) -> Row:
    errors: dict[str, list[float]] = {"tracked": [], "unbiased_mean": []}
    held, tracked = [], []
    for followed, alone, truth in runs:
        means = np.convolve(truth, np.full(w, 1 / w), "valid").tolist()
        for mean, ours, plain in zip(
            means, surer_window(followed, alone, w=w), window(alone, w), strict=True
        ):
            if ours is None or plain is None:
                continue
            low, high = ours.interval()
            errors["tracked"].append(ours.value - mean)
            errors["unbiased_mean"].append(plain.value - mean)
            held.append(low <= mean <= high)
            tracked.append(ours.method == "tracked")
    error = {name: float(np.sqrt(np.mean(np.square(off)))) for name, off in errors.items()}
    return Row(
        "window of tracked means",
        "window of unbiased means",
        size,
        error["unbiased_mean"] / error["tracked"],
        "its RMSE / our RMSE",
        target=Target("at least", 0.95),
        note=f"RMSE {error['tracked']:.4g} against {error['unbiased_mean']:.4g}; covered "
        f"{np.mean(held):.3f}; {np.mean(tracked):.0%} took tracked rounds",
    )


def _followed(
    panel: Panel, value_range: Range, epsilon: float, seed: int
) -> tuple[list[Estimate], list[Estimate], Floats]:
    """Return tracked means, unbiased means and the truth of every round of one drawing."""
    mechanism = randomizer_named(
        "auto", epsilon, domain=value_range, precision=Precision(beta=0.5, rho=0.9)
    )
    source, tracker = SeededRandom(seed), Tracker(value_range)
    followed, alone, truth = [], [], []
    for time_ms, row in zip(panel.times_ms.tolist(), panel.values, strict=True):
        readings = row[~np.isnan(row)].clip(value_range.low, value_range.high)
        if not len(readings):
            continue
        counts = Counts.of(mechanism.draw_many(readings, rng=source))
        mean, moments = unbiased_mean(counts, randomizer=mechanism), moments_of(counts, mechanism)
        spread = None if moments.spread is None else float(moments.spread[0])
        followed.append(tracker.update(time_ms / 1000, mean, spread=spread))
        alone.append(mean)
        truth.append(float(readings.mean()))
    return followed, alone, np.array(truth)
