"""What `tracked` will achieve on a fleet whose manner of moving is stated, but not its data.

The mean of the fleet is made up as it was described, and the noise of rounds drawn from its law:
no reading is needed, and none is looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rase.accounting.forecast import (
    Floats,
    Forecast,
    Mechanisms,
    Remedy,
    forecast_of,
    tried_remedies,
)
from rase.domain import Range
from rase.laws.randomizer import RangeRandomizer
from rase.series.runs import RunMeans, runs_of

__all__ = ["FleetMovement", "forecast_movement", "movement_remedies"]

_DAY_S = 86_400.0
# A month of hours, or as many rounds of another length; remedies are tried on ten days of hours.
_ROUNDS, _TRIED_ROUNDS = 720, 240
# Ranges that hold the mean and this many times its deviations are tried, at least a tenth as wide.
_REACH = 6.0


@dataclass(frozen=True, slots=True)
class FleetMovement:
    """Say how a fleet's mean moves, in the unit of readings.

    Args:
        mean: Where it lies on average.
        fleet_sd: The standard deviation with which it wanders; half of that is forgotten in 17
            hours (a time constant of a day).
        day_sd: The standard deviation of its daily wave; 0 for none.

    Raises:
        ValueError: If a number is not finite, a deviation is negative, or both are 0.

    Example:
        >>> FleetMovement(400.0, 40.0, 80.0).within(Range(0, 3000))
        True
    """

    mean: float
    fleet_sd: float
    day_sd: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not math.isfinite(self.mean):
            raise ValueError(f"fleet mean must be finite, got {self.mean}.")
        for name in ("fleet_sd", "day_sd"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be finite and 0 or more, got {value}.")
        if not self.fleet_sd + self.day_sd:
            raise ValueError("fleet_sd or day_sd must be above 0: a mean that rests is a constant.")

    def within(self, value_range: Range) -> bool:
        """Say whether the mean itself lies in a range."""
        return value_range.low <= self.mean <= value_range.high

    def paths(self, times_s: Floats, *, seeds: Sequence[int]) -> Floats:
        """Make the mean up, one path a row."""
        kept = np.exp(-np.diff(times_s, prepend=times_s[:1]) / _DAY_S)
        paths = np.empty((len(seeds), len(times_s)))
        for row, seed in zip(paths, seeds, strict=True):
            rng = np.random.default_rng([seed, 1])
            steps = rng.normal(size=len(times_s)) * np.sqrt(1 - np.square(kept))
            place = rng.normal()
            for number, (stay, step) in enumerate(zip(kept.tolist(), steps.tolist(), strict=True)):
                place = stay * place + step
                row[number] = place
            phase = rng.uniform(0, 2 * math.pi)
            wave = math.sqrt(2) * np.cos(2 * math.pi * times_s / _DAY_S + phase)
            row[:] = self.mean + self.fleet_sd * row + self.day_sd * wave
        return paths


def forecast_movement(
    movement: FleetMovement,
    *,
    every_s: float,
    devices: int,
    mechanism: RangeRandomizer,
    seeds: Sequence[int] = range(1, 17),
    rounds: int = _ROUNDS,
) -> Forecast:
    """Try the estimator on a fleet that moves as it was described.

    All devices are taken to read the mean, cut to the range; how far they differ among themselves
    changes the noise of a round little, and the mean not at all.

    Args:
        movement: How the mean moves.
        every_s: The length of a round.
        devices: How many report in each.
        mechanism: How reports are made.
        seeds: One made-up fleet and one drawing of the noise each.
        rounds: How many rounds to try.
    """
    public = mechanism.domain
    times_s = np.arange(rounds, dtype=np.float64) * every_s
    truth = movement.paths(times_s, seeds=seeds).clip(public.low, public.high)
    # The worst variance of the range is what most rounds have, and it is the same for all trials.
    tried = np.linspace(public.low, public.high, 17)
    variance = float(mechanism.variance(tried).max()) / devices
    noise = np.stack([np.random.default_rng([seed, 2]).normal(size=rounds) for seed in seeds])
    means = RunMeans(
        truth + math.sqrt(variance) * noise,
        np.full(truth.shape, variance),
        None,
        np.full(rounds, devices),
    )
    return forecast_of(runs_of(means, times_s, truth=truth, value_range=public), rounds)


def movement_remedies(
    movement: FleetMovement,
    *,
    every_s: float,
    devices: int,
    mechanism_of: Mechanisms,
    epsilon: float,
    value_range: Range,
) -> tuple[Remedy, ...]:
    """Return what would beat the constant: more devices, more epsilon, a narrower range.

    The range that is tried holds the mean with six of its standard deviations on both sides, and is
    a tenth of the one there is or wider: whether readings fit in it only their owner knows.
    """
    reach = _REACH * math.hypot(movement.fleet_sd, movement.day_sd)
    half = max(reach, 0.05 * value_range.width)
    low, high = (
        max(movement.mean - half, value_range.low),
        min(movement.mean + half, value_range.high),
    )
    narrow = None
    if high - low < 0.9 * value_range.width:
        narrow = Range(low, high, value_range.steps)

    def forecast_remedy(mechanism: RangeRandomizer, times: int) -> Forecast:
        return forecast_movement(
            movement,
            every_s=every_s,
            devices=times * devices,
            mechanism=mechanism,
            seeds=range(1, 7),
            rounds=_TRIED_ROUNDS,
        )

    return tried_remedies(
        forecast_remedy,
        mechanism_of=mechanism_of,
        epsilon=epsilon,
        value_range=value_range,
        devices=devices,
        narrow=narrow,
    )
