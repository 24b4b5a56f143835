"""Schedules in plans: numbers that agree with the schedules, their windows and simulation."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import BudgetAware, Precision, Range, SeededRandom
from rase.accounting.amplification import LOCAL_THEOREM, amplify, lower_bound
from rase.accounting.error_model import PREDICTED, ErrorModel, FleetReadings
from rase.accounting.plan import plan
from rase.accounting.plan.schedule import (
    ReportSchedule,
    errors_by_schedule,
    report_schedule,
    turn_error,
)
from rase.accounting.schedule import Rotate, Schedule, Split
from rase.laws.registry import randomizer_named

PUBLIC = Range(0, 16)
PRECISION = Precision(beta=0.5, rho=0.9)
Floats = NDArray[np.float64]


def budget(name: str, rounds: int = 24, window_budget: float = 1.0) -> ReportSchedule:
    """Return a schedule of a window's budget."""
    return report_schedule(name, rounds, epsilon=None, window_budget=window_budget)


@each_case("rounds", [1, 5, 23, 24, 25, 100, 720])
def test_reports_are_those_of_the_real_schedules(rounds: int) -> None:
    """No stretch of rounds holds more reports than planned, and some stretch as many."""
    real: dict[str, Schedule] = {
        "split": Split(1.0, 24),
        "rotate": Rotate(1.0, 24, secret=bytes(16), campaign="power"),
    }
    for name, schedule in real.items():
        planned = budget(name)
        spent = [schedule.epsilon_at(round) for round in range(1000)]
        counts = [
            sum(one is not None for one in spent[start : start + rounds]) for start in range(48)
        ]
        assert max(counts) == planned.reports_in(rounds)
        assert {one for one in spent if one is not None} == {planned.epsilon}
        for start in range(48):
            assert sum(one or 0 for one in spent[start : start + 24]) <= planned.window_budget


def test_a_report_or_a_window_tells_the_other() -> None:
    """The budget of a window is that of its reports, to the billionth."""
    assert report_schedule("rotate", 24, epsilon=0.7, window_budget=None) == ReportSchedule(
        "rotate", 24, 0.7, 0.7, 1
    )
    split = report_schedule("split", 24, epsilon=0.05, window_budget=None)
    assert (split.window_budget, split.reports_per_window) == (1.2, 24)
    assert report_schedule("every", 24, epsilon=0.5, window_budget=None) == ReportSchedule(
        "every", 24, 0.5, 12.0, 24
    )
    capped = report_schedule("every", 24, epsilon=0.1, window_budget=0.3)
    assert (capped.reports_per_window, capped.reports_in(50)) == (3, 8)
    assert capped.empty_share(100) == pytest.approx(21 / 24)
    assert report_schedule("every", 4, epsilon=0.1, window_budget=5).reports_per_window == 4


@each_case(
    ("name", "asked", "message"),
    [
        ("daily", {}, "schedule must be every, split or rotate, got 'daily'."),
        ("every", {}, "epsilon must be given; or window_budget with schedule split or rotate"),
        ("split", {}, "epsilon or window_budget must be given to split, one of them."),
        ("rotate", {"epsilon": 1.0, "window_budget": 1.0}, "to rotate, not both."),
        ("rotate", {"epsilon": 1.0, "rounds": 1}, "window must be at least 2 rounds to rotate"),
        ("every", {"epsilon": 1.0, "window_budget": 0.9}, "at least one report's epsilon, 1"),
        ("split", {"window_budget": math.nan}, "window_budget must be greater than 0"),
        ("rotate", {"window_budget": -1.0}, "window_budget must be greater than 0"),
        ("split", {"window_budget": 1e-9}, "window must leave at least 1e-09 for each round"),
    ],
)
def test_budgets_that_say_nothing_are_refused(
    name: str, asked: dict[str, Any], message: str
) -> None:
    """Neither budget, both, or one that allows no report."""
    asked = {"rounds": 24, "epsilon": None, "window_budget": None, **asked}
    with pytest.raises(ValueError, match=message):
        report_schedule(name, asked.pop("rounds"), **asked)


