"""Read any kind of data into a panel: prepared sets, synthetic fleet, tables, REFIT.

Files are read as streams; what is held is the panel, and of the REFIT download one house.

Every kind of data is read as one stream of readings.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rase.clock import parse_duration_s
from rase.errors import DataError
from rase.lab.fleet import SyntheticFleet
from rase.lab.panel import Panel
from rase.lab.readers import RefitFiles, is_refit_house, refit_houses
from rase.lab.resample import Grid, usual_interval_ms
from rase.lab.sources import SOURCES, Source, find_file
from rase.tables.columns import Hints
from rase.tables.layouts import Columns
from rase.tables.rows import Rows
from rase.tables.source import TableSource, open_source

__all__ = ["Loaded", "Stream", "Wanted", "load", "open_panel", "open_stream"]

_HOUR_MS = 3_600_000
_NEVER_MS = -(1 << 62)
_FLEET = re.compile(r"fleet(?::(\d+)x(\d+)(?::(\d+))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How data is read; every field has a default.

    Args:
        every: The length of a round, such as "1h"; None for the data's own interval.
        devices: How many devices to keep: those with most readings, in the order of the data. For
            the synthetic fleet its size.
        start: Leave out what is earlier, such as "2014-06-08" or "2014-06-08T18:00Z"; UTC.
        end: Leave out this moment and what is later.
        min_coverage: The share of a round a device must have measured; below, it has no reading.
        min_present: The share of rounds a device must have readings in; below, it is left out.
        columns: How the columns of a table are called.
        hints: What is known about the way a table is written.
        unit: The unit of a reading, where the data does not say.
        has_mains: Whether the mains of the REFIT download count as devices.

    Raises:
        ValueError: If a number is out of its range, or a duration or moment cannot be read.
    """

    every: str | None = None
    devices: int | None = None
    start: str | None = None
    end: str | None = None
    min_coverage: float = 0.5
    min_present: float = 0.0
    columns: Columns = Columns()  # noqa: RUF009 - immutable
    hints: Hints = Hints()  # noqa: RUF009 - immutable
    unit: str = ""
    has_mains: bool = False

    def __post_init__(self) -> None:
        """Check the fields once."""
        for name in ("min_coverage", "min_present"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}.")
        if self.devices is not None and self.devices < 1:
            raise ValueError(f"devices must be at least 1, got {self.devices}.")
        start, end = self.start_ms, self.end_ms
        if start is not None and end is not None and start >= end:
            raise ValueError(f"end must be later than start, {self.start}, got {self.end}.")
        if self.every is not None:
            parse_duration_s(self.every)

    @property
    def every_ms(self) -> int | None:
        """The length of a round in milliseconds."""
        return None if self.every is None else 1000 * parse_duration_s(self.every)

    @property
    def start_ms(self) -> int | None:
        """The start in milliseconds since 1970."""
        return _moment_ms("start", self.start)

    @property
    def end_ms(self) -> int | None:
        """The end in milliseconds since 1970."""
        return _moment_ms("end", self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A source of readings, and what is known about it.

    Args:
        layout: "prepared", "fleet", "refit", "long" or "wide".
        batches: Reads it from the start.
        names: The devices by code; complete once all was read.
        unit: The unit of a reading.
        share_read: How much has been read, from 0 to 1.
        notes: What a reader should know of how it was understood.
        interval_ms: The time between readings, where it is known beforehand.
        scale: What values are to be multiplied by.
        ahead_ms: How far its clock is ahead of UTC.
    """

    layout: str
    batches: Callable[[], Iterator[Rows]]
    names: Callable[[], Sequence[str]]
    unit: str
    share_read: Callable[[], float] = lambda: 0.0
    notes: Callable[[], Sequence[str]] = tuple
    interval_ms: int | None = None
    scale: float = 1.0
    ahead_ms: int = 0


def open_stream(source: str, wanted: Wanted) -> Stream:
    """Detect the kind of a source and open it; only its header is read.

    Raises:
        DataError: If there is no such source, or it cannot be used as it is.
    """
    if source in SOURCES:
        return _prepared_stream(SOURCES[source])
    if _FLEET.fullmatch(source):
        return _fleet(source, wanted)
    path = Path(source)
    if path.is_dir():
        return _refit(path, wanted)
    if source == "-":
        return _read_table(source, wanted)
    if not path.exists():
        close = difflib.get_close_matches(source, [*SOURCES, "fleet"], n=1)
        meant = f"did you mean {close[0]!r}? Otherwise " if close else ""
        raise DataError(
            f"there is no data set or file {source!r}; {meant}see the names with: rase lab data."
        )
    if path.suffix.lower() in {".7z", ".zip", ".tar", ".tgz"}:
        raise DataError(f"{path} is an archive; unpack it and give the file or folder inside.")
    return _refit(path, wanted) if is_refit_house(path) else _read_table(source, wanted)


def _prepared_stream(source: Source) -> Stream:
    table = open_source(find_file(source), columns=Columns(value=source.value_column))
    return Stream(
        layout="prepared",
        batches=lambda: _forward(table),
        names=lambda: list(table.device_codes),
        unit=source.unit,
        share_read=lambda: table.share_read,
        interval_ms=1000 * parse_duration_s(source.interval),
        scale=source.scale,
        ahead_ms=_HOUR_MS * source.ahead_h,
    )


def _fleet(source: str, wanted: Wanted) -> Stream:
    match = _FLEET.fullmatch(source)
    sizes = [int(group) for group in (match.groups() if match else ()) if group]
    devices, days, seed = (*sizes, *(64, 25, 1)[len(sizes) :])
    # Rounds of an hour or more are averaged from hours, shorter ones are simulated as they are.
    every_ms = wanted.every_ms or _HOUR_MS
    interval_s = every_ms // 1000 if 60_000 <= every_ms < _HOUR_MS else _HOUR_MS // 1000
    try:
        fleet = SyntheticFleet(wanted.devices or devices, days, seed, interval_s)
    except ValueError as error:
        raise DataError(str(error)) from error
    return Stream(
        layout="fleet",
        batches=fleet.batches,
        names=lambda: fleet.names,
        unit="W",
        interval_ms=1000 * fleet.interval_s,
    )


def _refit(path: Path, wanted: Wanted) -> Stream:
    houses = refit_houses(path)
    every_ms = wanted.every_ms
    if every_ms is None:
        raise DataError(f"the rows of {path} come at irregular times; give rounds, such as 1h.")
    files = RefitFiles(
        houses=houses,
        interval_s=every_ms // 1000,
        start_s=None if wanted.start_ms is None else wanted.start_ms // 1000,
        end_s=None if wanted.end_ms is None else -(-wanted.end_ms // 1000),
        min_coverage=wanted.min_coverage,
        has_mains=wanted.has_mains,
    )
    note = (
        f"REFIT houses {', '.join(str(house) for house, _ in houses)}; rows marked by Issues, "
        f"spikes above {files.spike_w:g} W and outages beyond {files.outage_s} s count as not "
        "measured."
    )
    return Stream(
        layout="refit",
        batches=files.batches,
        names=lambda: files.names,
        unit="W",
        share_read=lambda: files.share_read,
        notes=lambda: [note],
    )


def _read_table(source: str, wanted: Wanted) -> Stream:
    # A panel is of several devices: columns of no known name cannot be quantities of one.
    hints = replace(wanted.hints, form=wanted.hints.form or "devices")
    table = open_source(source, columns=wanted.columns, hints=hints)
    return Stream(
        layout="wide" if table.is_wide else "long",
        batches=lambda: _forward(table),
        names=lambda: list(table.device_codes),
        unit=wanted.unit,
        share_read=lambda: table.share_read,
        notes=lambda: table.notes,
    )


def _forward(table: TableSource) -> Iterator[Rows]:
    """Yield the rows of a table, and refuse one in which the time of a device stands or goes back.

    A repeated row would count twice in a mean, and cannot be found without that order.
    """
    last = np.zeros(0, dtype=np.int64)
    count = 0
    for rows in table.batches():
        devices = int(rows.device.max(initial=-1)) + 1
        width = devices if table.is_wide else 1
        last = np.append(last, np.full(max(devices - len(last), 0), _NEVER_MS))
        order = np.argsort(rows.device, kind="stable")
        codes, times = rows.device[order], rows.time_ms[order]
        before = np.append(_NEVER_MS, times[:-1])
        is_first = np.append(True, codes[1:] != codes[:-1])
        before[is_first] = last[codes[is_first]]
        wrong = order[times <= before]
        if len(wrong):
            row = int(wrong.min())
            line = (count + row) // width + 1
            was = before[order == row][0]
            what = "repeats a time of" if rows.time_ms[row] == was else "goes back in time for"
            raise DataError(
                f"row {line} {what} its device; sort the table by device and time, and "
                "keep one row per time and device."
            )
        last[codes] = times
        count += len(rows)
        yield rows


def _moment_ms(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{name} must look like 2014-06-08 or 2014-06-08T18:00Z, got {text!r}."
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


_PEEKED_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """A panel, and how it was made.

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
        unit: The unit of a reading, where the data does not say.

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
    """Open data as `open_panel` does, and report how it was read.

    Args:
        source: As for `open_panel`.
        wanted: How it is read.
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
    panel, more = _choose_devices(panel, wanted)
    return Loaded(
        panel, stream.layout, rows, nulls, own_ms, every_ms, tuple(dict.fromkeys([*notes, *more]))
    )


def _own_interval_ms(stream: Stream) -> int | None:
    """Read only the first rows, for the time between them."""
    peeked: list[Rows] = []
    for batch in stream.batches():
        peeked.append(batch)
        if sum(map(len, peeked)) >= _PEEKED_ROWS:
            break
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


def _choose_devices(panel: Panel, wanted: Wanted) -> tuple[Panel, list[str]]:
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
