"""How ``beijing_air_hourly`` is made from the public download: twelve stations become one table.

The content has a checksum of its own, which does not depend on the version of whoever writes the
file: readings count to hundredths, because public copies differ in the seventh digit.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from rase.errors import DataError
from rase.tables.csv import open_csv

__all__ = [
    "COLUMNS",
    "CONTENT_SHA256",
    "STATIONS",
    "content_sha256",
    "has_published_content",
    "read_stations",
]

STATIONS: Final = (
    *("Aotizhongxin", "Changping", "Dingling", "Dongsi", "Guanyuan", "Gucheng", "Huairou"),
    *("Nongzhanguan", "Shunyi", "Tiantan", "Wanliu", "Wanshouxigong"),
)
# Columns of the table, and what the download calls them; the direction of the wind is left out.
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pm25": "PM2.5",
        "pm10": "PM10",
        "so2": "SO2",
        "no2": "NO2",
        "co": "CO",
        "o3": "O3",
        "temp": "TEMP",
        "pres": "PRES",
        "dewp": "DEWP",
        "rain": "RAIN",
        "wspm": "WSPM",
    }
)
CONTENT_SHA256: Final = "8bc225be43efd691a8d34a0fe29c8b1843b27affa6c29012748721ca471d44f1"
_CLOCK: Final = ("year", "month", "day", "hour")
_FIRST: Final = np.datetime64("2013-03-01T00", "h")
_HOURS: Final = 35_064
_NONE: Final = np.iinfo(np.int64).min
_METADATA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "title": "Beijing Multi-Site Air Quality, 12 stations, hourly",
        "timezone": "Asia/Shanghai (local)",
        "licence": "CC BY 4.0",
        "cite": "Chen, S. (2017) Beijing Multi-Site Air Quality, UCI Machine Learning Repository, "
        "doi:10.24432/C5RK5G",
    }
)


def read_stations(
    folder: Path, *, on_progress: Callable[[float], None] = lambda share: None
) -> Any:
    """Return the table that the twelve files of the download make.

    Args:
        folder: Where they are, in it or below: PRSA_Data_Aotizhongxin_20130301-20170228.csv and
            so on.
        on_progress: Called with the share that is read.

    Raises:
        DataError: If a file is missing, cannot be read, or lacks an hour.
    """
    times = (_FIRST + np.arange(_HOURS)).astype("datetime64[ms]")
    parts = []
    for number, station in enumerate(STATIONS):
        found = sorted(folder.rglob(f"PRSA_Data_{station}_*.csv"))
        if not found:
            raise DataError(
                f"{folder} must hold PRSA_Data_{station}_20130301-20170228.csv: unpack the "
                "download, and the archive inside it."
            )
        parts.append(_read_station(found[0], station, times))
        on_progress((number + 1) / len(STATIONS))
    return pa.concat_tables(parts).unify_dictionaries().replace_schema_metadata(dict(_METADATA))


def content_sha256(table: Any) -> str:
    """Return the checksum of the readings: hundredths as little-endian integers of 64 bits.

    By station, then by column, in the order of `STATIONS` and `COLUMNS`, each by time; -2^63 stands
    for no reading.

    Raises:
        DataError: If the table has other stations, hours or columns.
    """
    total = hashlib.sha256()
    hours = (_FIRST + np.arange(_HOURS)).astype("datetime64[ms]")
    for station in STATIONS:
        rows = table.filter(pc.equal(table.column("device").cast(pa.string()), station))
        if not np.array_equal(rows.column("time").to_numpy().astype("datetime64[ms]"), hours):
            raise DataError(f"station {station} must have each hour of the four years once.")
        for column in COLUMNS:
            total.update(_hundredths(rows.column(column)).tobytes())
    return total.hexdigest()


def has_published_content(path: Path) -> bool:
    """Return whether a Parquet file contains the published readings, whichever version wrote it."""
    try:
        return content_sha256(pyarrow.parquet.read_table(path)) == CONTENT_SHA256
    except (pa.ArrowException, OSError, KeyError, DataError):
        return False


def _read_station(path: Path, station: str, times: NDArray[np.datetime64]) -> Any:
    try:
        table = pa.Table.from_batches(_batches(path))
        clock = [table.column(name).to_numpy() for name in _CLOCK]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read as a station of the download; unpack it again."
        ) from error
    years, months, days, hours = clock
    read = (years - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (months - 1)
    at = read.astype("datetime64[D]") + (days - 1)
    if not np.array_equal(at.astype("datetime64[h]") + hours, times.astype("datetime64[h]")):
        raise DataError(f"{path} must have each hour of the four years once; unpack it again.")
    device = pa.DictionaryArray.from_arrays(pa.array(np.zeros(_HOURS, np.int32)), [station])
    return pa.table(
        {
            "time": pa.array(times),
            "device": device,
            **{name: table.column(theirs) for name, theirs in COLUMNS.items()},
        }
    )


def _batches(path: Path) -> Iterator[Any]:
    kinds = {
        **dict.fromkeys(_CLOCK, pa.int64()),
        **dict.fromkeys(COLUMNS.values(), pa.float32()),
    }
    with pa.OSFile(str(path)) as file:
        yield from open_csv(file, kinds, missing=["", " ", "NA"])


def _hundredths(column: Any) -> NDArray[np.int64]:
    values = column.cast(pa.float64()).to_numpy()
    is_missing = np.isnan(values)
    whole = np.rint(100 * np.where(is_missing, 0.0, values)).astype("<i8")
    return np.where(is_missing, _NONE, whole).astype("<i8")
