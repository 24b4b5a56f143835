"""Figures about the laws of noise and order themselves, without an attack.

How near mechanisms come to the optimum, what the low bits of floats leak, and the two figures of
the Mallows law, exact, with the numbers that the paper leaves out.

Table I is computed again, from whatever readings are used.
"""

import math

import numpy as np

from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Level, Line, Picture
from rase.lab.table_one import TableOneRow, table_one
from rase.laws.geometric import Laplace
from rase.laws.registry import FOR_MEANS
from rase.shuffle.attacker import order_attack
from rase.shuffle.mallows import Mallows

__all__ = ["LOW_BITS", "MALLOWS_CENTRE", "MALLOWS_DISTANCE", "OPTIMUM", "TABLE1"]

# Plain noise first, as what the others are compared with.
_NAMES = sorted(FOR_MEANS, key=lambda name: name != Laplace.name)
_BUDGETS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
# What each budget's channel must come within of the lower bound.
_NEAR = {budget: 1.01 if budget <= 4 else 1.05 for budget in _BUDGETS}


def optimum(setup: Setup) -> Steps:
    """Compare the worst variance of every mechanism with the smallest possible."""
    del setup  # only formulas and tables decide
    keys = [(name, epsilon) for name in _NAMES for epsilon in _BUDGETS]
    outcomes = yield [
        Cell("variances", {"mechanism": name, "epsilon": epsilon}) for name, epsilon in keys
    ]
    found = dict(zip(keys, outcomes, strict=True))
    bound = {epsilon: found["optimal", epsilon]["lower_bound"] for epsilon in _BUDGETS}
    ratio = {key: outcome["worst"] / bound[key[1]] for key, outcome in found.items()}
    rows = tuple(
        {
            "mechanism": name,
            "epsilon": epsilon,
            "worst_variance": found[name, epsilon]["worst"],
            "mean_variance": found[name, epsilon]["mean"],
            "lower_bound": bound[epsilon],
            "ratio": ratio[name, epsilon],
        }
        for name, epsilon in keys
    )
    chart = Chart(
        "Worst variance of a decoded report, over the least that any mechanism can have",
        "epsilon of a report",
        "worst variance / lower bound",
        tuple(Line(name, _BUDGETS, [ratio[name, e] for e in _BUDGETS]) for name in _NAMES),
        levels=(Level(1.0, "lower bound"),),
        x_scale="log",
        y_scale="log",
    )
    others = [name for name in _NAMES if name != "optimal"]
    best = {e: min((ratio[name, e], name) for name in others)[1] for e in _BUDGETS}
    return Findings(
        rows,
        Picture((chart,), chart_size=(8.2, 4.2)),
        "Worst variance over the lower bound: "
        + "; ".join(
            f"at epsilon {e:g} optimal {ratio['optimal', e]:.4f}, {best[e]} "
            f"{ratio[best[e], e]:.2f}, budget-aware {ratio['budget-aware', e]:.2f}"
            for e in (0.5, 1.0, 2.0, 4.0, 8.0)
        )
        + ".",
        (
            Check(
                "No mechanism goes below the lower bound.",
                all(one >= 1 for one in ratio.values()),
            ),
            Check(
                "The optimal channel is within 1 % of the bound up to epsilon 4, within 5 % above.",
                all(ratio["optimal", e] <= _NEAR[e] for e in _BUDGETS),
            ),
            Check(
                "No other mechanism has a smaller worst variance than the optimal one.",
                all(ratio["optimal", e] <= ratio[name, e] for name in others for e in _BUDGETS),
            ),
            Check(
                "Duchi's bit is within 5 % of the bound up to epsilon 0.5, and not at 0.75.",
                ratio["duchi", 0.5] < 1.05 < ratio["duchi", 0.75],
            ),
            Check(
                "At epsilon 4 the optimal variance is less than two thirds of Hybrid's.",
                3 * ratio["optimal", 4.0] < 2 * ratio["hybrid", 4.0],
            ),
        ),
    )


