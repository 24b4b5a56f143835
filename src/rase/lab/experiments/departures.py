"""What the paper hides: a shuffle that switches itself off, a jump in bias, and composition."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rase.domain import PAPER_PRECISION, Range
from rase.lab.experiments.error_figures import error_cells
from rase.lab.experiments.study import Cell, Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, HeatMap, Level, Line, Picture

__all__ = ["BIAS_CLIFF", "COMPOSITION", "SWITCH_OFF"]

_SIZES = (8, 16, 24, 32, 64, 128)
_GROUPS = (1, 2, 4, 8, 16, 32)
_ALPHA = 30.0


def switch_off(setup: Setup) -> Steps:
    """Map which share of records keeps its place after the groups were refined."""
    pairs = [(n, k) for n in _SIZES for k in _GROUPS if k <= n]
    outcomes = yield [Cell("order", {"n": n, "groups": k, "alpha": _ALPHA}) for n, k in pairs]
    found = dict(zip(pairs, outcomes, strict=True))
    rows = [
        {
            "n": n,
            "groups": k,
            "theta": outcome["theta"],
            "stay_percent": round(100 * outcome["stay"], 2),
            "attacker_percent": round(100 * outcome["success"], 2),
            "chance_percent": round(100 / n, 2),
            "printed_branch": outcome["branch"],
            "printed_stay_percent": round(100 * outcome["printed_stay"], 2),
            "corrected": outcome["corrected"],
            "corrected_attacker_percent": round(100 * outcome["corrected_success"], 2),
        }
        for (n, k), outcome in found.items()
    ]

    def table(name: str) -> list[list[float]]:
        return [
            [100 * found[n, k][name] if (n, k) in found else float("nan") for k in _GROUPS]
            for n in _SIZES
        ]

    maps = [
        HeatMap(
            title,
            "number of groups k",
            "number of reports n",
            [str(k) for k in _GROUPS],
            [str(n) for n in _SIZES],
            table(name),
            "per cent",
            (0.0, 100.0),
        )
        for title, name in (
            ("Records that stay, Mallows, refined groups", "stay"),
            ("Records that stay, Algorithm 2 as printed", "printed_stay"),
            ("Most exposed sender guessed, corrected", "corrected_success"),
        )
    ]
    sixteen = found[16, 4]
    bad = [row for row in rows if row["groups"] > 1 and (row["theta"] is None or row["theta"] > 1)]
    refined = [row for row in rows if row["groups"] > 1]
    return Findings(
        tuple(rows),
        Picture(tuple(maps), columns=3, chart_size=(4.1, 3.7)),
        f"n = 16, k = 4, alpha 30: Algorithm 2 takes its {sixteen['branch']} branch with θ = "
        f"{sixteen['theta']:.3g}, and {100 * sixteen['stay']:.1f} % of the records keep their "
        f"place. θ exceeds 1 in {len(bad)} of {len(refined)} refined cases of the map. Corrected, "
        f"the order alone names no sender more than twice as often as chance.",
        (
            Check(
                "n = 16, k = 4: Algorithm 2 itself chooses Mallows, and more than 95 % keep their "
                "place.",
                sixteen["branch"] == "mallows" and sixteen["printed_stay"] > 0.95,
                is_departure=True,
            ),
            Check(
                "n = 64, k = 16: with refined groups 98.7 % keep their place.",
                round(100 * found[64, 16]["stay"], 1) == 98.7,
                is_departure=True,
            ),
            Check(
                "Corrected, the best guess from the order stays below twice chance in every slot.",
                all(outcome["corrected_success"] <= 2 / n for (n, _), outcome in found.items()),
            ),
        ),
    )


def bias_cliff(setup: Setup) -> Steps:
    """Measure the sample mean on both sides of the bound at which BR stops clamping."""
    high = setup.error_high
    public = Range(0, high)
    bound = PAPER_PRECISION.epsilon_bound(public)
    near = [bound - 0.005, bound + 0.005]
    budgets = [3.0, *near, 6.0] if setup.is_fast else [2.0, 3.0, 4.0, *near, 5.0, 6.0, 8.0]
    names = ("sample_mean", "unbiased_mean")
    outcomes = yield error_cells(setup, budgets, high, estimators=names, n=setup.n)
    unit = setup.panel.unit
    readings = np.clip(setup.panel.values[~np.isnan(setup.panel.values)], 0, high)
    rows: list[Row] = []
    for place, epsilon in enumerate(budgets):
        trials = outcomes[place * setup.trials : (place + 1) * setup.trials]
        rows += [
            {
                "epsilon": round(epsilon, 4),
                "estimator": name,
                "bias": float(np.mean([trial["errors"][name]["bias"] for trial in trials])),
                "noise": float(np.mean([trial["errors"][name]["spread"] for trial in trials])),
                "rmse": float(np.mean([trial["errors"][name]["rmse"] for trial in trials])),
                "bias_by_formula": _clamping_bias(readings, high / epsilon, high)
                if name == "sample_mean" and epsilon < bound
                else 0.0,
            }
            for name in names
        ]
    sample, unbiased = rows[::2], rows[1::2]
    before, after = budgets.index(near[0]), budgets.index(near[1])
    fine = np.linspace(budgets[0], bound, 40)
    formula = Line(
        "bias of clamping, by formula",
        fine.tolist(),
        [_clamping_bias(readings, high / epsilon, high) for epsilon in fine],
        look="formula",
        style="dashed",
    )
    jump = sample[before]["rmse"] / sample[after]["rmse"]
    smooth = unbiased[before]["rmse"] / unbiased[after]["rmse"]
    return Findings(
        tuple(rows),
        Picture(
            _cliff_charts(budgets, sample, unbiased, formula=formula, bound=bound, unit=unit),
            columns=2,
            chart_size=(4.8, 3.4),
        ),
        f"At ε* = {bound:.3f} the error of the sample mean falls from {sample[before]['rmse']:.0f} "
        f"to {sample[after]['rmse']:.0f} {unit} within a hundredth of epsilon, {jump:.1f} times; "
        f"{sample[before]['bias']:.0f} {unit} of it are bias (formula: "
        f"{sample[before]['bias_by_formula']:.0f}). Decoded, the same reports give "
        f"{unbiased[before]['rmse']:.0f} and {unbiased[after]['rmse']:.0f} {unit}.",
        (
            Check(
                "The sample mean's error falls off a cliff at ε*: to less than half.",
                jump > 2,
                is_departure=True,
            ),
            Check("The unbiased mean has no cliff there.", 0.7 < smooth < 1.4),
            Check(
                "The measured bias is that of the formula, within a tenth.",
                abs(sample[before]["bias"] / sample[before]["bias_by_formula"] - 1) < 0.1,
            ),
            Check(
                "Clamped and decoded reports are not noisier than unclamped ones, within a tenth.",
                unbiased[before]["rmse"] < 1.1 * unbiased[after]["rmse"],
            ),
        ),
    )


def _cliff_charts(
    budgets: list[float],
    sample: list[Row],
    unbiased: list[Row],
    *,
    formula: Line,
    bound: float,
    unit: str,
) -> tuple[Chart, Chart]:
    def lines(what: str) -> tuple[Line, Line]:
        return (
            Line("sample mean", budgets, [row[what] for row in sample], look="sample_mean"),
            Line("unbiased mean", budgets, [row[what] for row in unbiased], look="unbiased_mean"),
        )

    level = (Level(bound, "ε*", is_upright=True),)
    return (
        Chart(
            "Mean error (bias)",
            "epsilon of a report",
            f"bias ({unit})",
            (formula, *lines("bias")),
            levels=level,
        ),
        Chart(
            "Root mean square error",
            "epsilon of a report",
            f"error ({unit})",
            lines("rmse"),
            levels=level,
        ),
    )


def composition(setup: Setup) -> Steps:
    """Watch the same devices for more and more rounds, with and without a shuffle."""
    rounds = [
        count for count in (1, 2, 5, 10, 24, 48, 120, 240, 360, 600) if count <= setup.panel.rounds
    ]
    cases = [("br", 0.5), ("br", 1.0), ("br", 4.0), ("best", 1.0)]
    outcomes = yield [
        Cell(
            "watched",
            {
                "n": setup.n,
                "scheme": scheme,
                "epsilon": epsilon,
                "high": setup.table_high,
                "rounds": rounds,
                "seed": seed,
            },
        )
        for scheme, epsilon in cases
        for seed in setup.seeds()
    ]
    errors = {
        case: np.mean(
            [
                outcome["error"]
                for outcome in outcomes[place * setup.trials : (place + 1) * setup.trials]
            ],
            axis=0,
        )
        for place, case in enumerate(cases)
    }
    spread = float(np.mean([outcome["spread_of_means"] for outcome in outcomes]))
    unit = setup.panel.unit
    rows = [
        {
            "scheme": scheme,
            "epsilon": epsilon,
            "rounds": count,
            "epsilon_spent": epsilon * count,
            "error_of_device_mean": round(float(error), 3),
            "knowing_nothing": round(spread, 3),
        }
        for (scheme, epsilon), row in errors.items()
        for count, error in zip(rounds, row, strict=True)
    ]
    alone, hidden = errors["br", 1.0], errors["best", 1.0]
    return Findings(
        tuple(rows),
        Picture(
            (_watched_chart(errors, rounds, spread=spread, unit=unit), _spent_chart()),
            columns=2,
            chart_size=(4.8, 3.6),
        ),
        f"One unshuffled report at epsilon 1 leaves an error of {alone[0]:.0f} {unit} about a "
        f"device's mean; {rounds[-1]} of them {alone[-1]:.1f} {unit}, where devices differ by "
        f"{spread:.1f} {unit}. After a uniform shuffle a slot shows the fleet's mean only: "
        f"{hidden[-1]:.1f} {unit}. A report every 8 s for 25 days spends "
        f"{25 * 86400 // 8:,} times epsilon.",
        (
            Check(
                "Without a shuffle the error falls like one over the root of the rounds, within a "
                "factor 2.",
                0.5 < alone[0] / alone[-1] / np.sqrt(rounds[-1]) < 2,
                is_departure=True,
            ),
            Check(
                "Without a shuffle many reports at epsilon 1 tell devices apart: the error is "
                "below their spread.",
                bool(alone[-1] < spread),
                is_departure=True,
            ),
            Check(
                "After a uniform shuffle watching slots shows no more than the fleet's mean.",
                bool(hidden[-1] > 0.9 * spread),
            ),
        ),
    )


def _watched_chart(
    errors: Mapping[tuple[str, float], NDArray[np.float64]],
    rounds: list[int],
    *,
    spread: float,
    unit: str,
) -> Chart:
    names = {"br": "no shuffle", "best": "uniform shuffle"}
    return Chart(
        "Error about one device's mean",
        "rounds watched",
        f"root mean square error ({unit})",
        tuple(
            Line(f"{names[scheme]}, ε = {epsilon:g}", rounds, row.tolist())
            for (scheme, epsilon), row in errors.items()
        ),
        levels=(Level(spread, "knowing only the fleet's mean"),),
        x_scale="log",
        y_scale="log",
    )


def _spent_chart() -> Chart:
    days = list(range(1, 26))
    return Chart(
        "Budget spent at ε = 1 a report",
        "day",
        "sum of epsilon",
        tuple(
            Line(f"a report every {name}", days, [86400 / seconds * day for day in days])
            for name, seconds in (("8 s", 8), ("15 min", 900), ("hour", 3600), ("day", 86400))
        ),
        y_scale="log",
    )


def _clamping_bias(at: NDArray[np.float64], scale: float, high: float) -> float:
    """Return the mean of E[clamped report] - reading: what each end adds (Laplace noise)."""
    return float((scale / 2 * (np.exp(-at / scale) - np.exp((at - high) / scale))).mean())


SWITCH_OFF = Experiment(
    name="switch-off",
    figure="not in the paper (Alg. 2)",
    title="Algorithm 2 switches its own shuffle off",
    paper_says="Refining the groups makes the sensitivity small, so that Mallows stays useful; "
    "θ is between 0 and 1 in practice.",
    why="θ = alpha / sensitivity, and the rule that should keep θ between 0.1 and 1 looks at the "
    "sensitivity before it is refined. Afterwards θ is mostly above 1 and records keep their "
    "places (docs/explain/paper.md, row 6).",
    choices={"alpha": "30, the paper's default", "groups": "refined from one group of all"},
    steps=switch_off,
)
BIAS_CLIFF = Experiment(
    name="bias-cliff",
    figure="not in the paper (Lemma 1)",
    title="The cliff of bias at ε*",
    paper_says="Below ε* reports are clamped; the error falls with epsilon because the noise does.",
    why="Clamped reports are biased towards the middle of the range; above ε* they are not clamped "
    "and not biased. Read by decode, reports are unbiased on both sides "
    "(docs/explain/paper.md, row 9).",
    choices={
        "range": "0 to 2.8 kW, as for Fig. 7",
        "precision": "beta 0.5, rho 0.9: ε* = 2 ln 10 = 4.605",
        "devices": "all up to 64",
    },
    steps=bias_cliff,
)
COMPOSITION = Experiment(
    name="composition",
    figure="not in the paper (row 11)",
    title="Composition over 25 days: noise averages out",
    paper_says="Nothing: one epsilon is named, for one report, while data comes every 8 s.",
    why="Budgets add up over reports. Without a shuffle an observer averages the noise of a device "
    "away; a fresh uniform shuffle each round breaks the thread, as long as shuffler and fusion "
    "centre do not collude.",
    choices={
        "range": "0 to 178.3 W; readings above are clipped",
        "epsilon": "0.5, 1 and 4 a report",
        "interval": "one report an hour (left); 8 s to one day (right)",
    },
    steps=composition,
)
