"""The synthetic fleet as a file: CSV or Parquet of time, device and value, written day by day."""

from collections.abc import Callable
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rase.lab.fleet import SyntheticFleet
from rase.tables.rows import Rows

__all__ = ["write_fleet"]

_MOST_ROWS = 1 << 17


def write_fleet(
    fleet: SyntheticFleet,
    file: IO[bytes],
    *,
    suffix: str,
    on_progress: Callable[[float], None] | None = None,
) -> int:
    """Write a fleet as a table of time (UTC), device and value (W, to 0.01; empty in an outage).

    Args:
        fleet: The fleet.
        file: Where the table goes.
        suffix: ".csv" or ".parquet".
        on_progress: Called with the share written after every day.

    Returns:
        How many rows were written.

    Raises:
        ValueError: If the suffix is another.
    """
    if suffix not in {".csv", ".parquet"}:
        raise ValueError(f'suffix must be ".csv" or ".parquet", got {suffix!r}.')
    names = pa.array(fleet.names)
    text = pa.string() if suffix == ".csv" else pa.dictionary(pa.int32(), pa.string())
    shown = {
        "title": f"synthetic fleet, {fleet.devices} devices, {fleet.days} days, seed {fleet.seed}",
        "unit": "W",
    }
    schema = pa.schema(
        [("time", pa.timestamp("ms", tz="UTC")), ("device", text), ("value", pa.float64())],
        metadata=shown,
    )
    rows = 0
    with _writer(file, schema, suffix) as writer:
        for number, day in enumerate(fleet.batches(), start=1):
            for first in range(0, len(day), _MOST_ROWS):
                writer.write_batch(_record_batch(day, first, names, schema))
            rows += len(day)
            if on_progress is not None:
                on_progress(number / fleet.days)
    return rows


def _writer(file: IO[bytes], schema: Any, suffix: str) -> Any:
    if suffix == ".csv":
        return pyarrow.csv.CSVWriter(file, schema)
    return pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")


def _record_batch(day: Rows, first: int, names: Any, schema: Any) -> Any:
    part = slice(first, first + _MOST_ROWS)
    codes = pa.array(day.device[part].astype(np.int32))
    device = pa.DictionaryArray.from_arrays(codes, names)
    return pa.record_batch(
        [
            pa.array(day.time_ms[part]).cast(schema.field("time").type),
            device if pa.types.is_dictionary(schema.field("device").type) else names.take(codes),
            pa.array(np.round(day.value[part], 2), mask=~day.is_valid[part]),
        ],
        schema=schema,
    )
