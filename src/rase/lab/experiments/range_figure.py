"""Range feedback: how fast a range ten times too wide comes down, and what error is left."""

import numpy as np

from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Level, Line, Picture
from rase.lab.ranging import AFTER

__all__ = ["RANGES"]

_EVERY = 8


def ranged(setup: Setup) -> Steps:
    """Begin with a range ten times as wide as the best, at several budgets."""
    budgets = (2.0,) if setup.is_fast else (0.5, 1.0, 2.0, 4.0)
    seeds = setup.seeds()
    outcomes = yield [
        Cell("ranged", {"n": setup.n, "epsilon": epsilon, "rounds": 4 * AFTER, "seed": seed})
        for epsilon in budgets
        for seed in seeds
    ]
    rows: list[Row] = []
    lines = []
    for place, epsilon in enumerate(budgets):
        part = outcomes[place * len(seeds) : (place + 1) * len(seeds)]
        # Rounds in which no chosen device reports are left out, so drawings may differ in length.
        length = min(len(one["widths"]) for one in part)
        widths = np.array([one["widths"][:length] for one in part]).mean(axis=0)
        shown = np.arange(0, len(widths), _EVERY)
        lines.append(Line(f"epsilon {epsilon:g}", shown.tolist(), widths[shown].tolist()))
        rows.append(
            {
                "epsilon": epsilon,
                "rmse_over_best": float(np.mean([one["ratio"] for one in part])),
                "worst_seed": float(max(one["ratio"] for one in part)),
                "width_after": float(widths[min(AFTER, len(widths) - 1)]),
            }
        )
    return Findings(
        tuple(rows),
        Picture(
            (
                Chart(
                    "Width of the range",
                    "round",
                    "width, as a share of the first",
                    tuple(lines),
                    y_scale="log",
                    levels=(Level(AFTER, "error counts from here on", is_upright=True),),
                ),
            )
        ),
        " ".join(
            f"At epsilon {row['epsilon']:g} the error from round {AFTER} on is "
            f"{row['rmse_over_best']:.2f} times that of the best fixed range (worst drawing "
            f"{row['worst_seed']:.2f})."
            for row in rows
        ),
        (
            Check(
                "After 48 rounds the range is at most half as wide as it began.",
                all(row["width_after"] <= 0.5 for row in rows),
                is_departure=True,
            ),
        ),
    )


RANGES = Experiment(
    name="ranges",
    figure="not in the paper",
    title="Range feedback from a range ten times too wide",
    paper_says="The fusion centre feeds a new precision back to the devices; the range is given.",
    why="The error is proportional to the width of the range. Square-wave reports of probing "
    "rounds tell where the readings are, at no extra epsilon.",
    choices={
        "start": "from 0 on, ten times as wide as the best fixed range and nine tenths of readings",
        "best": "the fixed range with the least error from round 48 on, knowing all readings",
        "error": "root mean square of the unbiased means from round 48 on, probing rounds included",
    },
    steps=ranged,
)
