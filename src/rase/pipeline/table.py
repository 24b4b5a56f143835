"""A table in memory as contributions: columns of any kind to rounds, device codes and readings."""

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.collect import Contributions, Quanta, combined
from rase.errors import DataError
from rase.stream import ValueRange

__all__ = ["contributions_of", "is_table"]

# Seconds from here on are milliseconds that were taken for seconds (rase.engine.columns).
_LARGEST_SECOND = 100_000_000_000


def is_table(data: Any) -> bool:
    """Tell whether data has named columns."""
    return isinstance(data, Mapping) or hasattr(data, "columns") or hasattr(data, "column_names")


def contributions_of(
    table: Any, interval_ms: int | None, *, value_range: ValueRange
) -> tuple[Contributions, list[str]]:
    """Return one reading for each device and round of a table, and the devices' names by code.

    Raises:
        DataError: If a column is missing or of another length or kind, a row has no time or device,
            or there is no reading.
    """
    time, device, value = (_column(table, name) for name in ("time", "device", "value"))
    if not len(time) == len(device) == len(value):
        raise DataError("the columns time, device and value must have one length.")
    _refuse_missing(device, "device")
    names, codes = np.unique(device.astype(str), return_inverse=True)
    times, numbers = _time_ms(time), _numbers(value)
    is_valid = ~np.isnan(numbers)
    if not is_valid.any():
        raise DataError("the table must hold at least one reading, got none.")
    quanta = Quanta(value_range)
    some, _ = combined(
        times[is_valid],
        codes[is_valid],
        value=quanta.counts(numbers[is_valid]),
        interval_ms=interval_ms,
    )
    readings = quanta.readings(some.reading)
    return Contributions(some.round, some.contributor, readings), names.tolist()


def _column(table: Any, name: str) -> NDArray[Any]:
    try:
        column = np.asarray(table[name])
    except TypeError as error:
        raise DataError(
            "the table must be a data frame or a mapping with the columns time, device and value, "
            f"got {type(table).__name__}; `rase run` takes files."
        ) from error
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(f"the table must have a column {name!r}.") from error
    if column.ndim != 1:
        raise DataError(f"{name} must hold one item a row, got {column.ndim} dimensions.")
    return column


def _numbers(value: NDArray[Any]) -> NDArray[np.float64]:
    try:
        numbers = np.array([np.nan if item is None else item for item in value], dtype=np.float64)
    except (ValueError, TypeError):
        # What it is would be told by the error underneath, and may be a reading.
        raise DataError(
            "value must hold numbers, got something else; leave missing readings None or NaN."
        ) from None
    if np.isinf(numbers).any():
        raise DataError("value must hold finite numbers, got infinity among them.")
    return numbers


def _time_ms(time: NDArray[Any]) -> NDArray[np.int64]:
    _refuse_missing(time, "time")
    # Of columns of objects each is asked for itself: numbers, or moments in zones of their own.
    plain = np.array([_in_utc(item) for item in time]) if time.dtype.kind == "O" else time
    if plain.dtype.kind in "iuf":
        if np.abs(plain).max(initial=0) > _LARGEST_SECOND:
            raise DataError(
                "time must hold seconds since 1970, got numbers beyond the year 5138; divide "
                "milliseconds by 1000."
            )
        return (plain * 1000).astype(np.int64)
    try:
        # NumPy warns of zones in texts, which it takes into account all the same.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            moments = plain.astype("datetime64[ms]")
    except (ValueError, TypeError) as error:
        raise DataError("time must hold datetimes or whole seconds since 1970.") from error
    if plain.dtype.kind == "b" or np.isnat(moments).any():
        raise DataError("time must hold datetimes or whole seconds since 1970.")
    return moments.astype(np.int64)


def _in_utc(item: Any) -> Any:
    if isinstance(item, datetime) and item.tzinfo is not None:
        return item.astimezone(UTC).replace(tzinfo=None)
    return item


def _refuse_missing(column: NDArray[Any], name: str) -> None:
    # Only what is missing differs from itself; None is, too, and texts never are.
    is_missing = (column != column) | (column == None)  # noqa: E711, PLR0124 - entry by entry
    if np.any(is_missing):
        row = int(np.argmax(is_missing)) + 1
        raise DataError(f"{name} is missing in row {row}; give every row its {name}.")
