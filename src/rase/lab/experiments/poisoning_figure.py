"""What lying devices can do to each estimator, measured beside the bound that theory gives."""

from typing import Any

import numpy as np

from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Line, Picture

__all__ = ["POISONING"]

ESTIMATORS = (
    *("sample_mean", "median", "bootstrap_mean"),
    *("unbiased_mean", "winsorized_mean", "median_of_means", "tracked", "window"),
)
MECHANISMS = ("budget-aware", "laplace", "duchi", "optimal")
_DEVICES = 1000
_EPSILON = 1.0
_WINDOW = 24
_LIARS = {"one": 1, "1 %": _DEVICES // 100, "10 %": _DEVICES // 10}
# Resamples hold liars more or less often than their share.
_SLACK = {"bootstrap_mean": 1.05}


def poisoning(setup: Setup) -> Steps:
    """Let one, 1 % and 10 % of a thousand devices send the highest report there is."""
    rounds = 30 if setup.is_fast else 168
    keys = [(name, liars) for name in MECHANISMS for liars in _LIARS]
    seeds = setup.seeds()
    outcomes = yield [
        Cell(
            "poisoning",
            {
                "mechanism": name,
                "epsilon": _EPSILON,
                "high": setup.error_high,
                "n": _DEVICES,
                "liars": _LIARS[liars],
                "rounds": rounds,
                "window": _WINDOW,
                "estimators": list(ESTIMATORS),
                "seed": seed,
            },
        )
        for name, liars in keys
        for seed in seeds
    ]
    rows: list[Row] = []
    for place, (mechanism, liars) in enumerate(keys):
        part = outcomes[place * len(seeds) : (place + 1) * len(seeds)]
        for name in ESTIMATORS:
            mean = {
                what: 100 * float(np.mean([one[name][what] for one in part]))
                for what in ("shift", "bound", "error", "bias")
            }
            rows.append(
                {
                    "mechanism": mechanism,
                    "estimator": name,
                    "liars": liars,
                    "shift_percent": mean["shift"],
                    "bound_percent": mean["bound"],
                    "honest_error_percent": mean["error"],
                    "honest_bias_percent": mean["bias"],
                }
            )
    found = {(row["mechanism"], row["estimator"], row["liars"]): row for row in rows}
    return Findings(
        tuple(rows),
        Picture(tuple(_chart(found, name) for name in MECHANISMS), columns=2),
        _measured(found),
        _checks(rows, found),
    )


def _measured(found: dict[tuple[str, str, str], Row]) -> str:
    def shift(mechanism: str, estimator: str, liars: str = "10 %") -> float:
        return float(found[mechanism, estimator, liars]["shift_percent"])

    parts = [
        f"of {mechanism} reports the unbiased mean moves by "
        f"{shift(mechanism, 'unbiased_mean', '1 %'):.3g} % of the range with 1 % liars and "
        f"{shift(mechanism, 'unbiased_mean'):.3g} % with 10 %, its honest error being "
        f"{found[mechanism, 'unbiased_mean', '10 %']['honest_error_percent']:.2g} %"
        for mechanism in MECHANISMS
    ]
    return (
        f"Of {_DEVICES} devices at epsilon {_EPSILON:g}: {'; '.join(parts)}. The winsorized mean "
        f"of laplace reports moves by {shift('laplace', 'winsorized_mean'):.3g} % with 10 % liars."
    )


def _checks(rows: list[Row], found: dict[tuple[str, str, str], Row]) -> tuple[Check, ...]:
    def of(mechanism: str, estimator: str, what: str, liars: str = "10 %") -> float:
        return float(found[mechanism, estimator, liars][what])

    return (
        Check(
            "No estimator moves farther than its bound.",
            all(
                row["shift_percent"] <= _SLACK.get(row["estimator"], 1.0) * row["bound_percent"]
                for row in rows
            ),
        ),
        Check(
            "One liar of a thousand moves no estimator of reports with an end by half a per cent.",
            all(
                row["shift_percent"] < 0.5
                for row in rows
                if row["liars"] == "one" and row["mechanism"] != "laplace"
            ),
        ),
        Check(
            "Noise without end lets 1 % of liars move a mean by a quarter of the range or more.",
            of("laplace", "unbiased_mean", "shift_percent", "1 %") > 25,
        ),
        Check(
            "The winsorized mean takes nine tenths of that from them, and is nearer to the truth.",
            of("laplace", "winsorized_mean", "shift_percent")
            < of("laplace", "unbiased_mean", "shift_percent") / 10
            and of("laplace", "winsorized_mean", "honest_error_percent")
            < of("laplace", "unbiased_mean", "honest_error_percent"),
        ),
        Check(
            "Of reports with an end the median of means is less precise, and 10 % of liars move it "
            "no less than half as far: lies look like noise.",
            all(
                of(name, "median_of_means", "honest_error_percent")
                > of(name, "unbiased_mean", "honest_error_percent")
                and of(name, "median_of_means", "shift_percent")
                > 0.5 * of(name, "unbiased_mean", "shift_percent")
                for name in ("budget-aware", "duchi", "optimal")
            ),
        ),
        Check(
            "Following the rounds does not help against liars who lie in every round.",
            all(
                of(name, "tracked", "shift_percent")
                > 0.5 * of(name, "unbiased_mean", "shift_percent")
                for name in ("budget-aware", "duchi", "optimal")
            ),
        ),
    )


def _chart(found: dict[tuple[str, str, str], Row], mechanism: str) -> Chart:
    def line(estimator: str) -> Line:
        values: list[Any] = [found[mechanism, estimator, liars] for liars in _LIARS]
        return Line(
            estimator,
            x=tuple(100 * liars / _DEVICES for liars in _LIARS.values()),
            y=tuple(max(row["shift_percent"], 1e-3) for row in values),
            look=estimator,
        )

    return Chart(
        mechanism,
        "lying devices (%)",
        "shift (% of the range)",
        tuple(line(name) for name in ESTIMATORS),
        x_scale="log",
        y_scale="log",
    )


POISONING = Experiment(
    name="poisoning",
    figure="not in the paper",
    title="How far lying devices move each estimator",
    paper_says="Nothing: contributors are taken as honest.",
    why="A server that cannot see readings cannot see lies. What a lie can do is bounded by how "
    "far a report is stretched when it is decoded, and that is the price of local noise.",
    choices={
        "lie": "the report that is decoded to the greatest value, by all liars in all rounds",
        "fleet": f"{_DEVICES} devices whose readings are drawn from those of the round",
        "laplace": "noise without end, as BR adds it above its bound",
        "shift": "with the same noise, estimate with liars less estimate without",
        "median_of_means": "of 25 groups of decoded reports; tried here, and offered nowhere",
        "window": f"mean of the unbiased means of {_WINDOW} rounds",
    },
    steps=poisoning,
)
