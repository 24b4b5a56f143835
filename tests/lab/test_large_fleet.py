"""Synthetic tables of any size: reproducible, with the faults that were asked for."""

from pathlib import Path

import numpy as np
import pyarrow.dataset
import pytest

from rase.cli import main
from rase.lab.large_fleet import LargeFleet, write_large_fleet


def test_days_and_faults(tmp_path: Path) -> None:
    """Missing, repeated and crowded rows are there in the shares that were asked for."""
    fleet = LargeFleet(
        devices=500, days=2, interval_s=3600, gaps=0.2, duplicates=0.1, skew=5.0, seed=2
    )
    rows = write_large_fleet(fleet, tmp_path / "fleet")
    table = pyarrow.dataset.dataset(tmp_path / "fleet", partitioning="hive").to_table()
    assert len(table) == rows
    # 24,000 rows, a tenth missing, a tenth of the rest repeated, and a crowd of 2,000.
    assert rows == pytest.approx(24_000 * 0.9 * 1.1 + 2000, rel=0.02)
    assert table["value"].null_count == pytest.approx(24_000 * 0.1 * 1.1, rel=0.1)
    times, counts = np.unique(table["time"].to_numpy(), return_counts=True)
    assert len(times) == 48
    assert counts.max() > 4 * np.median(counts)
    pairs = np.column_stack([table["time"].to_numpy().astype(np.int64), table["device"]])
    assert len(pairs) - len(np.unique(pairs, axis=0)) == pytest.approx(24_000 * 0.09, rel=0.1)
    assert sorted(path.name for path in (tmp_path / "fleet").iterdir()) == [
        "day=2014-06-08",
        "day=2014-06-09",
    ]


def test_an_interrupted_fleet_leaves_nothing(tmp_path: Path) -> None:
    """Half of the days are never taken for a whole table; a folder that is there stays."""

    def interrupt(share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    fleet = LargeFleet(devices=5, days=4, interval_s=3600)
    with pytest.raises(KeyboardInterrupt):
        write_large_fleet(fleet, tmp_path / "fleet", on_progress=interrupt)
    assert list(tmp_path.iterdir()) == []
    write_large_fleet(fleet, tmp_path / "fleet")
    with pytest.raises(FileExistsError):
        write_large_fleet(fleet, tmp_path / "fleet")
    assert len(list((tmp_path / "fleet").iterdir())) == 4


def test_the_seed_decides() -> None:
    """The same seed gives the same rows, another one others; many meters differ."""
    days = [list(LargeFleet(300, 1, seed=seed).batches(0)) for seed in (1, 1, 2)]
    one, two, other = (np.concatenate([rows.value for rows in day]) for day in days)
    assert (one == two).all()
    assert (one != other).any()
    by_meter = one.reshape(96, 300)
    assert len(np.unique(by_meter, axis=1).T) > 280


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers out of bounds, unknown kinds and folders that are there are refused."""
    for settings, message in (
        ({"gaps": 1.0}, "gaps must be from 0 to below 1, got 1"),
        ({"duplicates": -0.1}, "duplicates must be from 0"),
        ({"skew": 0.5}, "skew must be at least 1, got 0.5"),
        ({"interval_s": 7}, "interval_s must be whole minutes"),
        ({"devices": 0}, "devices must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            LargeFleet(**({"devices": 5, "days": 1} | settings))
    with pytest.raises(ValueError, match="kind must be"):
        write_large_fleet(LargeFleet(5, 1), tmp_path / "x", kind="xls")
    out = tmp_path / "fleet"
    command = ["fleet", "generate", "--devices", "5", "--days", "1", "--out", str(out)]
    assert main([*command, "--every", "1h"]) == 0
    assert "written   120 rows of 5 devices" in capsys.readouterr().err
    assert main(command) == 2
    assert "--out must be a folder that is not there yet" in capsys.readouterr().err
    assert main([*command[:-1], str(tmp_path / "other"), "--gaps", "2"]) == 2
    assert "gaps must be from 0 to below 1" in capsys.readouterr().err
