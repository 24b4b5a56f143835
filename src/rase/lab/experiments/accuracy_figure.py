"""Accuracy through time: `tracked` beside the paper's estimators and beside a constant."""

import numpy as np

from rase.lab.accuracy import PAPERS
from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Line, Picture

__all__ = ["ACCURACY"]

_SHOWN = ("tracked", "unbiased_mean", *PAPERS, "history", "last")
_TWICE = (0.5, 1.0, 2.0)


def followed(setup: Setup) -> Steps:
    """Follow the fleet's mean at several budgets."""
    budgets = (1.0, 4.0) if setup.is_fast else (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
    seeds = setup.seeds()
    outcomes = yield [
        Cell(
            "followed",
            {"n": setup.n, "epsilon": epsilon, "high": setup.error_high, "seed": seed},
        )
        for epsilon in budgets
        for seed in seeds
    ]
    rows: list[Row] = []
    for place, epsilon in enumerate(budgets):
        part = outcomes[place * len(seeds) : (place + 1) * len(seeds)]
        error = {name: float(np.mean([one["rmse"][name] for one in part])) for name in _SHOWN}
        rows.append(
            {
                "epsilon": epsilon,
                **error,
                "bias": float(np.mean([one["bias"] for one in part])),
                "skill": error["history"] / error["tracked"],
                "times_nearer": min(error[name] for name in PAPERS) / error["tracked"],
                "coverage": float(np.mean([one["coverage"] for one in part])),
            }
        )
    return Findings(
        tuple(rows),
        Picture((_chart(rows, setup.panel.unit),)),
        " ".join(
            f"At epsilon {row['epsilon']:g} tracked is {row['tracked']:.3g} {setup.panel.unit} "
            "off, "
            f"{row['times_nearer']:.1f} times nearer than the best of the paper's estimators, with "
            f"a skill of {row['skill']:.2f} against a constant; its intervals hold the truth in "
            f"{100 * row['coverage']:.0f} %."
            for row in rows
        ),
        (
            Check(
                "Following the rounds is at least twice as near as the best of the paper's "
                "estimators at epsilon 0.5, 1 and 2.",
                all(row["times_nearer"] >= 2 for row in rows if row["epsilon"] in _TWICE),
                is_departure=True,
            ),
            Check(
                "It is never more than 5 % worse than the best of them.",
                all(row["times_nearer"] > 0.95 for row in rows),
                is_departure=True,
            ),
            Check(
                "No estimator of a round by itself beats the constant at epsilon 1 or less.",
                all(
                    row["history"] < min(row[name] for name in ("unbiased_mean", *PAPERS))
                    for row in rows
                    if row["epsilon"] <= 1
                ),
                is_departure=True,
            ),
            Check(
                "Its 95 % intervals hold the truth in 90 % of the rounds or more.",
                all(row["coverage"] >= 0.9 for row in rows),
            ),
        ),
    )


def _chart(rows: list[Row], unit: str) -> Chart:
    budgets = [row["epsilon"] for row in rows]
    return Chart(
        "Error of a round's mean",
        "epsilon of a report",
        f"root mean square error ({unit})",
        tuple(
            Line(
                name.replace("_", " "),
                budgets,
                [row[name] for row in rows],
                look=name,
                style="dashed" if name in ("history", "last") else "solid",
            )
            for name in _SHOWN
        ),
        x_scale="log",
        y_scale="log",
    )


ACCURACY = Experiment(
    name="accuracy",
    figure="not in the paper",
    title="The mean followed through time, beside single rounds and beside a constant",
    paper_says="Nothing on the rounds before; each round is estimated by itself.",
    why="At 64 devices one round says less than the mean of all earlier ones. What was released "
    "before is public, so borrowing from it costs no privacy.",
    choices={
        "range": "0 to 2.8 kW, that of Fig. 7",
        "mechanism": "the best at each epsilon for tracked and unbiased means; BR for the paper's",
        "error": "root mean square over all rounds from the second on, averaged over trials",
        "history": "the mean of the unbiased means of all earlier rounds",
        "bootstrap_mean": "left out: the sample mean with a little more noise",
    },
    steps=followed,
)
