"""Table I of the paper, the statistics of the data drawn, computed from whatever data is used."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rase.errors import DataError
from rase.lab.panel import Panel
from rase.lab.sources import data_folder

__all__ = ["TableOneRow", "device_types", "house_of", "table_one"]

_HOUSE = re.compile(r"H(\d+)-|home-(\d+) ")
_REFIT_DEVICES = "refit_devices.csv"


@dataclass(frozen=True, slots=True)
class TableOneRow:
    """One row of Table I.

    Args:
        group: "training" or "test".
        houses: The numbers of the houses; empty where devices do not name their house.
        device_types: How many kinds of devices; None if unknown.
        sensors: How many devices.
        sensors_per_house: The fewest devices of a house; None where houses are unknown.
        low: The smallest mean of the group's devices in a round.
        high: The largest one.
        reading_low: The smallest single reading.
        reading_high: The largest one.
        months: In how many calendar months (UTC) there are readings.
    """

    group: str
    houses: tuple[int, ...]
    device_types: int | None
    sensors: int
    sensors_per_house: int | None
    low: float
    high: float
    reading_low: float
    reading_high: float
    months: int


def table_one(
    panel: Panel, *, types: Mapping[str, str] | None = None, last_training_house: int = 17
) -> tuple[TableOneRow, ...]:
    """Compute Table I: training houses up to a number, test houses after it.

    Args:
        panel: The readings. Devices named ``H01-A1`` or ``home-1 kettle`` name their house; if any
            does not, all devices are one group, "training".
        types: The kind of each device; None asks `device_types`.
        last_training_house: The paper's 17 of REFIT's 21.

    Returns:
        A row for each group that has readings.

    Raises:
        DataError: If there is no reading.

    Example:
        >>> panel = Panel([0], ["H01-A1", "H18-A1", "H18-A2"], [[80, 0, 40]])
        >>> [(row.group, row.sensors, row.high) for row in table_one(panel)]
        [('training', 1, 80.0), ('test', 2, 20.0)]
    """
    known = device_types(panel) if types is None else types
    numbers = [house_of(device) for device in panel.devices]
    houses = [number for number in numbers if number is not None]
    is_test = np.zeros(panel.n, dtype=np.bool_)
    if len(houses) == panel.n:
        is_test = np.array(houses) > last_training_house
    rows = []
    for group, columns in (("training", ~is_test), ("test", is_test)):
        places = np.flatnonzero(columns)
        if places.size and not np.isnan(panel.values[:, places]).all():
            part = panel.of_devices(places)
            chosen = [houses[place] for place in places] if len(houses) == panel.n else []
            rows.append(_row(group, part, chosen, known))
    if not rows:
        raise DataError("the panel must hold at least one reading, got none.")
    return tuple(rows)


def device_types(panel: Panel) -> dict[str, str]:
    """Return the kinds of those devices that are known.

    The synthetic fleet names them; those of REFIT stand in a file next to the prepared data, where
    RASE_DATA names its folder.
    """
    types = {
        device: re.sub(r" \d+$", "", device.split(" ", 1)[1])
        for device in panel.devices
        if device.startswith("home-") and " " in device
    }
    folder = data_folder()
    if folder is not None and (folder / _REFIT_DEVICES).is_file():
        with (folder / _REFIT_DEVICES).open(encoding="utf-8", newline="") as file:
            listed = {row["device"]: row["type"] for row in csv.DictReader(file)}
        types |= {device: listed[device] for device in panel.devices if device in listed}
    return types


def house_of(device: str) -> int | None:
    """Return the number of the house a device's name states, if it does.

    Example:
        >>> house_of("H07-A2"), house_of("home-3 kettle"), house_of("kettle")
        (7, 3, None)
    """
    match = _HOUSE.match(device)
    return None if match is None else int(match.group(1) or match.group(2))


def _row(group: str, part: Panel, houses: list[int], types: Mapping[str, str]) -> TableOneRow:
    has_reading = ~np.isnan(part.values)
    counts = has_reading.sum(axis=1)
    is_measured = counts > 0
    means = np.where(has_reading, part.values, 0.0).sum(axis=1)[is_measured] / counts[is_measured]
    months = part.times_ms[is_measured].astype("datetime64[ms]").astype("datetime64[M]")
    kinds = {types[device] for device in part.devices if device in types}
    return TableOneRow(
        group=group,
        houses=tuple(sorted(set(houses))),
        device_types=len(kinds) if all(device in types for device in part.devices) else None,
        sensors=part.n,
        sensors_per_house=min(map(houses.count, houses)) if houses else None,
        low=float(means.min()),
        high=float(means.max()),
        reading_low=float(np.nanmin(part.values)),
        reading_high=float(np.nanmax(part.values)),
        months=len(np.unique(months)),
    )
