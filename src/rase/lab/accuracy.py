"""How accurate estimates are on measured data, compared with trivial guesses."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rase.domain import PAPER_PRECISION, Range
from rase.kernels.words import SeededRandom
from rase.lab.datasets import open_panel
from rase.lab.panel import Panel
from rase.laws.geometric import BudgetAware
from rase.laws.registry import randomizer_named
from rase.series.runs import run_means, runs_of

__all__ = ["PAPERS", "SETS", "Accuracy", "MeasuredSet", "accuracy"]

Floats = NDArray[np.float64]

# The paper's estimators, which answer from the reports of its own mechanism. Its third, the
# bootstrap mean, is the sample mean with 1 / B more variance: never the best, and slow.
PAPERS = ("sample_mean", "median")


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A slice of measured data, and its public range.

    Slices and ranges were fixed before any result on them was seen: from the kind of quantity, not
    from the readings.

    Args:
        source: The prepared data set.
        start: The first moment; None for the beginning.
        end: The first moment no longer taken; None for the end.
        low: The lower end of the range, in the panel's unit.
        high: Its upper end.
    """

    source: str
    start: str | None
    end: str | None
    low: float
    high: float

    def panel(self) -> Panel:
        """Open the slice."""
        return open_panel(self.source, start=self.start, end=self.end)

    @property
    def value_range(self) -> Range:
        """The public range."""
        return Range(self.low, self.high)


SETS: Mapping[str, MeasuredSet] = MappingProxyType(
    {
        "REFIT, hourly": MeasuredSet("refit-64x25d", None, None, 0, 2800),
        "REFIT, 1 minute": MeasuredSet("refit-1min", "2014-06-10", "2014-06-11", 0, 6000),
        # 10 kWh in 15 minutes are 40 kW, what the connection of a house is fused for.
        "Swiss households": MeasuredSet("swiss", "2018-10-29", "2018-11-08", 0, 40_000),
        "Beijing, temperature": MeasuredSet("beijing-temp", "2014-01-01", "2014-03-02", -20, 42),
        "Beijing, PM2.5": MeasuredSet("beijing-pm25", "2014-01-01", "2014-03-02", 0, 1000),
    }
)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Root mean square errors over the rounds of a panel, from the second round on.

    Args:
        rmse: By estimator: ``tracked``, ``unbiased_mean``, ``sample_mean`` and
            ``median`` of the paper, and the yardsticks ``history`` and ``last``.
        bias: The mean error of ``tracked``.
        coverage: The share of its 95 % intervals that held the truth.
        clip_bias: What clipping readings to the range adds to the mean of them all.
    """

    rmse: Mapping[str, float]
    bias: float
    coverage: float
    clip_bias: float


def accuracy(
    panel: Panel, value_range: Range, *, epsilon: float, seeds: Sequence[int]
) -> list[Accuracy]:
    """Measure all estimators on some drawings of the noise.

    ``tracked`` and ``unbiased_mean`` have the best mechanism at this epsilon, the paper's
    estimators the paper's (beta 0.5, rho 0.9): what either system would do with the same budget.
    The truth is the mean of a round's readings, clipped to the range as all reports are.

    Args:
        panel: The readings; rounds without any are left out.
        value_range: The public range.
        epsilon: The budget of one report.
        seeds: Of the noise, one for each drawing.
    """
    best = randomizer_named("auto", epsilon, domain=value_range, precision=PAPER_PRECISION)
    papers = BudgetAware(epsilon, value_range, PAPER_PRECISION)
    rows = [row[~np.isnan(row)] for row in panel.values]
    some = [place for place, row in enumerate(rows) if len(row)]
    raw = np.concatenate([rows[place] for place in some])
    sizes = np.array([len(rows[place]) for place in some])
    every = raw.clip(value_range.low, value_range.high)
    truth = np.add.reduceat(every, np.cumsum(sizes) - sizes) / sizes
    sources = [SeededRandom(seed) for seed in seeds]
    ours = np.stack([best.randomize(every, rng=source.child("ours")) for source in sources])
    runs = runs_of(
        run_means(ours, sizes, randomizer=best),
        panel.times_ms[some] / 1000,
        truth=truth,
        value_range=value_range,
    )
    clip_bias = math.fsum(every - raw) / len(raw)
    found = []
    for place, source in enumerate(sources):
        theirs = papers.randomize(every, rng=source.child("papers"))
        rmse = {
            "tracked": runs.tracked[place],
            "unbiased_mean": runs.alone[place],
            **_of_papers(theirs, sizes, truth),
            "history": runs.history[place],
            "last": runs.last[place],
        }
        found.append(
            Accuracy(
                MappingProxyType({name: float(error) for name, error in rmse.items()}),
                float(runs.bias[place]),
                float(runs.coverage[place]),
                clip_bias,
            )
        )
    return found


def _of_papers(reports: Floats, sizes: NDArray[np.int64], truth: Floats) -> dict[str, float]:
    """Return the errors of the paper's estimators, from the second round on."""
    rounds = np.split(reports, np.cumsum(sizes)[:-1])
    shown = {
        "sample_mean": np.array([round.mean() for round in rounds]),
        "median": np.array([np.median(round) for round in rounds]),
    }
    return {
        name: float(np.sqrt(np.mean(np.square(values - truth)[1:])))
        for name, values in shown.items()
    }
