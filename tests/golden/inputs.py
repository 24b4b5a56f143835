"""The made-up inputs of the golden cases: tables, budgets, groups and a configuration."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "DEVICES",
    "readings_of",
    "write_budgets",
    "write_configuration",
    "write_csv",
    "write_graph",
    "write_parquet",
    "write_range_advice",
]

DEVICES = 20
_START_S = 1_714_521_600  # 2024-05-01T00:00:00Z
_HALF_HOUR_S = 1_800

Row = tuple[int, str, float | None]


def readings_of(hours: int = 10, *, without: frozenset[int] = frozenset()) -> list[Row]:
    """Return rows (second, device, value) sorted by device and time, two an hour.

    Some values are missing, some lie outside 0 to 100, and a few rows repeat a time of their device
    with another value, which must not count.

    Args:
        hours: How many hours.
        without: Hours in which nobody has a reading.
    """
    rows: list[Row] = []
    for device in range(DEVICES):
        for half in range(2 * hours):
            if half // 2 in without:
                continue
            time_s = _START_S + half * _HALF_HOUR_S
            wave = 20 * math.sin(2 * math.pi * half / 48)
            value = round(38 + wave + 2.5 * (device * 7 % 20) + (device * 13 + half * 29) % 17, 3)
            is_missing = (device * 5 + half * 3) % 31 == 0
            rows.append((time_s, f"d{device:02}", None if is_missing else value))
            if (device + half) % 23 == 0:
                rows.append((time_s, f"d{device:02}", value + 9))
    return rows


def write_csv(folder: Path, rows: list[Row], *, name: str = "readings.csv") -> Path:
    """Write rows as CSV, their times in seconds, and return where."""
    lines = [f"{time},{device},{'' if value is None else value}" for time, device, value in rows]
    path = folder / name
    path.write_text("\n".join(["time,device,value", *lines]) + "\n", encoding="utf-8")
    return path


def write_parquet(folder: Path, rows: list[Row], *, parts: int = 3) -> Path:
    """Write rows as a folder of Parquet files, each with rows of all times and some devices."""
    place = folder / "readings"
    place.mkdir()
    size = -(-len(rows) // parts)
    for part in range(parts):
        times, devices, values = zip(*rows[part * size : (part + 1) * size], strict=True)
        table = pa.table(
            {
                "time": pa.array([1000 * time for time in times]).cast(
                    pa.timestamp("ms", tz="UTC")
                ),
                "device": pa.array(devices),
                "value": pa.array(values, pa.float64()),
            }
        )
        pq.write_table(table, place / f"part-{part}.parquet")
    return place


def write_budgets(folder: Path) -> Path:
    """Write what the owners of devices allow: three classes."""
    path = folder / "budgets.csv"
    lines = [f"d{device:02},{(0.5, 1, 2)[device % 3]}" for device in range(DEVICES)]
    path.write_text("\n".join(["device,epsilon", *lines]) + "\n", encoding="utf-8")
    return path


def write_graph(folder: Path) -> Path:
    """Write pairs of devices that belong together: five groups of four neighbours."""
    path = folder / "graph.csv"
    pairs = [f"d{device:02},d{device + 1:02}" for device in range(DEVICES - 1) if device % 4 != 3]
    path.write_text("\n".join(["first,second", *pairs]) + "\n", encoding="utf-8")
    return path


def write_configuration(folder: Path) -> Path:
    """Write a configuration to attack."""
    path = folder / "rase.toml"
    path.write_text(
        "[campaign]\nlow = 0\nhigh = 1000\nepsilon = 4\n"
        'shuffle = "mallows"\nalpha = 30\ngroups = 2\n',
        encoding="utf-8",
    )
    return path


def write_range_advice(folder: Path) -> Path:
    """Write a recommended range as the command for campaigns does."""
    path = folder / "range.json"
    path.write_text(
        '{"schema": "rase/range/1", "campaign": "street", "low": 0.0, "high": 3000.0, '
        '"probes": 12, "advice": {"low": 0.0, "high": 300.0, '
        '"clip_bias": {"value": -4.0, "standard_error": 1.5}}}',
        encoding="utf-8",
    )
    return path
