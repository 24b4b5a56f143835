"""Golden cases of the command line: what commands print as JSON for seeded, made-up inputs."""

import io
import json
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tests.golden import inputs

from rase.cli import main

__all__ = ["COMMANDS", "printed", "run_of_parquet"]

RANGE = ("--range", 0, 100, "--epsilon", 2)
SEEDED = ("--seed", 3, "--json")
FLEET = ("--data", "fleet:16x5:1", "--fast", "--jobs", 1, "--seed", 1, "--json")
ALL_ESTIMATORS = [
    word
    for name in ("tracked", "unbiased-mean", "winsorized-mean", "sample-mean", "median")
    for word in ("--estimator", name)
]
MECHANISMS = ("budget-aware", "laplace", "duchi", "piecewise", "hybrid", "optimal", "square-wave")
# What a study found is recorded even where a claim of the paper does not hold: exit code 7.
DONE = (0, 7)

Command = Callable[[Path], Any]


def printed(*arguments: object, folder: Path) -> Any:
    """Run a command in a folder and return the document it prints."""
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    assert code in DONE, err.getvalue()
    return json.loads(out.getvalue())


def run_of_csv(folder: Path, *arguments: object, hours: int = 10) -> Any:
    """Run the table as CSV."""
    table = inputs.write_csv(folder, inputs.readings_of(hours))
    # Numbers were recorded before later rounds helped earlier ones (docs/decisions/0020).
    is_tracked = "tracked" in arguments or "--estimator" not in arguments
    then = ("--as-known-then",) if is_tracked else ()
    return printed("run", table, *arguments, *then, *SEEDED, folder=folder)


def run_of_parquet(folder: Path, *arguments: object) -> Any:
    """Run the table as a folder of Parquet files; a precision, windows, and a robust shuffle."""
    table = inputs.write_parquet(folder, inputs.readings_of())
    asked = (*RANGE, "--mechanism", "budget-aware", "--beta", 0.4, "--rho", 0.8, "--every", "2h")
    robust = ("--alpha", 1, "--groups", 5, "--window", 2, "--estimator", "unbiased-mean")
    return printed("run", table, *asked, *robust, *arguments, *SEEDED, folder=folder)


def run_with_budgets(folder: Path) -> Any:
    """Run with a budget for each device."""
    budgets = inputs.write_budgets(folder)
    return run_of_csv(folder, *RANGE, "--epsilons", budgets, "--every", "1h", "--window", 3)


def run_with_feedback(folder: Path) -> Any:
    """Run with a range ten times too wide, which probing rounds improve."""
    wide = ("--range", 0, 1000, "--epsilon", 2, "--feedback")
    return run_of_csv(folder, *wide, "--every", "1h", "--truth", hours=24)


def run_with_graph(folder: Path) -> Any:
    """Run with real groups."""
    robust = ("--graph", inputs.write_graph(folder), "--alpha", 0.5, "--groups", 6)
    return run_of_csv(folder, *RANGE, *robust, "--every", "2h", "--mechanism", "hybrid", "--truth")


def run_with_gaps(folder: Path, *arguments: object) -> Any:
    """Run a table that lacks an hour, with windows over it."""
    rows = inputs.readings_of(9, without=frozenset({4}))
    table = inputs.write_csv(folder, rows)
    asked = (*RANGE, "--every", "1h", "--window", 4, "--truth", "--as-known-then", *arguments)
    return printed("run", table, *asked, *SEEDED, folder=folder)


def plan(folder: Path, *arguments: object) -> Any:
    """Plan."""
    return printed("plan", *arguments, "--json", folder=folder)


def plan_with_data(folder: Path, *arguments: object) -> Any:
    """Plan for a table of two days."""
    table = inputs.write_csv(folder, inputs.readings_of(48))
    return plan(folder, "--range", 0, 100, "--data", table, *arguments)


def plan_with_advice(folder: Path) -> Any:
    """Plan for a recommended range."""
    advice = inputs.write_range_advice(folder)
    return plan(folder, "--range-from", advice, "--epsilon", 1, "--devices", 100)


def lab(folder: Path, name: str) -> Any:
    """Run an experiment."""
    return printed("lab", "run", name, *FLEET, folder=folder)


