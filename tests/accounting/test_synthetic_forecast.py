"""What `tracked` will achieve on a fleet that was only described."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase import Precision, Range
from rase.accounting.forecast import forecast_error
from rase.accounting.synthetic_forecast import FleetMovement, forecast_movement, movement_remedies
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named

WATTS = Range(0, 3000)
HOURS = np.arange(720, dtype=np.float64) * 3600


def made(epsilon: float, value_range: Range) -> RangeRandomizer:
    """Return the best mechanism."""
    return randomizer_named(
        "auto", epsilon, domain=value_range, precision=Precision(beta=0.5, rho=0.9)
    )


def test_paths_move_as_described() -> None:
    """Mean and deviation of long paths are those stated; each seed has a path of its own.

    The wander of a month has about 15 independent days a path; over 60 paths its variance is known
    to 5 %, and the bounds are six times that.
    """
    motion = FleetMovement(500.0, 40.0, 80.0)
    paths = motion.paths(HOURS, seeds=range(60))
    assert paths.shape == (60, 720)
    assert abs(paths.mean() - 500) < 10
    assert np.sqrt(np.mean((paths - 500) ** 2)) == pytest.approx(math.hypot(40, 80), rel=0.15)
    assert np.ptp(paths[:, 0]) > 0


@pytest.mark.uncovered
def test_it_foretells_what_reports_of_such_a_fleet_give() -> None:
    """The forecast without data is near one made from readings that move so."""
    motion = FleetMovement(600.0, 60.0, 120.0)
    told = forecast_movement(
        motion, every_s=3600, devices=100, mechanism=made(2.0, WATTS), seeds=range(1, 7)
    )
    path = motion.paths(HOURS, seeds=(7,))[0]
    real = forecast_error(
        np.repeat(path[:, None], 100, axis=1),
        HOURS,
        mechanism=made(2.0, WATTS),
        seeds=range(1, 4),
    )
    assert told.tracked == pytest.approx(real.tracked, rel=0.35)
    assert told.alone == pytest.approx(real.alone, rel=0.1)
    assert told.beats_constant


def test_what_does_not_move_enough_is_told_and_what_would_help() -> None:
    """A mean that hardly moves is not worth following; more devices or a narrow range mend it."""
    motion = FleetMovement(300.0, 10.0, 25.0)
    before = forecast_movement(
        motion, every_s=3600, devices=50, mechanism=made(0.5, WATTS), seeds=range(1, 7)
    )
    assert not before.beats_constant
    found = movement_remedies(
        motion, every_s=3600, devices=50, mechanism_of=made, epsilon=0.5, value_range=WATTS
    )
    assert {one.what for one in found} & {"devices", "epsilon", "range"}
    assert all(one.skill > 1 for one in found)


def test_a_range_that_is_narrow_already_is_no_remedy() -> None:
    """Where the mean moves over the whole range, no narrower one is tried."""
    found = movement_remedies(
        FleetMovement(1500.0, 800.0),
        every_s=3600,
        devices=2,
        mechanism_of=made,
        epsilon=12.0,
        value_range=WATTS,
    )
    assert {one.what for one in found} <= {"devices"}


@each_case(
    ("numbers", "message"),
    [
        ((math.nan, 1.0, 1.0), "fleet mean must be finite"),
        ((1.0, -1.0, 1.0), "fleet_sd must be finite and 0 or more"),
        ((1.0, 1.0, math.inf), "day_sd must be finite and 0 or more"),
        ((1.0, 0.0, 0.0), "fleet_sd or day_sd must be above 0"),
    ],
)
def test_motions_that_cannot_be_are_refused(
    numbers: tuple[float, float, float], message: str
) -> None:
    """Deviations are finite and not negative, and something moves."""
    with pytest.raises(ValueError, match=message):
        FleetMovement(*numbers)
    assert not FleetMovement(-5.0, 1.0).within(WATTS)
