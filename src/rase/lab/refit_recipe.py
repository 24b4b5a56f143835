"""How ``refit_64x25d`` is made from what is public: which appliances, which days, and the check.

The hourly means of 64 REFIT appliances, rebuilt from events: each event's energy is spread evenly
over its minutes, and an hour's mean is rounded to hundredths of a watt. The content has a checksum
of its own, which does not depend on the version of whoever writes the file.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from rase.errors import DataError

__all__ = [
    "APPLIANCES",
    "CONTENT_SHA256",
    "DAYS",
    "FIRST_DAY",
    "Appliance",
    "Events",
    "content_sha256",
    "has_published_content",
    "hourly_means",
    "recipe_table",
]

FIRST_DAY = datetime(2014, 6, 8, tzinfo=UTC)
DAYS = 25
_HOURS = 24 * DAYS
# Of the lines "device,2014-06-08T00:00:00Z,watts", watts with two digits, by device and time.
CONTENT_SHA256 = "71bc107ac8baddf42aa54677dc00f7cbc43378c5bfeda5c1528583e21999b5ba"
_METADATA: Mapping[str, str] = MappingProxyType(
    {
        "title": "REFIT: 64 appliances x 25 days, hourly mean active power",
        "unit": "W",
        "timezone": "UTC",
        "licence": "CC BY 4.0",
        "cite": "Murray et al. (2017) doi:10.1038/sdata.2016.122",
    }
)


@dataclass(frozen=True, slots=True)
class Appliance:
    """An appliance, and when it counts as running.

    Args:
        device: House and place, ``H01-A1`` for Appliance1 of house 1.
        name: What it is, by the list of the data set.
        least_w: It runs in minutes whose mean is above.
        least_min: Shorter runs do not count.
    """

    device: str
    name: str
    least_w: float
    least_min: int

    @property
    def house(self) -> int:
        """The number of its house."""
        return int(self.device[1:3])

    @property
    def column(self) -> str:
        """Its column in a house file."""
        return f"Appliance{self.device[-1]}"


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The runs of one appliance.

    Args:
        start_min: First minute of each, since 1970 in UTC.
        end_min: The first quiet minute after it.
        energy_wmin: Watts times minutes.
    """

    start_min: NDArray[np.int64]
    end_min: NDArray[np.int64]
    energy_wmin: NDArray[np.float64]


APPLIANCES: tuple[Appliance, ...] = (
    Appliance("H01-A1", "Fridge", 5, 10),
    Appliance("H01-A2", "Chest Freezer", 5, 10),
    Appliance("H01-A3", "Upright Freezer", 5, 10),
    Appliance("H01-A7", "Computer Site", 2, 2),
    Appliance("H01-A8", "Television Site", 2, 2),
    Appliance("H02-A1", "Fridge-Freezer", 5, 10),
    Appliance("H02-A3", "Dishwasher", 3, 1),
    Appliance("H02-A4", "Television", 2, 2),
    Appliance("H02-A8", "Kettle", 2, 2),
    Appliance("H03-A2", "Fridge-Freezer", 5, 10),
    Appliance("H03-A3", "Freezer", 5, 10),
    Appliance("H03-A6", "Washing Machine", 2, 1),
    Appliance("H03-A7", "Television", 2, 2),
    Appliance("H03-A9", "Kettle", 2, 2),
    Appliance("H04-A1", "Fridge", 5, 10),
    Appliance("H04-A2", "Freezer", 5, 10),
    Appliance("H04-A3", "Fridge-Freezer", 5, 10),
    Appliance("H04-A7", "Television Site", 2, 2),
    Appliance("H04-A8", "Microwave", 2, 2),
    Appliance("H04-A9", "Kettle", 2, 2),
    Appliance("H05-A1", "Fridge-Freezer", 5, 10),
    Appliance("H05-A2", "Tumble Dryer", 3, 1),
    Appliance("H05-A4", "Dishwasher", 3, 1),
    Appliance("H05-A6", "Television Site", 2, 2),
    Appliance("H05-A7", "Combination Microwave", 2, 2),
    Appliance("H05-A8", "Kettle", 2, 2),
    Appliance("H06-A1", "Freezer", 5, 10),
    Appliance("H06-A7", "Kettle", 2, 2),
    Appliance("H07-A1", "Fridge", 5, 10),
    Appliance("H07-A2", "Freezer (Garage)", 5, 10),
    Appliance("H07-A5", "Washing Machine", 2, 1),
    Appliance("H07-A6", "Dishwasher", 3, 1),
    Appliance("H07-A7", "Television Site", 2, 2),
    Appliance("H08-A1", "Fridge", 5, 10),
    Appliance("H08-A2", "Freezer", 5, 10),
    Appliance("H08-A9", "Kettle", 2, 2),
    Appliance("H09-A1", "Fridge-Freezer", 5, 10),
    Appliance("H09-A4", "Dishwasher", 3, 1),
    Appliance("H09-A7", "Kettle", 2, 2),
    Appliance("H10-A1", "Magimix (Blender)", 2, 1),
    Appliance("H10-A4", "Fridge-Freezer", 5, 10),
    Appliance("H10-A5", "Washing Machine", 2, 1),
    Appliance("H10-A6", "Dishwasher", 3, 1),
    Appliance("H11-A2", "Fridge-Freezer", 5, 10),
    Appliance("H11-A7", "Kettle", 2, 2),
    Appliance("H11-A9", "Hi-Fi", 1, 1),
    Appliance("H13-A1", "Television Site", 2, 2),
    Appliance("H15-A1", "Fridge-Freezer", 5, 10),
    Appliance("H15-A6", "Television Site", 2, 2),
    Appliance("H16-A1", "Fridge-Freezer (1)", 5, 10),
    Appliance("H16-A2", "Fridge-Freezer (2)", 5, 10),
    Appliance("H16-A4", "Electric Heater (2)", 2, 2),
    Appliance("H16-A8", "Television Site", 2, 2),
    Appliance("H18-A1", "Fridge", 5, 10),
    Appliance("H18-A2", "Freezer", 5, 10),
    Appliance("H18-A3", "Fridge-Freezer", 5, 10),
    Appliance("H19-A1", "Fridge-Freezer", 5, 10),
    Appliance("H20-A1", "Fridge", 5, 10),
    Appliance("H20-A2", "Freezer", 5, 10),
    Appliance("H20-A8", "Microwave", 2, 2),
    Appliance("H20-A9", "Kettle", 2, 2),
    Appliance("H21-A1", "Fridge-Freezer", 5, 10),
    Appliance("H21-A4", "Dishwasher", 3, 1),
    Appliance("H21-A6", "Television", 2, 2),
)


