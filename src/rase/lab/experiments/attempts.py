"""Plan and summarise attacks: the cells of many trials, and one interval from them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rase.lab.experiments.study import Cell, Outcome, Row, Setup
from rase.lab.metrics import Interval
from rase.lab.pictures import Level, Line

__all__ = [
    "ATTACK_EPSILON",
    "SCHEMES",
    "SHOWN",
    "Score",
    "attempts",
    "chance_level",
    "line_of",
    "percent",
    "scores",
]

# Schemes in the order of Fig. 5, then ours; and how tables and legends name them.
SCHEMES = ("raw", "br", "br-mallows", "laplace-fisher", "rase-paper", "best")
SHOWN: Mapping[str, str] = {
    "raw": "raw",
    "br": "BR",
    "br-mallows": "BR-mallows",
    "laplace-fisher": "Laplace-fisher",
    "rase-paper": "RASE (paper)",
    "rase": "RASE (corrected)",
    "best": "ours",
}
# The epsilon at which the paper's ordering of schemes appears: the end of its range.
ATTACK_EPSILON = 10.0
_DEFAULTS: Mapping[str, Any] = {"alpha": 30.0, "groups": 8, "epsilon": ATTACK_EPSILON}


@dataclass(frozen=True, slots=True)
class Score:
    """The success of an attack over all trials.

    The interval is for the mean over fresh noise, order, split and choice of devices, on these
    readings: the mean of the trials' bootstrap intervals, narrowed by the root of their number, or
    two standard errors between trials where that is wider.

    Args:
        precision: Mean over devices and trials.
        recall: Likewise.
        device_precision: Mean over trials, for each device.
        device_recall: Likewise.
        chance: What blind guessing achieves.
        confident: Records named with a posterior of 0.9 or more, in all trials.
        confident_right: Those named rightly.
        records: Records attacked, in all trials.
    """

    precision: Interval
    recall: Interval
    device_precision: tuple[float, ...]
    device_recall: tuple[float, ...]
    chance: float
    confident: int
    confident_right: int
    records: int

    def row(self) -> Row:
        """Return the columns every attack table has, in per cent."""
        return {
            "recall_percent": percent(self.recall.value),
            "recall_low": percent(self.recall.low),
            "recall_high": percent(self.recall.high),
            "precision_percent": percent(self.precision.value),
            "precision_low": percent(self.precision.low),
            "precision_high": percent(self.precision.high),
            "chance_percent": percent(self.chance),
        }


def attempts(setup: Setup, cases: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Return the cells of some attacks; what a case leaves open is usual.

    A case with fewer devices than the setup has is drawn so much more often, with other devices,
    that about as many records are attacked.
    """
    cells = []
    for case in cases:
        settings = {"n": setup.n, "high": setup.table_high, **_DEFAULTS, **case}
        draws = max(setup.n // settings["n"], 1)
        cells += [Cell("attack", {**settings, "seed": seed}) for seed in setup.seeds(draws)]
    return cells


def scores(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[Score]:
    """Sum up the outcomes of `attempts`, one score a case."""
    cases: dict[str, list[Outcome]] = {}
    for cell, outcome in zip(cells, outcomes, strict=True):
        settings = {name: value for name, value in cell.settings.items() if name != "seed"}
        cases.setdefault(str(settings), []).append(outcome)
    return [_score(trials) for trials in cases.values()]


def line_of(
    places: Sequence[float],
    row: Sequence[Score],
    *,
    scheme: str,
    what: Literal["recall", "precision"] = "recall",
) -> Line:
    """Return the line of a scheme's recall or precision, in per cent, with its band."""
    shares = [score.recall if what == "recall" else score.precision for score in row]
    return Line(
        SHOWN[scheme],
        x=tuple(places),
        y=tuple(100 * share.value for share in shares),
        low=tuple(100 * share.low for share in shares),
        high=tuple(100 * share.high for share in shares),
        look=scheme,
    )


def chance_level(chance: float) -> Level:
    """Return the line across a chart at which blind guessing stands."""
    return Level(100 * chance, f"chance {100 * chance:.2g} %")


def percent(share: float) -> float:
    """Return a share in per cent, with its significant digits."""
    return round(100 * share, 2)


def _score(trials: Sequence[Outcome]) -> Score:
    def mean(name: str) -> float:
        return float(np.mean([trial[name] for trial in trials]))

    def interval(name: str) -> Interval:
        value, root = mean(name), math.sqrt(len(trials))
        between = 2 * float(np.std([trial[name] for trial in trials])) / root
        below = max((value - mean(f"{name}_low")) / root, between)
        above = max((mean(f"{name}_high") - value) / root, between)
        return Interval(value, max(value - below, 0.0), min(value + above, 1.0))

    def by_device(name: str) -> tuple[float, ...]:
        table = np.array([trial[name] for trial in trials], dtype=np.float64)
        is_known = ~np.isnan(table)
        sums = np.where(is_known, table, 0.0).sum(axis=0)
        return tuple((sums / np.maximum(is_known.sum(axis=0), 1)).tolist())

    return Score(
        precision=interval("macro_precision"),
        recall=interval("macro_recall"),
        device_precision=by_device("precision"),
        device_recall=by_device("recall"),
        chance=mean("chance"),
        confident=sum(trial["confident"] for trial in trials),
        confident_right=sum(trial["confident_right"] for trial in trials),
        records=sum(trial["records"] for trial in trials),
    )
