"""Arrow columns of any table to chunks: checked NumPy columns, and the names of their devices.

Every kind of table, file or frame, becomes chunks by these rules. Conversion is one vectorised step
per batch; a row that cannot be used is named.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rase.domain import OTHER, Categories
from rase.errors import DataError
from rase.tables.arrow import as_arrow, as_numpy
from rase.tables.dates import DateOrder
from rase.tables.layouts import Form, Layout
from rase.tables.numbers import Decimal, NumberStyle
from rase.tables.plain import not_utf8, plain_column, refuse_null
from rase.tables.readings import Devices, KeyedRows, Quanta
from rase.tables.times import TimeColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rase.arrays import Flags, Floats, Places
    from rase.kernels.keyed import RunKey
    from rase.tables.plan import RunPlan

__all__ = ["Chunk", "ColumnReader", "Hints", "places_of", "values_of"]

# As devices' tags are made of it.
_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chunk:
    """Rows as columns of one length; without ``repr``, because they are readings.

    Args:
        time_ms: Milliseconds since 1970 (UTC).
        device: The code of each row's device in ``names``.
        value: The reading, finite; 0 where there is none.
        is_valid: False where the row holds no reading.
        names: The devices by code: an Arrow array of texts.
        numbers: The devices by code as whole numbers, where they are; None where they are texts.
    """

    time_ms: Places
    device: Places
    value: Floats
    is_valid: Flags
    names: Any
    numbers: Places | None = None

    def keyed(
        self,
        key: RunKey,
        plan: RunPlan,
        *,
        rounds: tuple[int, int] | None = None,
        released: Places | None = None,
    ) -> KeyedRows:
        """Return the rows that hold a reading, their devices known by tags.

        Args:
            key: The key of the run.
            plan: Says the range, the rounds and the budgets of devices.
            rounds: The first round and the first behind the last; None for all rows.
            released: Rounds that were released before, whose rows are left out.
        """
        names = self.names.cast(pa.large_string())
        _, offsets, data = names.buffers()
        places = np.frombuffer(offsets, dtype=np.int64)[names.offset :][: len(names) + 1]
        tags, public = key.tags(np.frombuffer(data or b"", dtype=np.uint8), places)
        budgets = None if plan.budgets is None else plan.budgets.of(self.names.to_pylist())
        labels = None if plan.labels is None else plan.labels.of(self.names.to_pylist())
        is_read, is_null = self.is_valid, ~self.is_valid
        if rounds is not None or released is not None:
            is_asked = self._is_asked(plan.interval_ms or 1, rounds, released)
            is_read, is_null = is_read & is_asked, is_null & is_asked
        if plan.turn is not None and plan.turn.key is not None:
            # What is not reported is as good as not measured.
            rounds_of = self.time_ms // (plan.interval_ms or 1)
            is_own = plan.turn.is_own(public[self.device], rounds_of)
            is_read, is_null = is_read & is_own, is_null | (is_read & ~is_own)
        kept = slice(None) if is_read.all() else np.flatnonzero(is_read)
        return KeyedRows(
            self.time_ms[kept],
            self.device[kept],
            Quanta(plan.quanta_range).counts(self.value[kept]),
            Devices(tags, public, budgets, self.numbers, labels),
            self.time_ms[is_null],
        )

    def count_in(self, rounds: Places, interval_ms: int) -> int:
        """Return how many rows lie in some rounds."""
        return int(np.count_nonzero(np.isin(self.time_ms // interval_ms, rounds)))

    def _is_asked(
        self, interval_ms: int, rounds: tuple[int, int] | None, released: Places | None
    ) -> Flags:
        """Return which rows lie in some rounds and in none that was released."""
        is_asked = np.ones(len(self.time_ms), dtype=np.bool_)
        if rounds is not None:
            first, behind = (bound * interval_ms for bound in rounds)
            # Most row groups lie in the rounds of one part.
            if len(is_asked) and (first > self.time_ms.min() or self.time_ms.max() >= behind):
                is_asked &= (self.time_ms >= first) & (self.time_ms < behind)
        if released is not None:
            is_asked &= ~np.isin(self.time_ms // interval_ms, released)
        return is_asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the user says about the way a table is written; all of it is found out if not said.

    Args:
        decimal: How decimals are written.
        dates: Which comes first, day or month.
        timezone: The zone of times that name none, such as "Europe/Berlin"; None for UTC.
        form: Whether the table has a row for each reading, or a column for each device; or that it
            is of several devices, so that columns of no known name are devices.
        sheet: Which sheet of a spreadsheet is the table.

    Raises:
        ValueError: If nobody knows the zone.
    """

    decimal: Decimal | None = None
    dates: DateOrder | None = None
    timezone: str | None = None
    form: Form | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        """Refuse a zone that nobody knows."""
        if self.timezone is None:
            return
        try:
            pc.assume_timezone(pa.array([0], pa.timestamp("s")), self.timezone)
        except pa.ArrowInvalid:
            raise ValueError(
                "timezone must be a name such as Europe/Berlin or an offset such as +01:00, got "
                f"{self.timezone!r}."
            ) from None