@each_case("estimator", PREDICTED)
def test_errors_of_rotating_devices_are_those_of_a_simulation(estimator: str) -> None:
    """The noise of 4000 rounds, with turns drawn anew, is that of the plan.

    Each noise is known to 1.1 % (one standard error), and the median's law to 4 %: 10 % fails
    fewer than one correct run in a million. Without the readings' own spread, or with noise 30 %
    larger, that of n / 1.69 w reports, it would fail.
    """
    devices, turns, rounds = 600, 6, 4000
    public = Range(0, 1)
    drawn = BudgetAware(4.0, public, PRECISION)
    readings = np.where(np.arange(devices) % 2 == 0, 0.1, 0.9)
    fleet = FleetReadings.of(readings, public)
    planned = turn_error(ErrorModel(drawn), estimator, devices, turns=turns, readings=fleet)
    found = estimates(estimator, drawn, readings, turns=turns, rounds=rounds)
    assert found.std() == pytest.approx(planned.noise, rel=0.1)
    assert found.mean() - 0.5 == pytest.approx(planned.bias, abs=0.35 * planned.noise)
    unsampled = ErrorModel(drawn).expected_error(estimator, devices // turns, readings=fleet)
    assert found.std() > 1.1 * unsampled.noise
    fewer = turn_error(
        ErrorModel(drawn), estimator, int(devices / 1.69), turns=turns, readings=fleet
    )
    assert found.std() != pytest.approx(fewer.noise, rel=0.1)


def estimates(
    estimator: str, drawn: BudgetAware, readings: Floats, *, turns: int, rounds: int
) -> Floats:
    """Return the estimates of many rounds in which each device reports by chance."""
    rng = np.random.default_rng(2026)
    is_chosen = rng.integers(turns, size=(rounds, readings.size)) == 0
    chosen = np.broadcast_to(readings, is_chosen.shape)[is_chosen]
    reports = drawn.randomize(chosen, rng=SeededRandom(2026))
    if estimator in ("unbiased_mean", "winsorized_mean"):
        reports = drawn.decode(reports)
    parts = np.split(reports, np.cumsum(is_chosen.sum(axis=1))[:-1])
    return np.array([np.median(one) if estimator == "median" else one.mean() for one in parts])


def test_worst_cases_bound_what_readings_give() -> None:
    """No spread of readings errs more than the worst case, with turns as without."""
    for name in ("budget-aware", "hybrid"):
        model = ErrorModel(randomizer_named(name, 1.5, domain=PUBLIC, precision=PRECISION))
        for estimator in PREDICTED:
            worst = turn_error(model, estimator, 500, turns=10, readings=None)
            for readings in ([0.0], [16.0], [0.0, 16.0], [8.0], list(range(17))):
                fleet = FleetReadings.of(readings, PUBLIC)
                one = turn_error(model, estimator, 500, turns=10, readings=fleet)
                assert one.noise <= worst.noise * 1.02
                assert abs(one.bias) <= worst.bias * 1.02 + 1e-9


def test_all_devices_in_one_round_are_no_sample() -> None:
    """Without turns the errors are those of the model."""
    model = ErrorModel(BudgetAware(1.0, PUBLIC, PRECISION))
    fleet = FleetReadings.of([1.0, 2.0, 15.0], PUBLIC)
    for estimator in PREDICTED:
        plain = turn_error(model, estimator, 100, turns=1, readings=fleet)
        assert plain.noise == pytest.approx(
            model.expected_error(estimator, 100, readings=fleet).noise
        )


def test_who_rotates_hides_among_fewer() -> None:
    """The guarantee is that of the fewest reports that half of delta leaves, with the other half.

    A device alone in its turn is not amplified; the lower bound is that of the whole fleet.
    """
    epsilon, devices, delta = 0.5, 24_000, 1e-6
    rotate = budget("rotate", window_budget=epsilon)
    found = rotate.central_guarantee(
        lambda n, share: amplify(epsilon, n, delta=share),
        epsilon,
        devices=devices,
        rounds=1,
        delta=delta,
    )
    # Of 1000 expected, five deviations below.
    assert 800 < found.n < 900
    counts = np.random.default_rng(2026).binomial(devices - 1, 1 / 24, 100_000) + 1
    assert counts.min() >= found.n
    assert found.epsilon == amplify(epsilon, found.n, delta=delta / 2).epsilon
    assert found.delta == delta
    assert found.lower_bound == lower_bound(epsilon, devices, rounds=1, delta=delta)
    assert found.lower_bound < found.epsilon > amplify(epsilon, 1000, delta=delta).epsilon
    alone = rotate.central_guarantee(
        lambda n, share: amplify(epsilon, n, delta=share),
        epsilon,
        devices=30,
        rounds=3,
        delta=delta,
    )
    assert not alone.is_amplified
    assert (alone.epsilon, alone.theorem, alone.n) == (1.5, LOCAL_THEOREM, 1)
    everyone = report_schedule("every", 24, epsilon=epsilon, window_budget=None)
    assert everyone.central_guarantee(
        lambda n, share: amplify(epsilon, n, delta=share),
        epsilon,
        devices=1000,
        rounds=1,
        delta=delta,
    ) == amplify(epsilon, 1000, delta=delta)


def test_plans_follow_the_schedule() -> None:
    """Reports per period, errors per round and window, and the comparison of both."""
    asked: dict[str, Any] = {"devices": 537, "interval_s": 3600, "window": 24, "detail": "quick"}
    made = {
        name: plan(PUBLIC, schedule=name, window_budget=1.0, mechanism="budget-aware", **asked)
        for name in ("split", "rotate")
    }
    assert [(one.name, one.reports) for one in made["rotate"].periods] == [
        ("report", 1),
        ("month", 30),
    ]
    assert [(one.name, one.reports) for one in made["split"].periods] == [
        ("report", 1),
        ("day", 24),
        ("month", 720),
    ]
    for name, one in made.items():
        row = one.error("unbiased_mean")
        assert row.window.noise == pytest.approx(row.round.noise / math.sqrt(24))
        assert one.schedule_errors[name] == pytest.approx(row.round.total)
        assert one.standard_errors["budget-aware"] == pytest.approx(row.round.noise)
    assert made["split"].schedule_errors == made["rotate"].schedule_errors
    advised = made["split"].recommendation.remedies
    assert any(line.startswith("With schedule rotate a round errs by") for line in advised)
    assert not any("schedule split" in line for line in made["rotate"].recommendation.remedies)
    assert plan(PUBLIC, 1.0, **asked).schedule_errors == {}
    assert made["rotate"].shuffle.n == 22


def test_a_wish_is_met_under_a_schedule() -> None:
    """What is said to suffice does, with the same turns."""
    asked: dict[str, Any] = {"window": 12, "schedule": "rotate", "detail": "quick"}
    wish = plan(PUBLIC, 1.0, devices=500, error=0.5, **asked).wish
    assert wish is not None
    assert wish.devices.value is not None
    needed = int(wish.devices.value)
    assert plan(PUBLIC, 1.0, devices=needed, error=0.5, **asked).wish.is_met  # type: ignore[union-attr]
    fewer = plan(PUBLIC, 1.0, devices=needed - 10, error=0.5, **asked).wish
    assert fewer is not None
    assert not fewer.is_met


def test_schedules_out_of_bounds_are_left_out_of_the_comparison() -> None:
    """A budget that cannot be rotated, because a report would have epsilon 48, is split."""
    split = report_schedule("split", 24, epsilon=2.0, window_budget=None)

    def mechanism_at(epsilon: float) -> BudgetAware:
        return BudgetAware(epsilon, PUBLIC, PRECISION)

    found = errors_by_schedule(split, mechanism_at, devices=100, readings=None)
    assert list(found) == ["split"]


def test_rounds_that_stay_empty_are_warned_about() -> None:
    """Twenty devices that rotate over 24 rounds leave four rounds in ten without a report."""
    made = plan(PUBLIC, 1.0, devices=20, window=24, schedule="rotate", detail="quick")
    assert "43 % of the rounds have no report, and no estimate." in made.recommendation.warnings


def test_live_plans_of_rotating_fleets_look_only_where_there_is_time() -> None:
    """Up to 20,000 devices an observer of one round is asked; above, nothing is claimed of one."""
    for devices, is_asked in ((5000, True), (30_000, False)):
        made = plan(Range(0, 1), 1.0, devices=devices, window=4, schedule="rotate", detail="live")
        central = made.periods[0].central
        assert central is not None
        assert (central.lower_bound > 0) == is_asked