def hourly_means(events: Mapping[str, Events]) -> NDArray[np.float32]:
    """Return the mean power of each appliance in each of the 600 hours, in watts.

    Args:
        events: The runs by device; all that reach into the 25 days.
    """
    first = int(FIRST_DAY.timestamp()) // 60
    means = np.empty((len(APPLIANCES), _HOURS), dtype=np.float32)
    for row, appliance in zip(means, APPLIANCES, strict=True):
        found = events[appliance.device]
        minutes = np.zeros(60 * _HOURS)
        watts = found.energy_wmin / (found.end_min - found.start_min)
        starts = np.clip(found.start_min - first, 0, len(minutes))
        ends = np.clip(found.end_min - first, 0, len(minutes))
        for start, end, power in zip(starts, ends, watts, strict=True):
            minutes[start:end] += power
        row[:] = minutes.reshape(_HOURS, 60).mean(axis=1)
    # In single precision, as the published file was: ties fall as they fell there.
    return np.round(means, 2)


def content_sha256(means: NDArray[np.float32]) -> str:
    """Return the checksum of the readings, whatever file they are kept in."""
    hours = [FIRST_DAY + timedelta(hours=hour) for hour in range(_HOURS)]
    texts = [hour.strftime("%Y-%m-%dT%H:%M:%SZ") for hour in hours]
    total = hashlib.sha256()
    for appliance, row in zip(APPLIANCES, means, strict=True):
        lines = zip(texts, row, strict=True)
        total.update("".join(f"{appliance.device},{at},{w:.2f}\n" for at, w in lines).encode())
    return total.hexdigest()


def recipe_table(means: NDArray[np.float32]) -> Any:
    """Return the readings as the long table that is kept in ``refit_64x25d.parquet``."""
    first_ms = int(FIRST_DAY.timestamp()) * 1000
    times = first_ms + 3_600_000 * np.arange(_HOURS, dtype=np.int64)
    codes = np.repeat(np.arange(len(APPLIANCES), dtype=np.int32), _HOURS)
    names = pa.array([appliance.device for appliance in APPLIANCES])
    return pa.table(
        {
            "time": pa.array(np.tile(times, len(APPLIANCES))).cast(pa.timestamp("ms")),
            "device": pa.DictionaryArray.from_arrays(pa.array(codes), names),
            "value": pa.array(means.ravel()),
        }
    ).replace_schema_metadata(dict(_METADATA))


def has_published_content(path: Path) -> bool:
    """Return whether a Parquet file contains the published readings, whichever version wrote it."""
    try:
        table = pyarrow.parquet.read_table(path)
        ours = recipe_table(_means_in(table))
        same = all(
            table.column(name).cast(ours.schema.field(name).type).combine_chunks().to_pylist()
            == ours.column(name).to_pylist()
            for name in ("time", "device")
        )
    except (pa.ArrowException, OSError, KeyError, DataError):
        return False
    return same and content_sha256(_means_in(table)) == CONTENT_SHA256


def _means_in(table: Any) -> NDArray[np.float32]:
    values: NDArray[np.float32] = table.column("value").to_numpy().astype(np.float32)
    if len(values) != len(APPLIANCES) * _HOURS:
        raise DataError(f"the table must have {len(APPLIANCES) * _HOURS} rows, got {len(values)}.")
    return values.reshape(len(APPLIANCES), _HOURS)