def audit(folder: Path) -> Any:
    """Audit claims with few samples, but for those that draw secure words whatever the seed."""
    seeded = ("report", "certificate", "device", "two devices", "channel")
    only = [word for name in seeded for word in ("--only", name)]
    asked = ("--samples", 2000, "--seed", 1, *only)
    return printed("lab", "audit", *asked, "--json", folder=folder)


def attack(folder: Path) -> Any:
    """Attack a configuration, without the attacks that fit a forest."""
    configuration = inputs.write_configuration(folder)
    attacks = ("slot", "value", "profile", "bayes", "matching", "mallows_aware", "linkage")
    named = [word for name in (*attacks, "averaging") for word in ("--attack", name)]
    asked = ("fleet:16x5:1", "--config", configuration, *named, "--every", "1h")
    return printed("attack", *asked, "--seed", 1, "--json", folder=folder)


def demo(folder: Path) -> Any:
    """Run the demonstration: real servers and homes over HTTP, with a clock that does not wait."""
    asked = ("--homes", 800, "--days", 1, "--shuffled-epsilon", 2, "--seed", 3)
    return printed("demo", *asked, "--out", folder / "demo.png", "--json", folder=folder)


def _asked(command: Callable[..., Any], *arguments: object) -> Command:
    return lambda folder: command(folder, *arguments)


_WINDOWS = ("--every", "1h", "--window", "4h", "--truth", "--trials", 2, "--level", 0.9)
_DAY = ("--devices", 537, "--every", "1h", "--window", "1d")

COMMANDS: dict[str, dict[str, Command]] = {
    "run": {
        "run-estimators": _asked(
            run_of_csv, *RANGE, "--mechanism", "laplace", "--every", "1h", *ALL_ESTIMATORS
        ),
        "run-windows": _asked(
            run_of_csv, *RANGE, *_WINDOWS, "--estimator", "tracked", "--estimator", "median"
        ),
        "run-bootstrap": _asked(
            run_of_csv, *RANGE, "--every", "2h", "--estimator", "bootstrap-mean", "--truth"
        ),
        "run-each-time": _asked(run_of_csv, *RANGE, "--steps", 64, "--truth"),
        "run-parquet": run_of_parquet,
        "run-budgets": run_with_budgets,
        "run-feedback": run_with_feedback,
        "run-graph": run_with_graph,
        "run-gaps": run_with_gaps,
        "run-gaps-strict": _asked(run_with_gaps, "--strict"),
        **{
            f"run-{name}": _asked(
                run_of_csv, *RANGE, "--every", "5h", "--mechanism", name, "--truth"
            )
            for name in MECHANISMS
        },
    },
    "plan": {
        "plan-epsilon": _asked(plan, "--range", 0, 3000, "--epsilon", 1, "--devices", 1000),
        "plan-error": _asked(
            plan, "--range", 0, 3000, "--epsilon", 1, *_DAY, "--error", 50, "--plot", "plan.svg"
        ),
        "plan-precision": _asked(
            plan,
            *("--range", 0, 100, "--epsilon", 5, "--devices", 64, "--mechanism", "budget-aware"),
            *("--beta", 0.4, "--rho", 0.8, "--delta", 1e-8),
        ),
        "plan-mallows": _asked(
            plan,
            *("--range", 0, 100, "--epsilon", 1, "--devices", 64, "--mechanism", "budget-aware"),
            *("--alpha", 0.3, "--groups", 4, "--attacker-cap", 2),
        ),
        "plan-rotate": _asked(
            plan, "--range", 0, 16, *_DAY, "--window-budget", 1, "--schedule", "rotate"
        ),
        "plan-split": _asked(
            plan, "--range", 0, 16, *_DAY, "--window-budget", 1, "--schedule", "split"
        ),
        "plan-forecast": _asked(
            plan, "--range", 0, 100, "--epsilon", 1, *_DAY, "--fleet-sd", 6, "--day-sd", 4
        ),
        "plan-data": _asked(plan_with_data, "--epsilon", 1, "--every", "1h", "--window", "6h"),
        "plan-advice": plan_with_advice,
    },
    "lab": {
        f"lab-{name}": _asked(lab, name)
        for name in ("table1", "mallows-centre", "fig7", "switch-off", "composition")
    },
    "audit": {"audit": audit},
    "attack": {"attack": attack},
    "demo": {"demo": demo},
}
