"""The measurements behind the figures, on small panels."""

import json
from typing import Any

import numpy as np
import pytest

from rase.domain import Range
from rase.errors import DataError
from rase.lab.datasets import open_panel
from rase.lab.experiments.measure import chosen_devices, run_measurement
from rase.lab.panel import Panel
from rase.laws.registry import randomizer_named

PANEL = open_panel("fleet:16x5:1")
ATTACK: dict[str, Any] = {
    "n": 16,
    "epsilon": 10.0,
    "high": 178.3,
    "alpha": 30.0,
    "groups": 4,
    "seed": 1,
}
ESTIMATORS = ["sample_mean", "median", "unbiased_mean"]


def with_gaps() -> Panel:
    """Return the panel with a silent round and a silent device in another."""
    values = PANEL.values.copy()
    values[0] = np.nan
    values[1:, 0] = np.nan
    values[1, 0] = 4.0
    return Panel(PANEL.times_ms, PANEL.devices, values)


def test_outcomes_are_plain_and_repeat() -> None:
    """Every measurement can be written as JSON, and the same settings give the same outcome."""
    cells: list[tuple[str, dict[str, Any]]] = [
        ("attack", {**ATTACK, "scheme": "br", "attack": "profile", "trees": 5}),
        ("attack", {**ATTACK, "scheme": "rase-paper", "attack": "bayes"}),
        (
            "mean_errors",
            {"n": 8, "mechanism": "hybrid", "epsilon": 1.0, "high": 100.0, "rounds": 4, "seed": 1,
             "estimators": ESTIMATORS},
        ),
        (
            "trace",
            {"n": 8, "epsilon": 1.0, "high": 100.0, "days": 2, "seed": 1, "estimators": ESTIMATORS},
        ),
        (
            "watched",
            {"n": 8, "scheme": "br", "epsilon": 1.0, "high": 100.0, "rounds": [1, 9], "seed": 1},
        ),
        ("order", {"n": 16, "groups": 4, "alpha": 30.0}),
        ("order", {"n": 16, "groups": 16, "alpha": 30.0}),
    ]  # fmt: skip
    for measure, settings in cells:
        outcome = json.dumps(run_measurement(PANEL, measure, settings), allow_nan=False)
        assert json.dumps(run_measurement(PANEL, measure, settings)) == outcome


def test_raw_is_found_and_uniform_is_not() -> None:
    """A place that is always the same device's gives it away; a uniform order does not."""
    kept = run_measurement(
        PANEL, "attack", {**ATTACK, "scheme": "br", "attack": "slot", "trees": 5}
    )
    mixed = run_measurement(
        PANEL, "attack", {**ATTACK, "scheme": "best", "attack": "slot", "trees": 5}
    )
    assert kept["macro_recall"] == 1.0
    assert mixed["macro_recall"] < 0.2


def test_errors_are_those_of_the_estimators() -> None:
    """At a huge epsilon unclamped reports are exact; clamped ones at a small one are biased."""
    settings = {"n": 16, "high": 1000.0, "rounds": 20, "seed": 1, "estimators": ESTIMATORS}
    exact = run_measurement(
        PANEL, "mean_errors", {**settings, "mechanism": "laplace", "epsilon": 30.0}
    )["errors"]["sample_mean"]
    biased = run_measurement(
        PANEL, "mean_errors", {**settings, "mechanism": "budget-aware", "epsilon": 0.5}
    )["errors"]["sample_mean"]
    # The noise of a round's mean is 1000 / 30 * sqrt(2 / 16) = 12 W.
    assert exact["rmse"] < 30
    # Clamped to 0 .. 1000 W, reports of a small reading lie at 390 W on average.
    assert biased["bias"] > 250
    assert biased["aae_low"] <= biased["aae"] <= biased["aae_high"]


def test_gaps_are_left_out() -> None:
    """Rounds and devices without readings are left out, not counted as 0."""
    panel = with_gaps()
    settings = {"n": 16, "epsilon": 1.0, "high": 100.0, "seed": 1}
    errors = run_measurement(
        panel,
        "mean_errors",
        {**settings, "mechanism": "duchi", "rounds": 120, "estimators": ESTIMATORS},
    )
    assert errors["rounds"] == panel.rounds - 1
    trace = run_measurement(panel, "trace", {**settings, "days": 9, "estimators": ESTIMATORS})
    assert len(trace["days"]["truth"]) == 5
    rounds = {"scheme": "br", "rounds": [1, 2], "epsilon": 1.0, "high": 100.0, "seed": 1, "n": 16}
    with pytest.raises(DataError, match="a reading in every round"):
        run_measurement(panel, "watched", rounds)
    panel = Panel(panel.times_ms[1:], panel.devices, panel.values[1:])
    complete = int((~np.isnan(panel.values).any(axis=0)).sum())
    assert run_measurement(panel, "watched", rounds)["n"] == complete


def test_a_silent_day_has_no_mean() -> None:
    """A day without readings is a gap in the trace, not 0."""
    values = PANEL.values.copy()
    values[24:48] = np.nan
    panel = Panel(PANEL.times_ms, PANEL.devices, values)
    settings = {"n": 16, "epsilon": 1.0, "high": 100.0, "seed": 1, "days": 3}
    trace = run_measurement(panel, "trace", {**settings, "estimators": ESTIMATORS})
    assert trace["days"]["truth"][1] is None
    assert trace["days"]["truth"][2] is not None


def test_nothing_to_measure() -> None:
    """Readings that none of the chosen rounds hold are refused."""
    empty = Panel(PANEL.times_ms, PANEL.devices, np.full(PANEL.values.shape, np.nan))
    settings = {"n": 16, "epsilon": 1.0, "high": 100.0, "seed": 1, "rounds": 5, "estimators": []}
    with pytest.raises(DataError, match="got none"):
        run_measurement(empty, "mean_errors", {**settings, "mechanism": "laplace"})


def test_devices_are_chosen_by_seed() -> None:
    """Some devices are drawn by the seed, in their sequence; more than there are, refused."""
    some = chosen_devices(PANEL, 8, 1)
    assert (np.diff(some) > 0).all()
    assert (some == chosen_devices(PANEL, 8, 1)).all()
    assert (some != chosen_devices(PANEL, 8, 2)).any()
    assert (chosen_devices(PANEL, 16, 1) == np.arange(16)).all()
    with pytest.raises(DataError, match="at least 17 devices, got 16"):
        chosen_devices(PANEL, 17, 1)


@pytest.mark.parametrize("name", ["budget-aware", "laplace", "duchi", "piecewise", "hybrid"])
def test_mechanisms_by_name(name: str) -> None:
    """Every mechanism has its name."""
    assert randomizer_named(name, 1.0, domain=Range(0, 1)).epsilon == 1.0
