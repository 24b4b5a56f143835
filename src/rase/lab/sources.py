"""The catalogue of prepared data sets: contents, location and checksum of each."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from rase.errors import DataError

__all__ = ["CHECKSUMS", "SOURCES", "Source", "check_file", "data_folder", "find_file"]

_REFIT = "CC BY 4.0"
# Those that `rase lab prepare` makes, and the recipe of each.
_PREPARED = {
    "refit_64x25d.parquet": "refit_recipe",
    "beijing_air_hourly.parquet": "beijing_recipe",
}

# As published with the prepared files.
CHECKSUMS: Mapping[str, str] = MappingProxyType(
    {
        "beijing_air_hourly.parquet": (
            "1f7885c5cc959256096615aec63ef4b2d566ba710463c1026aa1c0a9a0408833"
        ),
        "refit_1min.parquet": "174406bc7dadb7caa80ccf099592c6653839e34d480ff860e05c6b32d6afe754",
        "refit_64x25d.parquet": "b6e951db80cd0acdc040f523c692aa222e058c503c007c31820e8534de46d50f",
        "refit_events.parquet": "0060cc9b9f1b5bce59066eca4e4e0cc98be743cdeb89c282f42ff9b8d58c8f66",
        "refit_hourly.parquet": "bf38b312d010fb88bb59acc0da42cddd2d933c3f82ee44ef2972d52cf239de10",
        "swiss_households_15min.parquet": (
            "a7810f86093c484e8462179bdfe343c542cf9726f64f967c5568c6182a52afb9"
        ),
        "refit_appliances.csv": "da58168eb0b236aa0e3a42813fab111d3078a6ba327d54ada713d34fb3a01531",
        "refit_devices.csv": "0b12f07405a9627497ff97df3d7823c8d67afcf0e370d611169c02d41271e2ab",
        "refit_sample_House_1.csv": (
            "794dda086c5ee217e565929c01c3d3d602ee88d56870300155de1895246292ad"
        ),
        "swiss_households_devices.csv": (
            "9a5a16074e94cf2a15a745594833fd1046d4f9c3e032efb418ae2aaa7aaf6c7f"
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A prepared data set.

    Args:
        name: What one types.
        title: What it holds, in a few words.
        file: Its file in the folder RASE_DATA names.
        rows: How many rows the file has.
        devices: How many devices.
        interval: The time between readings.
        span: First and last day.
        licence: The licence of the data.
        unit: The unit of a reading of the panel.
        value_column: Where the readings stand.
        scale: What a value is multiplied by to be in that unit.
        ahead_h: How many hours the clock of its times is ahead of UTC.
    """

    name: str
    title: str
    file: str
    rows: int
    devices: int
    interval: str
    span: tuple[str, str]
    licence: str
    unit: str = "W"
    value_column: str = "value"
    scale: float = 1.0
    ahead_h: int = 0

    @property
    def sha256(self) -> str:
        """The checksum of the file."""
        return CHECKSUMS[self.file]


def _beijing(column: str, title: str, unit: str) -> Source:
    return Source(
        name=f"beijing-{column}",
        title=f"Beijing stations, {title}",
        file="beijing_air_hourly.parquet",
        rows=420_768,
        devices=12,
        interval="1h",
        span=("2013-03-01", "2017-02-28"),
        licence="CC BY 4.0",
        unit=unit,
        value_column=column,
        ahead_h=8,
    )


_ALL = (
    Source(
        name="refit-64x25d",
        title="REFIT, 64 appliances without gaps",
        file="refit_64x25d.parquet",
        rows=38_400,
        devices=64,
        interval="1h",
        span=("2014-06-08", "2014-07-02"),
        licence=_REFIT,
    ),
    Source(
        name="refit-hourly",
        title="REFIT, 18 houses x 9 appliances",
        file="refit_hourly.parquet",
        rows=2_141_901,
        devices=162,
        interval="1h",
        span=("2013-09-17", "2015-07-10"),
        licence=_REFIT,
    ),
    Source(
        name="refit-1min",
        title="REFIT, 2 houses x mains and 4 appliances",
        file="refit_1min.parquet",
        rows=6_827_920,
        devices=10,
        interval="1min",
        span=("2013-10-01", "2015-06-23"),
        licence=_REFIT,
    ),
    Source(
        name="swiss",
        title="Swiss households, mean power",
        file="swiss_households_15min.parquet",
        rows=2_526_048,
        devices=537,
        interval="15min",
        span=("2018-10-29", "2018-12-16"),
        licence="CC BY-SA 4.0",
        scale=4000.0,  # kWh per 15 min to W
        ahead_h=1,
    ),
    _beijing("temp", "temperature", "°C"),
    _beijing("pres", "air pressure", "hPa"),
    _beijing("dewp", "dew point", "°C"),
    _beijing("rain", "rain", "mm"),
    _beijing("wspm", "wind speed", "m/s"),
    _beijing("pm25", "PM2.5", "µg/m³"),
    _beijing("pm10", "PM10", "µg/m³"),
    _beijing("so2", "sulphur dioxide", "µg/m³"),
    _beijing("no2", "nitrogen dioxide", "µg/m³"),
    _beijing("co", "carbon monoxide", "µg/m³"),
    _beijing("o3", "ozone", "µg/m³"),
)
SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source in _ALL})


def data_folder() -> Path | None:
    """Return the folder with prepared data that RASE_DATA names, or None if it names none."""
    named = os.environ.get("RASE_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def find_file(source: Source) -> Path:
    """Return where the file of a prepared data set lies.

    Raises:
        DataError: If RASE_DATA names no folder, or the file is not in it.
    """
    folder = data_folder()
    if folder is None:
        raise DataError(
            f"{source.name} is looked for in the folder that RASE_DATA names, and it names none; "
            "set it to the folder with the data files."
        )
    path = folder / source.file
    if not path.is_file():
        way = " or make it with rase lab prepare" if source.file in _PREPARED else ""
        raise DataError(f"the folder of RASE_DATA must hold {source.file}; put it there{way}.")
    return path


def check_file(path: Path) -> str:
    """Say of a file of the catalogue whether it is there and as published.

    A file that `rase lab prepare` made has the published readings in other bytes, for the version
    of its writer is in them; it is as good.

    Returns:
        "ok", "absent" or "differs".
    """
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found == CHECKSUMS.get(path.name):
        return "ok"
    return "ok" if path.name in _PREPARED and _is_prepared(path) else "differs"


def _is_prepared(path: Path) -> bool:
    try:
        recipe = import_module(f"rase.lab.{_PREPARED[path.name]}")
    except ModuleNotFoundError:  # without pyarrow nobody can read the file anyway
        return False
    return bool(recipe.has_published_content(path))