def low_bits(setup: Setup) -> Steps:
    """Exclude the wrong of two candidates from single reports, with float noise and with ours."""
    count = 400 if setup.is_fast else 4000
    names = ("float laplace", *_NAMES)
    budgets = (0.5, 1.0, 2.0, 4.0)
    keys = [(name, epsilon) for name in names for epsilon in budgets]
    outcomes = yield [
        Cell(
            "low_bits",
            {
                "mechanism": name,
                "epsilon": epsilon,
                "high": setup.error_high,
                "count": count,
                "seed": setup.seeds()[0],
            },
        )
        for name, epsilon in keys
    ]
    found = dict(zip(keys, outcomes, strict=True))
    rows = tuple(
        {
            "mechanism": name,
            "epsilon": epsilon,
            "wrong_excluded_percent": 100 * found[name, epsilon]["wrong"],
            "right_excluded_percent": 100 * found[name, epsilon]["right"],
            "reports": count,
        }
        for name, epsilon in keys
    )
    wrong = {key: outcome["wrong"] for key, outcome in found.items()}
    chart = Chart(
        f"Wrong one of the candidates 0 and {setup.error_high:g} {setup.panel.unit} excluded for "
        "certain by one report",
        "epsilon of a report",
        "reports (%)",
        (
            Line("float laplace", budgets, [100 * wrong["float laplace", e] for e in budgets]),
            # Six lines at the same height would hide one another.
            Line(
                "the most of all six drawn from whole numbers",
                budgets,
                [100 * max(wrong[name, e] for name in _NAMES) for e in budgets],
            ),
        ),
        x_scale="log",
        y_limits=(-4.0, 104.0),
    )
    floats = [wrong["float laplace", e] for e in budgets]
    return Findings(
        rows,
        Picture((chart,), chart_size=(8.2, 3.6)),
        f"From one report of NumPy's float Laplace an observer excludes the wrong one of two "
        f"candidates with certainty in {100 * min(floats):.0f} to {100 * max(floats):.0f} % of the "
        "reports, at any epsilon, and never the right one. Of reports drawn from whole numbers on "
        "the public grid none excludes anything.",
        (
            Check(
                "Float noise excludes the wrong candidate in more than 60 % of the reports.",
                min(floats) > 0.6,
            ),
            Check(
                "No report excludes the right candidate, whatever the noise.",
                all(outcome["right"] == 0 for outcome in found.values()),
            ),
            Check(
                "Reports drawn from whole numbers exclude nothing.",
                all(wrong[name, e] == 0 for name in _NAMES for e in budgets),
            ),
        ),
        chance=0.0,
    )


OPTIMUM = Experiment(
    name="optimum",
    figure="not in the paper",
    title="Worst variance of all mechanisms against the least there can be",
    paper_says="Nothing: BR adds Laplace noise, and no other mechanism is compared.",
    why="Laplace noise is made for any query; for a mean of bounded readings a linear programme "
    "finds the channel that is best, and its dual proves that none is better.",
    choices={
        "worst": "over 1025 readings from end to end of the range, between grid points included",
        "budget-aware": "clamped at every epsilon, decoded without bias",
    },
    steps=optimum,
)
LOW_BITS = Experiment(
    name="low-bits",
    figure="not in the paper",
    title="What the low bits of one noisy report give away",
    paper_says="Nothing: noise is taken as a real number.",
    why="Floats are not real numbers. Only some can be drawn, and which ones depends on the "
    "reading; a grid and whole numbers have no such trace.",
    choices={
        "candidates": "the two ends of the range; the report is of the lower one",
        "float noise": "numpy.random.Generator.laplace, scale Δ / epsilon, added to the reading",
    },
    steps=low_bits,
)


_THETAS = (0.0, 0.1, 0.5, 1.0, 2.0)
_SIZES = (2, 5, 10, 20, 64)


