"""What ``rase plan --data`` forecasts: the error of `tracked` next to that of a constant."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.accounting.forecast import Forecast, Mechanisms, Remedy, forecast_error, remedies
from rase.accounting.plan.values import Plan
from rase.accounting.synthetic_forecast import FleetMovement, forecast_movement, movement_remedies
from rase.cli.output import show_progress
from rase.domain import Range
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named
from rase.tables.readings import Contributions

__all__ = ["Outlook", "forecast_lines", "outlook_of", "outlook_of_movement", "table_of"]

Floats = NDArray[np.float64]

# The first month of hours shows how a fleet moves; more would only take longer.
_MOST_ROUNDS = 720
_MOST_READINGS = 2_000_000
_READINGS = "your readings"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast for the fleet that was asked for.

    Args:
        forecast: The errors.
        devices: How many devices it is for.
        helps: What would beat the constant, where it is not beaten.
        basis: What it was tried on, in words.
    """

    forecast: Forecast
    devices: int
    helps: tuple[Remedy, ...]
    basis: str = _READINGS

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **asdict(self.forecast),
            "devices": self.devices,
            "skill": self.forecast.skill,
            "beats_constant": self.forecast.beats_constant,
            "helps": [asdict(one) for one in self.helps],
            "basis": self.basis,
        }


def table_of(some: Contributions, interval_ms: int) -> tuple[Floats, Floats]:
    """Return the readings of the first rounds as rounds x devices, and when each round began."""
    rounds, devices, readings = some.round, some.device, some.reading
    numbers = np.unique(rounds)
    columns = int(devices.max()) + 1
    most = max(min(_MOST_ROUNDS, _MOST_READINGS // columns), 2)
    numbers = numbers[:most]
    chosen = rounds <= numbers[-1]
    table = np.full((len(numbers), columns), np.nan)
    table[np.searchsorted(numbers, rounds[chosen]), devices[chosen]] = readings[chosen]
    return table, np.asarray(numbers * (interval_ms / 1000), dtype=np.float64)


def outlook_of(plan: Plan, table: tuple[Floats, Floats]) -> Outlook | None:
    """Forecast what `tracked` achieves; None where one round or part of a fleet shows nothing.

    A fleet that is larger than the data's is made of as many copies of it as fit.
    """
    readings, times_s = table
    request = plan.request
    copies = request.devices // readings.shape[1]
    # To rotate or split is to report otherwise than the trial does.
    if len(times_s) < 2 or not copies or request.schedule.name != "every":
        return None

    made = _maker(plan)
    mechanism = made(request.epsilon, request.value_range)
    with show_progress() as show:
        forecast = forecast_error(
            readings,
            times_s,
            mechanism=mechanism,
            copies=copies,
            on_trial=lambda share: show("trying the estimator on your data", share),
        )
    helps: tuple[Remedy, ...] = ()
    if not forecast.beats_constant:
        helps = remedies(
            readings,
            times_s,
            mechanism_of=made,
            epsilon=request.epsilon,
            value_range=request.value_range,
        )
    return Outlook(forecast, copies * readings.shape[1], helps)


def outlook_of_movement(plan: Plan, movement: FleetMovement, *, every_s: int) -> Outlook | None:
    """Forecast what `tracked` achieves on a fleet whose movement was stated; None likewise."""
    request = plan.request
    if request.schedule.name != "every":
        return None
    made = _maker(plan)
    with show_progress() as show:
        show("trying the estimator on a fleet that moves so", 0.0)
        forecast = forecast_movement(
            movement,
            every_s=every_s,
            devices=request.devices,
            mechanism=made(request.epsilon, request.value_range),
        )
        helps: tuple[Remedy, ...] = ()
        if not forecast.beats_constant:
            helps = movement_remedies(
                movement,
                every_s=every_s,
                devices=request.devices,
                mechanism_of=made,
                epsilon=request.epsilon,
                value_range=request.value_range,
            )
    return Outlook(forecast, request.devices, helps, "a made-up fleet that moves as stated")


def _maker(plan: Plan) -> Mechanisms:
    request = plan.request

    def make_randomizer(epsilon: float, value_range: Range) -> RangeRandomizer:
        return randomizer_named(
            request.mechanism, epsilon, domain=value_range, precision=request.precision
        )

    return make_randomizer


def forecast_lines(outlook: Outlook) -> Iterator[str]:
    """Yield the forecast, for people."""
    yield from _numbers(outlook)
    if outlook.basis == _READINGS:
        expected = outlook.forecast
        others = "these are too few rounds to say how far off it would be on others."
        if math.isfinite(expected.other_high):
            others = (
                "one run on as many other rounds: "
                f"{expected.other_low:.3g} to {expected.other_high:.3g} in 9 of 10 cases."
            )
        yield f"          for the days of these readings; {others}"


def _numbers(outlook: Outlook) -> Iterator[str]:
    expected = outlook.forecast
    yield (
        f"forecast  on {expected.rounds} rounds of {outlook.basis} with trial noise, "
        f"{outlook.devices} devices: tracked RMSE {expected.tracked:.4g} per round "
        f"({expected.error_low:.3g} to {expected.error_high:.3g}), a round by itself "
        f"{expected.alone:.4g}, the constant learnt from earlier rounds {expected.history:.4g}."
    )
    skill = f"          skill {expected.skill:.2f}, at least {expected.skill_low:.2f}:"
    if expected.beats_constant:
        yield f"{skill} worth more than repeating a constant."
        return
    yield f"{skill} it does not clearly beat repeating a constant."
    for one in outlook.helps:
        what = "a range of width" if one.what == "range" else one.what
        yield f"          {what} {one.value:g} would: skill {one.skill:.2f}."
    if not outlook.helps:
        yield (
            "          nor would 16 times the devices or epsilon or a range that just holds the "
            "readings; take the mean over a window."
        )
