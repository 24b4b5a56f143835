"""Data of any kind to a panel: prepared sets, the synthetic fleet, long and wide tables, REFIT.

Files are read as streams; what is held is the panel, and of the REFIT download one house.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rase.errors import DataError
from rase.lab.panel import Panel
from rase.lab.resample import Grid, usual_interval_ms
from rase.lab.streams import Stream, Wanted, open_stream
from rase.tables.rows import Rows

__all__ = ["Loaded", "Wanted", "load", "open_panel"]

_PEEKED_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """Hold a panel and how it came about.

    Args:
        panel: The readings.
        layout: "prepared", "fleet", "refit", "long" or "wide".
        rows: How many rows were read; cells of a wide table, rounds x devices of REFIT houses.
        nulls: How many of them held no reading.
        own_interval_ms: The interval of the data itself, None if irregular.
        interval_ms: The length of a round of the panel.
        notes: What a reader should know of how the data was understood.
    """

    panel: Panel
    layout: str
    rows: int
    nulls: int
    own_interval_ms: int | None
    interval_ms: int
    notes: tuple[str, ...]


def open_panel(
    source: str,
    *,
    every: str | None = None,
    devices: int | None = None,
    start: str | None = None,
    end: str | None = None,
    min_coverage: float = 0.5,
    min_present: float = 0.0,
    unit: str = "",
) -> Panel:
    """Open data as a table of rounds and devices.

    A reading of a round is the mean of what the device measured in it. A round measured for less
    than ``min_coverage`` of its length has no reading (NaN), and neither has an outage: nothing is
    filled in. Rounds without any reading stay in the panel, so that its times are regular. Devices
    without any reading are left out.

    Args:
        source: The name of a prepared data set such as "refit-64x25d", found in the folder that
            RASE_DATA names; "fleet", or "fleet:64x25:1" for devices, days and seed; or a path: a
            CSV or Parquet file of time, device, value, a wide table, a house or a folder of the
            original REFIT download.
        every: See `Wanted` for this and the others.
        devices: How many devices to keep.
        start: The first moment.
        end: The first moment no longer wanted.
        min_coverage: The share of a round that must be measured.
        min_present: The share of rounds in which a device must have a reading.
        unit: The unit of a reading, where the data does not tell.

    Returns:
        The panel; memory beyond it does not grow with the data.

    Raises:
        DataError: If the data cannot be had or used; one line says what to do.
        ValueError: If an argument is out of its range.

    Example:
        >>> open_panel("fleet:8x2:1", every="6h")
        Panel(rounds=8, n=8, unit='W', source='fleet:8x2:1, every 6h')
    """
    wanted = Wanted(
        every=every,
        devices=devices,
        start=start,
        end=end,
        min_coverage=min_coverage,
        min_present=min_present,
        unit=unit,
    )
    return load(source, wanted).panel


def load(
    source: str, wanted: Wanted, *, on_progress: Callable[[float], None] | None = None
) -> Loaded:
    """Open data as `open_panel` does, and tell how it was read.

    Args:
        source: As for `open_panel`.
        wanted: How it shall be read.
        on_progress: Called with the share read, from 0 to 1.

    Raises:
        DataError: If the data cannot be had or used; one line says what to do.
    """
    stream = open_stream(source, wanted)
    own_ms = stream.interval_ms
    if own_ms is None and stream.layout != "refit":
        own_ms = _own_interval_ms(stream)
    every_ms = _round_ms(source, wanted, own_ms)
    # The REFIT reader has weighed coverage by time; elsewhere each row stands for its interval.
    grid = Grid(every_ms, start_ms=wanted.start_ms, end_ms=wanted.end_ms)
    least = 1.0 if own_ms is None else wanted.min_coverage * every_ms / own_ms
    rows = nulls = 0
    for batch in stream.batches():
        valid = batch.is_valid
        rows += len(batch)
        nulls += len(batch) - int(np.count_nonzero(valid))
        grid.add(
            batch.time_ms[valid] - stream.ahead_ms,
            batch.device[valid],
            batch.value[valid] * stream.scale,
        )
        if on_progress is not None:
            on_progress(stream.share_read())
    names = stream.names()
    times_ms, values = grid.means(least=least, devices=len(names))
    label = source if wanted.every is None else f"{source}, every {wanted.every}"
    panel = Panel(times_ms, names, values, stream.unit, label)
    notes = list(stream.notes())
    if own_ms is None and stream.layout != "refit":
        notes.append(
            "times are irregular: a round with any reading counts as measured, whatever its "
            "coverage."
        )
    panel, more = _chosen(panel, wanted)
    return Loaded(
        panel, stream.layout, rows, nulls, own_ms, every_ms, tuple(dict.fromkeys([*notes, *more]))
    )


def _own_interval_ms(stream: Stream) -> int | None:
    """Read the first rows alone for the time between them."""
    peeked: list[Rows] = []
    batches = stream.batches()
    try:
        for batch in batches:
            peeked.append(batch)
            if sum(map(len, peeked)) >= _PEEKED_ROWS:
                break
    except DataError as error:
        if stream.layout == "wide" and not peeked:
            raise DataError(
                f"{error} A table of time, device and value is read with --time-column, "
                "--device-column and --value-column."
            ) from error
        raise
    return usual_interval_ms(peeked)


def _round_ms(source: str, wanted: Wanted, own_ms: int | None) -> int:
    every_ms = wanted.every_ms
    if every_ms is None:
        if own_ms is None:
            raise DataError(
                f"the rows of {source} come at irregular times; give rounds, such as 1h."
            )
        return own_ms
    if own_ms is not None and every_ms % own_ms:
        raise DataError(
            f"rounds of {source} must be whole multiples of its interval, {own_ms / 1000:g} s, "
            f"got {wanted.every}."
        )
    return every_ms


def _chosen(panel: Panel, wanted: Wanted) -> tuple[Panel, list[str]]:
    """Leave out devices without readings, and those with fewest where fewer are wanted."""
    present = (~np.isnan(panel.values)).sum(axis=0)
    kept = np.flatnonzero(present >= max(wanted.min_present * panel.rounds, 1))
    if not len(kept):
        raise DataError(
            f"no device of {panel.source} has readings in enough rounds; choose another span, "
            "longer rounds (every), or a lower min_coverage."
        )
    notes = []
    if len(kept) < panel.n:
        notes.append(f"{panel.n - len(kept)} of {panel.n} devices left out: too few readings.")
    if wanted.devices is not None:
        if len(kept) < wanted.devices:
            raise DataError(
                f"devices must be at most {len(kept)} for {panel.source}, got {wanted.devices}."
            )
        most = np.argsort(-present[kept], kind="stable")[: wanted.devices]
        kept = np.sort(kept[most])
    return panel.of_devices(kept), notes
