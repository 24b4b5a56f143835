"""What a schedule does to a plan: with which epsilon, how often and among how many one reports.

The schedules themselves are in `rase.accounting.schedule`, and the ledger on the device holds the
window budget whatever they say. Here they are numbers to plan with.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rase.accounting.amplification import LOCAL_THEOREM, Amplification, epsilon_of, lower_bound
from rase.accounting.binomial import probabilities, window
from rase.accounting.blanket import Covered
from rase.accounting.error_model import Error, ErrorModel, FleetReadings
from rase.accounting.ledger.nano import nano_from_limit, nano_from_spending, nano_to_epsilon
from rase.accounting.schedule import Split
from rase.laws.randomizer import RangeRandomizer
from rase.privacy import MAX_EPSILON, MIN_EPSILON

__all__ = [
    "SCHEDULES",
    "ReportSchedule",
    "errors_by_schedule",
    "mean_inverse",
    "report_schedule",
    "turn_error",
]

SCHEDULES = ("every", "split", "rotate")

# Numbers of reports in a round that are rarer than this do not change a mean error.
_LOG_RARE = math.log(1e-15)


@dataclass(frozen=True, slots=True)
class ReportSchedule:
    """What a schedule means for a device and for a round.

    Args:
        name: ``every``, ``split`` or ``rotate``.
        window: How many rounds share a budget.
        epsilon: The budget of one report.
        window_budget: What a device spends at most in any window.
        reports_per_window: How many reports a device makes in any window, at most.
    """

    name: str
    window: int
    epsilon: float
    window_budget: float
    reports_per_window: int

    @property
    def turns(self) -> int:
        """Of how many devices one reports in a round: 1 unless they rotate."""
        return self.window if self.name == "rotate" else 1

    def reports_in(self, rounds: int) -> int:
        """Return how many reports a device makes at most in consecutive rounds.

        Whole windows hold ``reports_per_window`` each, and the rest no more than its rounds.
        """
        windows, rest = divmod(rounds, self.window)
        return windows * self.reports_per_window + min(self.reports_per_window, rest)

    def reports_of_round(self, devices: int) -> float:
        """Return how many reports are expected in a round in which devices may report."""
        return devices / self.turns

    def empty_share(self, devices: int) -> float:
        """Return the share of rounds without any report."""
        if self.name == "rotate":
            return (1 - 1 / self.window) ** devices
        return 1 - self.reports_per_window / self.window

    def central_guarantee(
        self,
        bound: Callable[[int, float], Amplification],
        mechanism: Covered | float,
        *,
        devices: int,
        rounds: int,
        delta: float,
        observed: int | None = None,
    ) -> Amplification:
        """Return the central guarantee of a device's reports among those of its rounds.

        Who rotates hides among the devices of the same turn, whose number is chance: turns are
        drawn without regard to readings. With a probability of at most delta / 2 there are fewer
        than the number taken here; the bound gets the other half. The lower bound is that of all
        devices in one round, which hides at least as well.

        Args:
            bound: The guarantee for a number of reports and a delta.
            mechanism: What a report is drawn from, or its epsilon.
            devices: How many devices the fleet has.
            rounds: In how many rounds the device reports.
            delta: The delta allowed.
            observed: In how many of the rounds the lower bound's observer looks, and quickly; all
                unless given.
        """
        if self.turns == 1:
            return bound(devices, delta)
        others, _ = window(devices - 1, 1 / self.turns, math.log(delta / 2))
        looked, is_quick = (rounds, False) if observed is None else (observed, True)
        lower = 0.0
        if looked:
            lower = lower_bound(mechanism, devices, rounds=looked, delta=delta, is_quick=is_quick)
        local = epsilon_of(mechanism)
        if others == 0:
            alone = rounds * local
            return Amplification(alone, delta, 1, local, LOCAL_THEOREM, lower, rounds)
        return replace(bound(others + 1, delta / 2), delta=delta, lower_bound=lower)


def report_schedule(
    name: str, rounds: int, *, epsilon: float | None, window_budget: float | None
) -> ReportSchedule:
    """Return a schedule from the budget of a report or of a window, whichever was given.

    Args:
        name: ``every``, ``split`` or ``rotate``.
        rounds: The window.
        epsilon: The budget of one report.
        window_budget: The budget of any window. With ``every`` it is a limit besides epsilon: the
            ledger refuses what exceeds it.

    Raises:
        ValueError: If the name is unknown, the window too short, or the budgets do not determine
            one another.

    Example:
        >>> report_schedule("split", 24, epsilon=None, window_budget=1.0).epsilon
        0.041666666
        >>> report_schedule("rotate", 24, epsilon=None, window_budget=1.0).reports_in(720)
        30
    """
    if name not in SCHEDULES:
        raise ValueError(f"schedule must be every, split or rotate, got {name!r}.")
    if name == "every":
        return _every(rounds, epsilon=epsilon, window_budget=window_budget)
    if rounds < 2:
        raise ValueError(f"window must be at least 2 rounds to {name} a budget, got {rounds}.")
    reports = rounds if name == "split" else 1
    if epsilon is not None and window_budget is None:
        spent = nano_from_spending("epsilon", epsilon)
        return ReportSchedule(name, rounds, epsilon, nano_to_epsilon(reports * spent), reports)
    if epsilon is not None or window_budget is None:
        how = "one of them" if epsilon is None else "not both"
        raise ValueError(f"epsilon or window_budget must be given to {name}, {how}.")
    epsilon = nano_to_epsilon(nano_from_limit("window_budget", window_budget))
    if name == "split":
        epsilon = Split(window_budget, rounds).epsilon_at(0)
    return ReportSchedule(name, rounds, epsilon, window_budget, reports)


def errors_by_schedule(
    asked: ReportSchedule,
    mechanism_at: Callable[[float], RangeRandomizer],
    *,
    devices: int,
    readings: FleetReadings | None,
) -> dict[str, float]:
    """Return the error of a round's mean if the same window budget is split, and if rotated.

    A schedule whose report would have an epsilon out of bounds is left out; all of them are where
    devices report in every round with an epsilon of their own.

    Args:
        asked: The schedule asked for.
        mechanism_at: The mechanism at an epsilon.
        devices: How many devices the fleet has.
        readings: As for `turn_error`.
    """
    errors: dict[str, float] = {}
    if asked.name == "every":
        return errors
    for name in ("split", "rotate"):
        one = report_schedule(name, asked.window, epsilon=None, window_budget=asked.window_budget)
        if MIN_EPSILON <= one.epsilon <= MAX_EPSILON:
            model = ErrorModel(mechanism_at(one.epsilon))
            errors[name] = turn_error(
                model, "unbiased_mean", devices, turns=one.turns, readings=readings
            ).total
    return errors


def turn_error(
    model: ErrorModel,
    estimator: str,
    devices: int,
    *,
    turns: int,
    readings: FleetReadings | None,
) -> Error:
    """Return the error of a round in which one of ``turns`` devices reports, by chance.

    The error of not asking the others is part of the noise. Rounds without a report have no
    estimate, and do not count.

    Args:
        model: The mechanism's error model.
        estimator: Whose error.
        devices: How many devices the fleet has.
        turns: 1 if all of them report.
        readings: How readings are spread; None for the worst case.
    """
    if turns == 1:
        reports, inverse, sampling = devices, 1 / devices, 0.0
    else:
        inverse = mean_inverse(devices, turns)
        reports, sampling = max(1, math.floor(1 / inverse)), 1 - 1 / turns
    if readings is None:
        error = model.worst(estimator, reports, sampling=sampling)
    else:
        error = model.expected_error(estimator, reports, readings=readings, sampling=sampling)
    # The noise of means falls with the root of the number of reports, which is no whole number.
    return Error(error.bias, error.noise * math.sqrt(reports * inverse))


def _every(rounds: int, *, epsilon: float | None, window_budget: float | None) -> ReportSchedule:
    if epsilon is None:
        raise ValueError("epsilon must be given; or window_budget with schedule split or rotate.")
    if window_budget is None:
        return ReportSchedule("every", rounds, epsilon, rounds * epsilon, rounds)
    allowed = nano_from_limit("window_budget", window_budget)
    reports = min(rounds, allowed // nano_from_spending("epsilon", epsilon))
    if reports == 0:
        raise ValueError(
            f"window_budget must be at least one report's epsilon, {epsilon:g}, got "
            f"{window_budget:g}."
        )
    return ReportSchedule("every", rounds, epsilon, window_budget, reports)


@lru_cache(maxsize=512)
def mean_inverse(devices: int, turns: int) -> float:
    """Return the mean of 1 / reports over rounds that have reports."""
    low, high = window(devices, 1 / turns, _LOG_RARE)
    counts = np.arange(max(1, low), max(1, high) + 1)
    chances = probabilities(counts, devices, 1 / turns)
    return float((chances / counts).sum() / chances.sum())