@dataclass(slots=True, eq=False)
class ColumnReader:
    """Turn Arrow columns into chunks, all batches of a table by one way of writing times.

    Args:
        times: How the column of times is read.
        device: The name of the column of devices.
        value: The name of the column of readings.
        numbers: How readings are written as text.
        categories: What readings may be, where they are names; or the names that were met, to
            which others are added.
    """

    times: TimeColumn
    device: str
    value: str
    numbers: NumberStyle = field(default_factory=NumberStyle)
    categories: Categories | dict[str, int] | None = None

    def chunk(self, time: Any, device: Any, value: Any, *, first_row: int) -> Chunk:
        """Check three Arrow arrays and return them as a chunk.

        Args:
            time: Timestamps, dates, texts or whole numbers.
            device: Texts or whole numbers.
            value: Numbers, or texts that are numbers.
            first_row: The number of the first row, for messages.

        Raises:
            DataError: If a row cannot be used. The message names the row and shows no reading.
        """
        codes, names, own = _devices(device, self.device, first_row)
        values, is_valid = self._readings(value, name=self.value, first_row=first_row)
        times = self.times.milliseconds(time, first_row=first_row)
        return Chunk(times, codes, values, is_valid, names, own)

    def rows(self, layout: Layout, columns: list[Any], *, first_row: int, before: int = 0) -> Chunk:
        """Check the columns of any layout and return them as a chunk.

        Args:
            layout: What each column holds.
            columns: The columns it names, as Arrow arrays.
            first_row: The number of the first row in its file, for messages.
            before: How many rows of the table come before: where rows are devices these are theirs.

        Raises:
            DataError: If a row cannot be used. The message names the row and shows no reading.
        """
        if layout.is_plain:
            return self.chunk(*columns, first_row=first_row)
        count, left = len(columns[0]), list(columns)
        times = np.zeros(count, dtype=np.int64)
        if layout.time is not None:
            times = self.times.milliseconds(left.pop(0), first_row=first_row)
        codes: Places = np.arange(count)
        numbers = None
        if layout.device is not None:
            codes, names, numbers = _devices(left.pop(0), layout.device, first_row)
        elif layout.is_wide:
            width = len(layout.values)
            times, codes = np.repeat(times, width), np.tile(np.arange(width), count)
            names = pa.array([name.strip() for name in layout.values])
        else:
            names = pa.array([f"row {before + row}" for row in range(1, count + 1)])
        read = [
            self._readings(column, name=name, first_row=first_row)
            for name, column in zip(layout.values, left, strict=True)
        ]
        values, is_valid = (np.stack(part, axis=1).ravel() for part in zip(*read, strict=True))
        return Chunk(times, codes, values, is_valid, names, numbers)

    def _readings(self, column: Any, *, name: str, first_row: int) -> tuple[Floats, Flags]:
        if isinstance(self.categories, dict):
            return codes_of(column, self.categories, name=name)
        if self.categories is not None:
            return places_of(column, self.categories, name=name, first_row=first_row)
        return values_of(column, name=name, first_row=first_row, numbers=self.numbers)