def distance_figure(setup: Setup) -> Steps:
    """Draw the probability of one permutation, and of all, at each distance from the centre."""
    yield []
    rows, single, whole = [], [], []
    for theta in _THETAS:
        law = Mallows(5, theta)
        pmf = law.distance_pmf()
        distances = tuple(float(d) for d in range(pmf.size))
        one = tuple(math.exp(-theta * d - law.log_normaliser) for d in distances)
        label = f"θ = {theta:g}"
        single.append(Line(label, distances, one))
        whole.append(Line(label, distances, tuple(pmf.tolist())))
        rows += [
            {"theta": theta, "distance": int(d), "one_order": p, "all_orders": q}
            for d, p, q in zip(distances, one, pmf.tolist(), strict=True)
        ]
    centre = {theta: math.exp(-Mallows(5, theta).log_normaliser) for theta in _THETAS}
    away = 1 - float(Mallows(5, 0.5).distance_pmf()[0])
    picture = Picture(
        (
            Chart(
                "One given permutation",
                "Kendall tau distance from the centre",
                "probability",
                tuple(single),
                y_scale="log",
            ),
            Chart(
                "All permutations at that distance",
                "Kendall tau distance from the centre",
                "probability",
                tuple(whole),
            ),
        ),
        columns=2,
        chart_size=(4.6, 3.5),
    )
    return Findings(
        tuple(rows),
        picture,
        f"At m = 5 the centre has probability {centre[0.1]:.4f} for θ = 0.1, {centre[1.0]:.3f} for "
        f"θ = 1 and {centre[2.0]:.3f} for θ = 2. It is the single likeliest permutation for every "
        f"θ > 0, yet at θ = 0.5 the order differs from it with probability {away:.2f}.",
        (
            Check(
                "The centre is the mode for every θ above 0.",
                all(max(line.y) == line.y[0] for line in single[1:]),
            ),
            Check(
                "The probability of one permutation decays exponentially with its distance.",
                all(
                    math.isclose(line.y[1] / line.y[0], math.exp(-theta))
                    for theta, line in zip(_THETAS, single, strict=True)
                ),
            ),
            Check(
                "The likeliest distance is not 0 at θ = 0.1 and 0.5.",
                all(max(whole[place].y) > whole[place].y[0] for place in (1, 2)),
                is_departure=True,
            ),
        ),
    )


def centre_figure(setup: Setup) -> Steps:
    """Draw the probability of the centre by theta and n."""
    yield []
    thetas = tuple(round(0.05 * step, 2) for step in range(101))
    lines, rows = [], []
    for n in _SIZES:
        centre = tuple(math.exp(-Mallows(n, theta).log_normaliser) for theta in thetas)
        lines.append(Line(f"n = {n}", thetas, centre))
        rows += [
            {"n": n, "theta": theta, "centre": value}
            for theta, value in zip(thetas, centre, strict=True)
            if theta in {0.1, 0.5, 1.0, 2.0, 3.0, 5.0}
        ]
    at_five = {line.label: line.y[-1] for line in lines}
    stay = order_attack(64, 5.0).stay_share
    chart = Chart("", "spread parameter θ", "probability of the centre", tuple(lines))
    return Findings(
        tuple(rows),
        Picture((chart,)),
        f"Pr[centre] grows with θ and falls with n: at θ = 5 it is {at_five['n = 5']:.3f} for "
        f"n = 5 and {at_five['n = 64']:.2f} for n = 64. A small Pr[centre] does not mean that "
        f"records move far: at n = 64 and θ = 5, {100 * stay:.1f} % of them keep their place.",
        (
            Check(
                "Pr[centre] grows with θ for every n.",
                all(list(line.y) == sorted(line.y) for line in lines),
            ),
            Check(
                "Pr[centre] falls with n for every θ.",
                all(
                    lines[place].y[at] > lines[place + 1].y[at]
                    for place in range(len(lines) - 1)
                    for at in range(1, len(thetas))
                ),
            ),
        ),
    )


