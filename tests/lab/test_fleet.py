"""The synthetic fleet: near the measured one, the same for a seed, a day at a time."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray

from rase.lab.fleet import APPLIANCES, SyntheticFleet
from rase.lab.fleet_file import write_fleet


def hourly(fleet: SyntheticFleet) -> NDArray[np.float64]:
    """Return the readings, devices by hours."""
    return np.concatenate([day.value.reshape(24, -1) for day in fleet.batches()]).T


def test_near_the_measured_fleet() -> None:
    """Its statistics are near those of 64 REFIT appliances over 25 days.

    Measured: mean 28.4, means of an hour 11.9 to 65.1, median 8.7, largest 984 W, 47 % below 1 W.
    The guide on data holds all numbers; a test keeps them.
    """
    readings = hourly(SyntheticFleet())
    means = readings.mean(axis=0)
    assert readings.shape == (64, 600)
    assert readings.mean() == pytest.approx(28.4, rel=0.2)
    assert means.min() == pytest.approx(11.9, rel=0.2)
    assert means.max() == pytest.approx(65.1, rel=0.2)
    assert np.median(readings) == pytest.approx(8.7, abs=5)
    assert readings.max() == pytest.approx(984, rel=0.2)
    assert np.mean(readings < 1) == pytest.approx(0.47, abs=0.03)
    assert readings.min() >= 0


@pytest.mark.uncovered
def test_every_world_is_alike() -> None:
    """Any seed gives a fleet of the same kind: no world stands out."""
    for seed in range(5):
        readings = hourly(SyntheticFleet(seed=seed))
        assert 22 < readings.mean() < 35, seed
        assert 600 < readings.max() < 2500, seed
        assert 0.4 < np.mean(readings < 1) < 0.55, seed


@pytest.mark.uncovered
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


def test_intervals() -> None:
    """Shorter intervals show the same power in more detail."""
    hours = hourly(SyntheticFleet(devices=8, days=3))
    minutes = np.concatenate(
        [day.value.reshape(1440, 8) for day in SyntheticFleet(8, 3, interval_s=60).batches()]
    )
    means = minutes.reshape(72, 60, 8).mean(axis=1).T
    assert means == pytest.approx(hours)
    assert minutes.max() > 1000


@pytest.mark.uncovered
def test_seasons() -> None:
    """Midwinter has more light and tea than midsummer, and cooler kitchens."""
    fleet = SyntheticFleet(devices=96, days=212)
    readings = hourly(fleet)
    summer, winter = readings[:, : 28 * 24].mean(axis=1), readings[:, -28 * 24 :].mean(axis=1)
    for kind, is_more in (("lights", True), ("kettle", True), ("fridge-freezer", False)):
        chosen = [place for place, name in enumerate(fleet.names) if name.endswith(f" {kind}")]
        assert (winter[chosen].mean() > summer[chosen].mean()) == is_more


@pytest.mark.uncovered
def test_outages() -> None:
    """Homes fail one by one, with all their devices; what is measured stays as it was."""
    whole = SyntheticFleet(devices=40, days=60)
    fleet = SyntheticFleet(devices=40, days=60, outages_per_year=30)
    is_valid = np.concatenate([day.is_valid.reshape(24, 40) for day in fleet.batches()])
    assert 0.02 < np.mean(~is_valid) < 0.3
    by_home = is_valid.reshape(1440, 10, 4)
    assert (by_home.all(axis=2) | ~by_home.any(axis=2)).all()
    assert np.array_equal(hourly(fleet), np.where(is_valid.T, hourly(whole), 0))
    # Many outages last longer than an hour, and some pass midnight.
    assert (~is_valid[23::24][:-1] & ~is_valid[24::24]).any()


def test_written_to_a_file() -> None:
    """A fleet is written as CSV or Parquet, and nothing else."""
    file = io.BytesIO()
    assert write_fleet(SyntheticFleet(2, 1), file, suffix=".csv") == 48
    lines = file.getvalue().decode().splitlines()
    assert lines[0] == '"time","device","value"'
    assert lines[1].startswith('2014-06-08 00:00:00.000Z,"home-1 fridge",')
    assert len(lines) == 49
    with pytest.raises(ValueError, match="suffix must be"):
        write_fleet(SyntheticFleet(2, 1), io.BytesIO(), suffix=".json")


def test_names_are_different() -> None:
    """Two of a kind in one home have names of their own."""
    names = SyntheticFleet(devices=1000).names
    assert len(set(names)) == 1000


@pytest.mark.parametrize("interval_s", [30, 90, 420, 172_800])
def test_intervals_refused(interval_s: int) -> None:
    """An interval is whole minutes that divide a day."""
    with pytest.raises(ValueError, match="whole minutes that divide a day"):
        SyntheticFleet(interval_s=interval_s)


@pytest.mark.parametrize(
    ("name", "value"), [("devices", 0), ("days", 0), ("seed", -1), ("outages_per_year", -1)]
)
def test_refused(name: str, value: int) -> None:
    """A fleet has devices, days and a seed."""
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        SyntheticFleet(**{name: value})
