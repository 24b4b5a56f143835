"""Figures about this system that the paper does not have: poisoning, accuracy, audit, ranges.

What lying devices can do to each estimator, next to the bound that theory gives; the accuracy of
`tracked` over time, next to the paper's estimators and a constant; the audit of the privacy claims,
lower bounds from samples next to what is claimed; and how fast range feedback narrows a range that
is ten times too wide.
"""

from typing import Any

import numpy as np

from rase.lab.accuracy import PAPERS
from rase.lab.audit.catalogue import subjects
from rase.lab.audit.subject import CONFIDENCE
from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Level, Line, Picture
from rase.lab.ranging import AFTER

__all__ = ["ACCURACY", "AUDIT", "POISONING", "RANGES"]

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
        Picture(tuple(_poisoning_chart(found, name) for name in MECHANISMS), columns=2),
        _measured_shift(found),
        _checks(rows, found),
    )


def _measured_shift(found: dict[tuple[str, str, str], Row]) -> str:
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


def _poisoning_chart(found: dict[tuple[str, str, str], Row], mechanism: str) -> Chart:
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


_SHOWN = ("tracked", "unbiased_mean", *PAPERS, "history", "last")
_TWICE = (0.5, 1.0, 2.0)


def plan_accuracy(setup: Setup) -> Steps:
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
        Picture((_accuracy_chart(rows, setup.panel.unit),)),
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


def _accuracy_chart(rows: list[Row], unit: str) -> Chart:
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
    title="The mean followed through time, next to single rounds and a constant",
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
    steps=plan_accuracy,
)


_SAMPLES = 1_000_000
_FAST_SAMPLES = 10_000
# Through a ledger on disk each sample takes a while; rase lab audit has the patience.
_LEFT_OUT = "a report sent twice"


def audit(setup: Setup) -> Steps:
    """Audit every claim but one with seeded samples, so that the figure can be drawn again."""
    names = [subject.name for subject in subjects() if subject.name != _LEFT_OUT]
    samples = _FAST_SAMPLES if setup.is_fast else _SAMPLES
    outcomes = yield [
        Cell(
            "audit",
            {
                "subject": name,
                "samples": samples,
                "seed": setup.seeds()[0],
                "confidence": 1 - (1 - CONFIDENCE) / len(names),
            },
        )
        for name in names
    ]
    rows = tuple(
        {
            "subject": one["name"],
            "kind": one["kind"],
            "claim": one["claim"],
            "delta": one["delta"],
            "lower_bound": one["lower_bound"],
            "samples": one["samples"],
        }
        for one in outcomes
    )
    reports = [row for row in rows if row["kind"] == "report"]
    least = min(row["lower_bound"] / row["claim"] for row in reports)
    broken = sum(row["lower_bound"] > row["claim"] for row in rows)
    places = tuple(range(1, len(rows) + 1))
    return Findings(
        rows,
        Picture(
            (
                Chart(
                    "Claims, and what samples prove at least",
                    "claim, by its row in the table",
                    "epsilon or alpha",
                    (
                        Line("claim", places, [row["claim"] for row in rows], style="dots"),
                        Line(
                            "lower bound",
                            places,
                            [row["lower_bound"] for row in rows],
                            style="dots",
                        ),
                    ),
                ),
            ),
            chart_size=(8.2, 4.0),
        ),
        f"{len(rows)} claims, {samples} samples of each input. {broken or 'No'} lower bound"
        f"{'s are above their claims' if broken > 1 else ' is above its claim'}; those of single "
        f"reports reach {100 * least:.0f} % of it or more.",
        (
            Check(
                "No lower bound is above its claim, at a confidence of 99.9999 % for all together.",
                broken == 0,
            ),
            Check(
                "Lower bounds of single reports reach half of the claim or more.",
                least >= 0.5,
            ),
        ),
    )


AUDIT = Experiment(
    name="audit",
    figure="not in the paper",
    title="The privacy claims, audited by sampling",
    paper_says="Theorems: BR is epsilon-LDP, RS keeps alpha.",
    why="Theorems are about mechanisms on paper; an audit looks at what is drawn. That the paper's "
    "own fallback shuffle breaks its theorem is found in the same way.",
    choices={
        "inputs": "the ends of the range, or orders of arrival that differ most",
        "event": "likelihood-ratio test chosen from a pilot, counted in fresh samples",
        "randomness": "seeded here; rase lab audit takes that of production, and more samples",
    },
    steps=audit,
)


_EVERY = 8


def plan_ranges(setup: Setup) -> Steps:
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
    "rounds show where the readings are, at no extra epsilon.",
    choices={
        "start": "from 0 on, ten times as wide as the best fixed range and nine tenths of readings",
        "best": "the fixed range with the least error from round 48 on, knowing all readings",
        "error": "root mean square of the unbiased means from round 48 on, probing rounds included",
    },
    steps=plan_ranges,
)
