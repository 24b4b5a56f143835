"""A table in memory as contributions: columns of any kind to rounds, device codes and readings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions, Quanta, combined
from rase.errors import DataError
from rase.stream import ValueRange

__all__ = ["contributions_of", "is_table"]


def is_table(data: Any) -> bool:
    """Tell whether data has named columns."""
    return isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names")


def contributions_of(
    table: Any, interval_ms: int | None, *, value_range: ValueRange
) -> tuple[Contributions, list[str]]:
    """Return one reading for each device and round of a table, and the devices' names by code.

    Raises:
        DataError: If a column is missing or of another length or kind, or there is no reading.
    """
    time, device, value = (_column(table, name) for name in ("time", "device", "value"))
    if not len(time) == len(device) == len(value):
        raise DataError("the columns time, device and value must have one length.")
    numbers = np.array([np.nan if item is None else item for item in value], dtype=np.float64)
    if np.isinf(numbers).any():
        raise DataError("value must hold finite numbers, got infinity among them.")
    names, codes = np.unique(device.astype(str), return_inverse=True)
    is_valid = ~np.isnan(numbers)
    if not is_valid.any():
        raise DataError("the table must hold at least one reading, got none.")
    quanta = Quanta(value_range)
    some, _ = combined(
        _time_ms(time)[is_valid],
        codes[is_valid],
        value=quanta.counts(numbers[is_valid]),
        interval_ms=interval_ms,
    )
    readings = quanta.readings(some.reading)
    return Contributions(some.round, some.contributor, readings), names.tolist()


def _column(table: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(table[name])
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"the table must have a column {name!r}.") from error


def _time_ms(time: NDArray[Any]) -> NDArray[np.int64]:
    if time.dtype.kind in "iuf":
        return (time * 1000).astype(np.int64)
    try:
        return time.astype("datetime64[ms]").astype(np.int64)
    except (ValueError, TypeError) as error:
        raise DataError("time must hold datetimes or whole seconds since 1970.") from error
