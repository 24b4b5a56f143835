"""Table I and the numbers by which fleets are compared."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rase.errors import DataError
from rase.lab import datasets
from rase.lab.panel import Panel
from rase.lab.summary import summary_of
from rase.lab.table_one import device_types, table_one

# Several tests look at the same data.
open_panel = cache(datasets.open_panel)
GUIDE = Path(__file__).parents[2] / "docs/guides/own-data.md"
MONTH_MS = 31 * 86_400_000


def test_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Houses up to 17 train, later ones test; types, months and ranges are counted for each."""
    monkeypatch.delenv("RASE_DATA", raising=False)
    nan = np.nan
    panel = Panel(
        [0, MONTH_MS, 2 * MONTH_MS],
        ["H01-A1", "H01-A2", "H17-A1", "H18-A1"],
        [[1, 3, nan, nan], [5, nan, 9, nan], [nan, nan, nan, 4]],
    )
    types = {"H01-A1": "kettle", "H01-A2": "fridge", "H17-A1": "kettle"}
    training, test = table_one(panel, types=types)
    assert training.houses == (1, 17)
    assert (training.device_types, training.sensors, training.sensors_per_house) == (2, 3, 1)
    assert (training.low, training.high) == (2, 7)
    assert (training.reading_low, training.reading_high) == (1, 9)
    assert (training.months, test.months) == (2, 1)
    assert test.device_types is None
    assert (training.group, test.group) == ("training", "test")


def test_unknown_houses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that do not tell their house are one group; no reading is no table."""
    monkeypatch.delenv("RASE_DATA", raising=False)
    (row,) = table_one(Panel([0], ["H18-A1", "lamp"], [[1, 2]]))
    assert (row.group, row.houses, row.sensors_per_house) == ("training", (), None)
    with pytest.raises(DataError, match="at least one reading"):
        table_one(Panel([0], ["a"], [[np.nan]]))


def test_types_of_the_fleet() -> None:
    """The synthetic fleet names its kinds; a second one of a kind is of that kind."""
    panel = Panel([0], ["home-1 kettle", "home-1 kettle 2", "home-2 fridge-freezer"], [[1, 2, 3]])
    assert sorted(set(device_types(panel).values())) == ["fridge-freezer", "kettle"]


@pytest.mark.uncovered
def test_refit(data_folder: Path) -> None:
    """From the prepared REFIT hours come both rows, with the types of the published list."""
    training, test = table_one(open_panel("refit-hourly"))
    assert training.houses == (*range(1, 12), 13, 15, 16)
    assert test.houses == (18, 19, 20, 21)
    assert (training.device_types, test.device_types) == (34, 20)
    assert (training.sensors, test.sensors) == (126, 36)
    assert (training.sensors_per_house, test.sensors_per_house) == (9, 9)
    # The paper's ranges, [3.9, 178.3] and [11.8, 99.0], are of the size of means, not of readings.
    assert training.high == pytest.approx(154.1, abs=0.1)
    assert training.reading_high > 2000


def test_summary_of_short_and_odd_panels() -> None:
    """Where a day cannot be compared with the next the correlation is unknown."""
    for times in ([0], [0, 7_000_000, 14_000_000], [0, 86_400_000, 172_800_000]):
        panel = Panel(times, ["a"], np.arange(len(times))[:, None])
        assert np.isnan(summary_of(panel).day_correlation)
    with pytest.raises(DataError, match="at least one reading"):
        summary_of(Panel([0], ["a"], [[np.nan]]))


def test_summary_of_a_daily_rhythm() -> None:
    """A device that repeats its day is fully correlated, a constant one is left out."""
    hours = 3_600_000 * np.arange(96)
    rhythm = np.tile(np.arange(24.0), 4)
    gone = np.where(np.arange(96) == 50, np.nan, 1.0)
    summary = summary_of(Panel(hours, ["a", "b"], np.column_stack([rhythm, gone])))
    assert summary.day_correlation == pytest.approx(1)
    assert (summary.low, summary.high, summary.lowest_mean) == (0, 23, 0.5)
    assert summary.zero_share == pytest.approx(4 / 191)
    assert summary.low_share == summary.zero_share


@pytest.mark.uncovered
def test_the_guide_states_what_is_measured(data_folder: Path) -> None:
    """The comparison of the synthetic with the measured fleet is what the code computes."""
    text = GUIDE.read_text(encoding="utf-8")
    for row in [*comparison_rows(), *table_rows()]:
        assert row in text, row


def comparison_rows() -> list[str]:
    """Return the guide's table of the measured and the synthetic fleet."""
    columns = [summary_of(open_panel(name)) for name in ("refit-64x25d", "fleet")]
    columns += [summary_of(open_panel(f"fleet:64x25:{seed}")) for seed in range(2, 6)]
    rows = []
    for title, field, form in (
        ("smallest reading (W)", "low", "{:.0f}"),
        ("largest reading (W)", "high", "{:.0f}"),
        ("median reading (W)", "median", "{:.1f}"),
        ("mean reading (W)", "mean", "{:.1f}"),
        ("smallest mean of the fleet in an hour (W)", "lowest_mean", "{:.1f}"),
        ("largest mean of the fleet in an hour (W)", "highest_mean", "{:.1f}"),
        ("share of zeros", "zero_share", "{:.2f}"),
        ("share below 1 W", "low_share", "{:.2f}"),
        ("correlation of a device with its next day", "day_correlation", "{:.2f}"),
        ("the same of the fleet's mean", "fleet_day_correlation", "{:.2f}"),
    ):
        values = [getattr(column, field) for column in columns]
        seeds = f"{form.format(min(values[1:]))} to {form.format(max(values[1:]))}"
        rows.append(f"| {title} | {form.format(values[0])} | {form.format(values[1])} | {seeds} |")
    return rows


def table_rows() -> list[str]:
    """Return the guide's version of Table I."""
    return [
        f"| `{name}`, {row.group} | {len(row.houses)} houses | {row.device_types} | {row.sensors} "
        f"| {row.low:.1f}–{row.high:.1f} | {row.months} |"
        for name in ("refit-hourly", "refit-64x25d", "fleet:84x240")
        for row in table_one(open_panel(name))
    ]


def test_the_guide_names_every_source() -> None:
    """Every prepared data set stands in the guide."""
    from rase.lab.sources import SOURCES

    text = GUIDE.with_name("data.md").read_text(encoding="utf-8")
    for name in SOURCES:
        assert re.search(rf"`{name}`", text), name
