"""The synthetic fleet: near the measured one, the same for a seed, a day at a time."""

import numpy as np
import pytest
from numpy.typing import NDArray

from rase.lab.fleet import APPLIANCES, SyntheticFleet


def hourly(fleet: SyntheticFleet) -> NDArray[np.float64]:
    """Return the readings, devices by hours."""
    return np.concatenate([day.value.reshape(24, -1) for day in fleet.batches()]).T


def test_near_the_measured_fleet() -> None:
    """Its statistics are those of 64 REFIT appliances over 25 days, and those its docstring says.

    Measured: mean 28.4, means of an hour 11.9 to 65.1, median 8.7, largest 984 W, 47 % below 1 W.
    """
    readings = hourly(SyntheticFleet())
    means = readings.mean(axis=0)
    assert readings.shape == (64, 600)
    assert readings.mean() == pytest.approx(27.0, abs=0.05)
    assert means.min() == pytest.approx(13.5, abs=0.05)
    assert means.max() == pytest.approx(65.5, abs=0.05)
    assert np.median(readings) == pytest.approx(6.3, abs=0.05)
    assert readings.max() == pytest.approx(910, abs=0.5)
    assert np.mean(readings < 1) == pytest.approx(0.46, abs=0.005)
    assert readings.min() >= 0


@pytest.mark.parametrize("seed", range(5))
def test_every_world_is_alike(seed: int) -> None:
    """Any seed gives a fleet of the same kind: no world stands out."""
    readings = hourly(SyntheticFleet(seed=seed))
    assert 22 < readings.mean() < 35
    assert 600 < readings.max() < 2500
    assert 0.4 < np.mean(readings < 1) < 0.55


def test_people_have_habits() -> None:
    """Evenings draw more than nights, and weekends more than working days."""
    readings = hourly(SyntheticFleet(devices=256, days=28)).mean(axis=0).reshape(28, 24)
    assert readings[:, 17:20].mean() > 2 * readings[:, 1:4].mean()
    is_weekend = np.isin(np.arange(28) % 7, [0, 6])
    assert readings[is_weekend].mean() > readings[~is_weekend].mean()


def test_rows() -> None:
    """A day holds every device every hour, hours ascending from midnight of 2014-06-08."""
    first, second = SyntheticFleet(devices=3, days=2).batches()
    assert first.device.tolist() == [0, 1, 2] * 24
    assert first.time_ms[0] == 1_402_185_600_000
    assert set(np.diff(first.time_ms).tolist()) == {0, 3_600_000}
    assert second.time_ms[0] - first.time_ms[-1] == 3_600_000
    assert first.is_valid.all()


def test_same_seed_same_world() -> None:
    """A seed fixes the world; another gives another; a longer fleet begins with the same days."""
    short, long = SyntheticFleet(devices=8, days=2), SyntheticFleet(devices=8, days=3)
    assert np.array_equal(hourly(short), hourly(long)[:, :48])
    assert not np.array_equal(hourly(short), hourly(SyntheticFleet(devices=8, days=2, seed=2)))


def test_the_mix_is_that_of_the_measured_fleet() -> None:
    """Each kind is about as common as among the measured appliances, each home has four."""
    names = SyntheticFleet().names
    for kind in APPLIANCES:
        count = sum(name.split(" ", 1)[1] == kind.name for name in names)
        assert abs(count - kind.share) <= 1
    assert names[3].startswith("home-1 ")
    assert names[4].startswith("home-2 ")


def test_programmes_run_past_midnight() -> None:
    """What is on at midnight goes on after it."""
    fleet = SyntheticFleet(devices=200)
    is_switched = np.array([not name.endswith(("fridge", "freezer")) for name in fleet.names])
    days = hourly(fleet)[is_switched].reshape(-1, fleet.days, 24)
    assert ((days[:, :-1, 23] > 20) & (days[:, 1:, 0] > 20)).sum() > 10


@pytest.mark.parametrize(("name", "value"), [("devices", 0), ("days", 0), ("seed", -1)])
def test_refused(name: str, value: int) -> None:
    """A fleet has devices, days and a seed."""
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        SyntheticFleet(**{name: value})
