"""Figures about noise itself: how near mechanisms come to the optimum, and what floats leak."""

from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Setup, Steps
from rase.lab.pictures import Chart, Level, Line, Picture
from rase.laws.geometric import Laplace
from rase.laws.registry import FOR_MEANS

__all__ = ["LOW_BITS", "OPTIMUM"]

# Plain noise first, as what the others are compared with.
_NAMES = sorted(FOR_MEANS, key=lambda name: name != Laplace.name)
_BUDGETS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
# What each budget's channel must come within of the lower bound.
_NEAR = {budget: 1.01 if budget <= 4 else 1.05 for budget in _BUDGETS}


def optimum(setup: Setup) -> Steps:
    """Compare the worst variance of every mechanism with the least there can be."""
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
    """Exclude the wrong one of two candidates from single reports, float noise against ours."""
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