MALLOWS_DISTANCE = Experiment(
    name="mallows-distance",
    figure="Fig. 2 (m = 5)",
    title="Probability of the Mallows law by Kendall tau distance",
    paper_says="The centre is the mode, and the other 5! - 1 permutations decay exponentially with "
    "their distance to it.",
    why="They agree for one given permutation. There are 1, 4, 9, 15, 20, 22, 20, ... permutations "
    "at distance 0, 1, 2, ..., so the distance itself is rarely 0 for small θ.",
    choices={"theta": "0, 0.1, 0.5, 1 and 2; the paper's values are not printed"},
    steps=distance_figure,
)
MALLOWS_CENTRE = Experiment(
    name="mallows-centre",
    figure="Fig. 4 (centre)",
    title="Probability of the central permutation by θ and n",
    paper_says="Pr[centre] tends to 1 for large θ: with k = n groups the shuffler does nothing.",
    why="They agree. The figure shows the whole order, while a record's own place is what an "
    "attacker wants: see switch-off.",
    choices={"n": "2, 5, 10, 20 and 64; the paper's values are not printed", "theta": "0 to 5"},
    steps=centre_figure,
)


def data_table(setup: Setup) -> Steps:
    """Describe the readings by the columns of Table I."""
    yield []
    panel = setup.panel
    rows = table_one(panel)
    means = np.nanmean(panel.values, axis=0)
    largest = np.nanmax(panel.values, axis=0)
    ranked = np.argsort(means, kind="stable")
    numbers = np.arange(1, panel.n + 1)
    chart = Chart(
        "",
        "device, sorted by its mean",
        f"reading ({panel.unit})",
        tuple(
            Line(
                label,
                numbers[values[ranked] > 0].tolist(),
                values[ranked][values[ranked] > 0].tolist(),
                style="dots",
            )
            for label, values in (("mean of a device", means), ("its largest reading", largest))
        ),
        levels=(
            Level(setup.table_high, f"upper end of the range, {setup.table_high:g} {panel.unit}"),
        ),
        y_scale="log",
    )
    return Findings(
        tuple(_row(row) for row in rows),
        Picture((chart,)),
        " ".join(_words(row, panel.unit) for row in rows),
        (
            Check(
                "Single readings leave the printed data range: it fits means of houses at best.",
                bool(np.nanmax(panel.values) > setup.table_high),
                is_departure=True,
            ),
        ),
    )


def _row(row: TableOneRow) -> Row:
    return {
        "part": row.group,
        "houses": f"{len(row.houses)}" if row.houses else "unknown",
        "device_types": "unknown" if row.device_types is None else row.device_types,
        "sensors": row.sensors,
        "fewest_of_a_house": "unknown" if row.sensors_per_house is None else row.sensors_per_house,
        "mean_low": round(row.low, 3),
        "mean_high": round(row.high, 3),
        "reading_low": round(row.reading_low, 3),
        "reading_high": round(row.reading_high, 3),
        "months": row.months,
    }


def _words(row: TableOneRow, unit: str) -> str:
    kinds = "an unknown number of" if row.device_types is None else row.device_types
    return (
        f"{row.group.capitalize()} houses: {row.sensors} sensors of {kinds} types, means of a "
        f"round in [{row.low:.3f}, {row.high:.3f}] {unit}, single readings in "
        f"[{row.reading_low:g}, {row.reading_high:g}] {unit}, {row.months} calendar months."
    )


TABLE1 = Experiment(
    name="table1",
    figure="Table I",
    title="Statistics of the data",
    paper_says="Training houses 1 to 17: 24 device types, at least 11 sensors, data range [3.9, "
    "178.3], 8 months. Test houses 18 to 21: 11 types, at least 13 sensors, [11.8, 99.027], 14 "
    "months.",
    why="Power of appliances goes from 0 to some kilowatts, so the printed range cannot be that of "
    "readings; the mean of a group in a round has about that size. REFIT has no house 14, and nine "
    "appliances a house, not 11 or 13 sensors. The table describes whatever readings are used.",
    choices={
        "data range": "of the mean of a group in a round; single readings next to it",
        "houses": "1 to 17 and 18 on, by device name",
    },
    steps=data_table,
)
