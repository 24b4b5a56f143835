"""Runs of REFIT appliances: found in the original houses, or read from tables of events.

Events of the houses are found as those of the published tables were: rows marked by ``Issues`` are
dropped, the rows of a minute are averaged, and an event is a run of minutes above a threshold,
across minutes without rows. Its energy is the sum of its minutes, the first quiet one included.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rase.errors import DataError
from rase.lab.readers import house_batches, refit_houses
from rase.lab.refit_recipe import APPLIANCES, DAYS, FIRST_DAY, Appliance, Events
from rase.tables.csv import open_csv

__all__ = ["events_in", "find_events", "minute_means"]

_TABLE = "02_appliance_event_segments_house{}.csv"
_PLACES = ("", "house{}", "output/02_event_segments/house{}")
# None of the events that reach into the days is longer than one day: what is read around them.
_AROUND_S = 2 * 86_400
_COLUMNS = ("appliance_ID", "start_time", "end_time", "energy(W)")


def events_in(
    folder: Path, *, on_progress: Callable[[float], None] | None = None
) -> dict[str, Events]:
    """Return the events of the 64 appliances from a folder of either public download.

    Args:
        folder: With ``CLEAN_House1.csv`` and so on, or with tables of events, ``house1`` and so on.
        on_progress: Called with the share that is done.

    Raises:
        DataError: If a house is missing, or a file is damaged.
    """
    if not folder.is_dir():
        raise DataError(f"the download must be a folder, got {folder}.")
    houses = sorted({appliance.house for appliance in APPLIANCES})
    tables = {house: _table_of(folder, house) for house in houses}
    files: dict[int, Path] = {}
    if not any(tables.values()):
        files = dict(refit_houses(folder))
    found: dict[str, Events] = {}
    for number, house in enumerate(houses, start=1):
        path = tables[house] or files.get(house)
        if path is None:
            raise DataError(
                f"{folder} must hold the houses {', '.join(map(str, houses))}, and has no house "
                f"{house}; unpack or copy all of them."
            )
        chosen = [appliance for appliance in APPLIANCES if appliance.house == house]
        found |= _read_table(path, chosen) if tables[house] else _read_house(path, chosen)
        if on_progress is not None:
            on_progress(number / len(houses))
    return found


def minute_means(
    time_s: NDArray[np.int64], watts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Average the rows of each minute that has any.

    Returns:
        The minutes since 1970, and the mean of each; not a number where no row has a value.
    """
    minutes, place = np.unique(time_s // 60, return_inverse=True)
    is_known = ~np.isnan(watts)
    sums = np.bincount(place, weights=np.where(is_known, watts, 0.0), minlength=len(minutes))
    counts = np.bincount(place, weights=is_known, minlength=len(minutes))
    means = np.full(len(minutes), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return minutes, means


def find_events(
    minutes: NDArray[np.int64], means: NDArray[np.float64], appliance: Appliance
) -> Events:
    """Return the runs above the threshold, without those that the first or last minute cuts."""
    is_on = means > appliance.least_w
    change = np.flatnonzero(is_on[1:] != is_on[:-1]) + 1
    starts = change[is_on[change]]
    ends = change[~is_on[change]]
    if len(ends) and (not len(starts) or ends[0] < starts[0]):
        ends = ends[1:]
    starts = starts[: len(ends)]
    is_long = minutes[ends] - minutes[starts] >= appliance.least_min
    starts, ends = starts[is_long], ends[is_long]
    known = np.nan_to_num(means)
    energy = [known[start : end + 1].sum() for start, end in zip(starts, ends, strict=True)]
    return Events(minutes[starts], minutes[ends], np.round(np.asarray(energy, dtype=float), 2))


def _read_house(path: Path, chosen: list[Appliance]) -> dict[str, Events]:
    columns = tuple(appliance.column for appliance in chosen)
    first = int(FIRST_DAY.timestamp()) - _AROUND_S
    last = int(FIRST_DAY.timestamp()) + DAYS * 86_400 + _AROUND_S
    times: list[NDArray[np.int64]] = []
    watts: dict[str, list[NDArray[np.float64]]] = {column: [] for column in columns}
    for batch, _ in house_batches(path, columns):
        time_s = batch.column("Unix").to_numpy()
        kept = (time_s >= first) & (time_s < last)
        if "Issues" in batch.schema.names:
            kept &= batch.column("Issues").to_numpy(zero_copy_only=False) != 1
        times.append(time_s[kept])
        for column, parts in watts.items():
            values = batch.column(column).to_numpy(zero_copy_only=False)[kept]
            parts.append(values.astype(np.float64))
    time_s = np.concatenate([np.empty(0, dtype=np.int64), *times])
    if not len(time_s):
        raise DataError(f"{path} has no rows around the {DAYS} days from {FIRST_DAY:%Y-%m-%d}.")
    return {
        appliance.device: find_events(
            *minute_means(time_s, np.concatenate(watts[appliance.column])), appliance
        )
        for appliance in chosen
    }


def _table_of(folder: Path, house: int) -> Path | None:
    name = _TABLE.format(house)
    places = (folder / place.format(house) / name for place in _PLACES)
    return next((path for path in places if path.is_file()), None)


def _read_table(path: Path, chosen: list[Appliance]) -> dict[str, Events]:
    moment = pa.timestamp("s")
    kinds = dict(zip(_COLUMNS, (pa.string(), moment, moment, pa.float64()), strict=True))
    try:
        with pa.OSFile(str(path)) as file:
            table = open_csv(file, kinds).read_all()
    except (pa.ArrowException, KeyError) as error:
        raise DataError(
            f"{path} cannot be read as a table of events with the columns {', '.join(_COLUMNS)}; "
            "copy it again."
        ) from error
    return {appliance.device: _events_of(table, appliance) for appliance in chosen}


def _events_of(table: Any, appliance: Appliance) -> Events:
    rows = table.filter(pc.equal(table.column("appliance_ID"), appliance.column))
    start, end = (
        rows.column(name).cast(pa.int64()).to_numpy() // 60 for name in ("start_time", "end_time")
    )
    return Events(start, end, rows.column("energy(W)").to_numpy())
