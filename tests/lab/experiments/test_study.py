"""What an experiment shares with others: setups, cells and checksums."""

import numpy as np
import pytest

from rase.errors import DataError
from rase.lab.datasets import open_panel
from rase.lab.experiments.study import Cell, Setup, checksum_of, study_part
from rase.lab.panel import Panel

HOUR_MS = 3_600_000


def panel_of(rounds: int, n: int, unit: str = "W", scale: float = 1.0) -> Panel:
    """Return readings without gaps, all different."""
    values = scale * np.arange(1.0, rounds * n + 1).reshape(rounds, n)
    return Panel(np.arange(rounds) * HOUR_MS, [f"d{i}" for i in range(n)], values, unit)


def test_cells_have_one_key() -> None:
    """Settings in another sequence are the same cell; other settings are another."""
    assert Cell("attack", {"a": 1, "b": 2}).key == Cell("attack", {"b": 2, "a": 1}).key
    assert Cell("attack", {"a": 1}).key != Cell("attack", {"a": 2}).key
    assert Cell("trace", {"a": 1}).key != Cell("attack", {"a": 1}).key


def test_seeds_of_different_runs_differ() -> None:
    """Ten trials of ten draws share no seed with the next run's."""
    panel = panel_of(120, 16)
    first = Setup(panel, trials=10, seed=1).seeds(10)
    assert len(set(first)) == 100
    assert not set(first) & set(Setup(panel, trials=10, seed=2).seeds(10))


@pytest.mark.parametrize(
    ("trials", "seed", "message"),
    [(0, 1, "trials must be"), (101, 1, "trials must be"), (1, -1, "seed must be")],
)
def test_numbers_out_of_range(trials: int, seed: int, message: str) -> None:
    """Trials and seeds out of range are refused."""
    with pytest.raises(ValueError, match=message):
        Setup(panel_of(120, 16), trials=trials, seed=seed)


@pytest.mark.parametrize(
    ("rounds", "n", "message"),
    [(120, 15, "at least 16 devices, got 15"), (96, 16, "at least 5 days, got 4")],
)
def test_too_little_data(rounds: int, n: int, message: str) -> None:
    """Too few devices or days are refused, since the figures would mean nothing."""
    with pytest.raises(DataError, match=message):
        Setup(panel_of(rounds, n))


def test_ranges_follow_the_unit() -> None:
    """Ranges are the paper's for appliances, and keep their proportion to readings elsewhere."""
    watts = Setup(panel_of(120, 16, scale=0.1))
    assert (watts.table_high, watts.error_high, watts.square_high) == (178.3, 2800.0, 1300.0)
    for other in (Setup(panel_of(120, 16, unit="kWh")), Setup(panel_of(120, 16))):
        assert other.error_high / other.table_high == pytest.approx(2800 / 178.3)
        assert other.table_high == pytest.approx(np.quantile(other.panel.values, 0.99))
    idle = Panel(watts.panel.times_ms, watts.panel.devices, np.zeros((120, 16)), "kWh")
    assert Setup(idle).table_high == 178.3


def test_checksum_tells_readings_apart() -> None:
    """One other reading gives another checksum; where the readings lie does not matter."""
    panel = panel_of(120, 16)
    values = panel.values.copy()
    same = Panel(panel.times_ms, panel.devices, values, source="elsewhere")
    assert checksum_of(same) == checksum_of(panel)
    values[3, 3] += 1
    assert checksum_of(Panel(panel.times_ms, panel.devices, values)) != checksum_of(panel)


def test_study_part_is_bounded() -> None:
    """Of long data 25 days are taken, and the 64 devices with most readings that have any."""
    panel = open_panel("fleet:70x30:1")
    values = panel.values.copy()
    values[:, :8] = np.nan
    some = study_part(Panel(panel.times_ms, panel.devices, values))
    assert some.rounds == 600
    assert some.devices == panel.devices[8:]
    assert study_part(panel).n == 64
