"""Tables for tests: gaps, nulls, duplicates, and one round far larger than others."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rase import BudgetAware, Precision, Range, SeededRandom
from rase.kernels.keyed import RunKey
from rase.laws.randomizer import RangeRandomizer

PUBLIC = Range(0, 100)
BR = BudgetAware(1.0, PUBLIC, Precision(beta=0.5, rho=0.9))


def skewed(*, rounds: int = 40, devices: int = 30, crowd: int = 2000) -> Any:
    """Return readings of 5-minute rounds: three times a round, some missing, some repeated.

    Round 7 has a crowd of devices that report in no other.
    """
    rng = np.random.default_rng(2026)
    time = np.repeat(np.arange(3 * rounds) * 100, devices)
    device = np.tile(np.arange(devices), 3 * rounds)
    time = np.append(time, np.full(crowd, 7 * 300 + 5))
    device = np.append(device, 1000 + np.arange(crowd))
    value = np.round(rng.uniform(-5, 105, len(time)), 2)
    is_there = rng.random(len(time)) < 0.9
    places = np.flatnonzero(is_there)
    repeated = rng.choice(places, len(places) // 20)
    places = np.append(places, repeated)
    values = value[places]
    # A repeated row has another value, which must not count.
    values[len(places) - len(repeated) :] += 1
    table = pa.table(
        {
            "time": pa.array(1000 * time[places]).cast(pa.timestamp("ms", tz="UTC")),
            "device": pa.array([f"meter-{code:05}" for code in device[places]]),
            "value": pa.array(values, mask=rng.random(len(places)) < 0.03),
        }
    )
    return table.append_column("row", pa.array(np.arange(len(places))))


def sorted_by(table: Any, order: str) -> Any:
    """Return the table by time, by device, or in an order of no meaning; first rows stay first."""
    keys = {"time": ["time", "device", "row"], "device": ["device", "time", "row"]}
    if order in keys:
        return table.sort_by([(key, "ascending") for key in keys[order]])
    mixed = np.random.default_rng(1).permutation(len(table))
    # Of rows with one time and device the first must stay first.
    seen: dict[tuple[Any, str], list[int]] = {}
    times, devices = table["time"].to_pylist(), table["device"].to_pylist()
    for place in mixed:
        seen.setdefault((times[place], devices[place]), []).append(int(place))
    queues = {pair: sorted(places, reverse=True) for pair, places in seen.items()}
    return table.take([queues[times[place], devices[place]].pop() for place in mixed])


def columns_of(table: Any) -> dict[str, Any]:
    """Return the table as columns in memory."""
    return {name: table[name].to_numpy() for name in ("time", "device", "value")}


def by_hand(
    table: Any, *, seed: int, every_ms: int, randomizer: RangeRandomizer = BR
) -> dict[int, list[float]]:
    """Return the reports of each round, worked out row by row with nothing of `rase.tables`.

    Readings of a device in a round are averaged, of repeated times the first counts, and noise is
    drawn for each reading alone from the key of the run.
    """
    kept: dict[tuple[int, str], dict[int, float]] = {}
    for row in table.sort_by([("row", "ascending")]).to_pylist():
        if row["value"] is not None:
            time_ms = round(1000 * row["time"].timestamp())
            mine = kept.setdefault((time_ms // every_ms, row["device"]), {})
            mine.setdefault(time_ms, row["value"])
    key = RunKey.draw_key(SeededRandom(seed))
    found: dict[int, list[float]] = {}
    for (number, device), values in sorted(kept.items()):
        name = device.encode()
        tags, _ = key.tags(np.frombuffer(name, np.uint8), np.array([0, len(name)]))
        # Means are taken in whole quanta of 2^-24 here, so that their order does not matter.
        quanta = [round(value * 2**24) for value in values.values()]
        reading = np.array([sum(quanta) / len(quanta) / 2**24])
        source = key.rows(np.array([number]), tags, readings=reading)
        report = randomizer.randomize(reading, rng=source)
        found.setdefault(number, []).append(float(report[0]))
    return found


def write_parts(table: Any, folder: Path, *, parts: int, row_group: int = 400) -> Path:
    """Write the table as several Parquet files."""
    folder.mkdir()
    edges = np.linspace(0, len(table), parts + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(edges)):
        path = folder / f"part-{number:02}.parquet"
        pq.write_table(table.slice(low, high - low), path, row_group_size=row_group)
    return folder