def values_of(
    column: Any, *, name: str, first_row: int, numbers: NumberStyle | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values of a batch, and which rows hold one.

    Args:
        column: An Arrow array of numbers, or of texts that are numbers.
        name: The column's name, for messages.
        first_row: The number of the batch's first row, for messages.
        numbers: How numbers are written as text; None to find out from this batch.

    Returns:
        The values, 0 where there is none, and True where there is one.

    Raises:
        DataError: If the column is of another type, or a value is not a finite number.
    """
    column = plain_column(column)
    kind = column.type
    is_text = pa.types.is_string(kind)
    if not (
        is_text
        or any(
            test(kind)
            for test in (
                pa.types.is_integer,
                pa.types.is_floating,
                pa.types.is_decimal,
                pa.types.is_boolean,
                pa.types.is_null,
            )
        )
    ):
        raise DataError(f"column {name!r} must hold numbers, got {kind}.")
    if is_text:
        column = _numbers(column, numbers or NumberStyle(), name=name, first_row=first_row)
    else:
        column = column.cast(pa.float64())
    is_valid = as_numpy(column.is_valid())
    values = as_numpy(column.fill_null(0.0) if column.null_count else column)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(
            f"column {name!r} must hold finite numbers, and row {first_row + int(wrong[0])} holds "
            "NaN or infinity; leave missing readings empty."
        )
    return values, is_valid


def codes_of(column: Any, known: dict[str, int], *, name: str) -> tuple[Floats, Flags]:
    """Return the codes of a batch of names, and which rows hold one; new names get the next code.

    Raises:
        DataError: If the column is of another type.
    """
    column = _as_texts(column, name, what="labels")
    encoded = column.cast(pa.string()).dictionary_encode()
    codes = [known.setdefault(one, len(known)) for one in encoded.dictionary.to_pylist()]
    is_valid = as_numpy(column.is_valid())
    indices = as_numpy(encoded.indices.fill_null(0)).astype(np.int64)
    if not codes:
        return np.zeros(len(column)), is_valid
    return np.array(codes, dtype=np.float64)[indices], is_valid


def _as_texts(column: Any, name: str, *, what: str) -> Any:
    """Return a column of texts, whole numbers or truth values."""
    column = plain_column(column)
    kind = column.type
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    if not any(test(kind) for test in tests):
        raise DataError(f"column {name!r} must hold {what}, got {kind}.")
    return column


def places_of(
    column: Any, categories: Categories, *, name: str, first_row: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the places of a batch of names among the categories, and which rows hold one.

    What is no category goes to the one that is called other, if there is one.

    Args:
        column: An Arrow array of texts, whole numbers or truth values.
        categories: What they may be.
        name: The column's name, for messages.
        first_row: The number of the batch's first row, for messages.

    Raises:
        DataError: If a row holds something else. The message shows none of it.
    """
    column = _as_texts(column, name, what="names of categories")
    found = pc.index_in(column.cast(pa.string()), pa.array(categories.names))
    is_valid = as_numpy(column.is_valid())
    places = as_numpy(found.fill_null(-1)).astype(np.float64)
    is_unknown = (places < 0) & is_valid
    if OTHER in categories.places:
        places[is_unknown] = categories.places[OTHER]
    elif is_unknown.any():
        raise DataError(
            f"column {name!r} holds in row {first_row + int(np.argmax(is_unknown))} none of the "
            f"categories {', '.join(categories.names)}; add it to them, or add {OTHER} for all "
            "that are not listed."
        )
    places[~is_valid] = 0.0
    return places, is_valid


def _numbers(column: Any, style: NumberStyle, *, name: str, first_row: int) -> Any:
    """Return texts as numbers, by Arrow where it reads all of them as they are meant."""
    if style.decimal != "comma" and not style.doubts_points:
        try:
            numbers = column.cast(pa.float64())
        except pa.ArrowInvalid:
            return style.plain(column, name=name, first_row=first_row)
        return (
            numbers
            if pc.all(pc.is_finite(numbers)).as_py()
            else style.plain(column, name=name, first_row=first_row)
        )
    return style.plain(column, name=name, first_row=first_row)


def _devices(column: Any, name: str, first_row: int) -> tuple[Places, Any, Places | None]:
    """Return the code of each row's device, the devices by code, and these as numbers."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
    if not (is_text or pa.types.is_integer(kind)):
        raise DataError(f"column {name!r} must hold texts or whole numbers, got {kind}.")
    if pa.types.is_integer(kind) and not pa.types.is_dictionary(column.type):
        refuse_null(column, name, first_row, "give every row its device")
        if not pa.types.is_uint64(column.type):
            return _number_devices(column)
        column = column.cast(pa.string())
    if not pa.types.is_dictionary(column.type):
        column = plain_column(column).dictionary_encode()
    names = column.dictionary.cast(pa.string())
    try:
        # Parquet hands on whatever bytes a damaged file holds.
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise not_utf8() from error
    trimmed = plain_column(names)
    if column.null_count or not trimmed.equals(column.dictionary):
        # Without blanks two names may be one, and a name of blanks is none.
        column = pa.DictionaryArray.from_arrays(column.indices, trimmed)
        column = column.dictionary_decode().dictionary_encode()
    refuse_null(column, name, first_row, "give every row its device")
    places: Places = as_numpy(column.indices).astype(np.int64)
    return places, column.dictionary, None


def _number_devices(column: Any) -> tuple[Places, Any, Places]:
    """Return the code of each number, the names of the numbers by code, and these."""
    column = column.cast(pa.int64())
    numbers: Places = as_numpy(column)
    first, last = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
    if last - first < 4 * len(numbers):
        # Numbers near each other are codes, but for where they begin.
        return numbers - first, *_range_names(first, last + 1)
    column = column.dictionary_encode()
    numbers = as_numpy(column.dictionary)
    return as_numpy(column.indices).astype(np.int64), column.dictionary.cast(_TEXT), numbers


# Most row groups of a table hold the same devices.
@functools.lru_cache(maxsize=4)
def _range_names(first: int, behind: int) -> tuple[Any, Places]:
    numbers = np.arange(first, behind, dtype=np.int64)
    numbers.flags.writeable = False
    return as_arrow(numbers).cast(_TEXT), numbers
