"""Which columns of a table hold times, devices and readings, also where it lacks one of them.

A long table has a row for each reading, a wide one a column for each device. What the header leaves
open is refused with both readings; what was guessed is noted.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rase.errors import DataError

__all__ = ["NONE", "Columns", "Form", "Layout", "find_layout"]

Form = Literal["long", "wide", "devices"]
# How one says that a table has no such column.
NONE: Final = "-"
_NAMES_SHOWN = 10
_ROLES = ("time", "device", "value")
# What columns are called elsewhere, Home Assistant's exports among them; in small letters.
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "time": (
        *("timestamp", "datetime", "date_time", "date", "last_changed", "last_updated"),
        *("unixtime", "unix_time", "epoch", "ts", "zeit", "zeitstempel", "datum", "horodate"),
    ),
    "device": (
        *("device_id", "deviceid", "entity_id", "sensor", "sensor_id", "meter", "meter_id"),
        *("household", "household_id", "house", "home", "client", "id", "gerät"),
    ),
    "value": ("reading", "measurement", "state", "power", "val", "wert", "messwert", "valeur"),
}


class Columns(NamedTuple):
    """Name the three columns of a table of readings; ``-`` for one that it does not have.

    Args:
        time: The column of times. Without one all rows are one round.
        device: The column of device identities. Without one each row is a device of its own.
        value: The column of readings.
    """

    time: str = "time"
    device: str = "device"
    value: str = "value"


@dataclass(frozen=True, slots=True)
class Layout:
    """Say which columns of a table hold what.

    Args:
        time: The column of times; None where all rows are one round.
        device: The column of devices; None where each row, or each column, is one.
        values: The columns of readings: one, or in a wide table one for each device.
        is_wide: Whether each column of readings is a device.
        notes: What was guessed.
    """

    time: str | None
    device: str | None
    values: tuple[str, ...]
    is_wide: bool = False
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns to be read: times, devices, readings, as far as they are there."""
        return [name for name in (self.time, self.device, *self.values) if name is not None]

    @property
    def columns(self) -> Columns:
        """The names for messages."""
        value = self.values[0] if len(self.values) == 1 else "of readings"
        return Columns(self.time or NONE, self.device or NONE, value)

    @property
    def is_plain(self) -> bool:
        """Whether it has one column of each kind."""
        return self.time is not None and self.device is not None


def find_layout(
    names: Sequence[str],
    columns: Columns,
    path: Path | str,
    *,
    form: Form | None = None,
) -> Layout:
    """Return which columns of a table hold what.

    Args:
        names: The columns of the table.
        columns: What they were said to be called.
        path: The table, for messages.
        form: Whether the table is long or wide, where the user said so; "devices" where it is
            known to be of several: columns of no known name are then one each.

    Raises:
        DataError: If a column is missing, occurs twice, or could be meant in two ways.

    Example:
        >>> find_layout(["when", "h1", "h2"], Columns(time="when"), "t.csv").is_wide
        True
    """
    return _Search(list(names), columns, path, form).find()


@dataclass(slots=True)
class _Search:
    """The columns of one table, and what of them was found so far."""

    names: list[str]
    columns: Columns
    path: Path | str
    form: Form | None

    def find(self) -> Layout:
        """Return the layout."""
        notes: list[str] = []
        time, device, value = (self._column(role, notes) for role in _ROLES)
        is_unknown = device is None and value is None
        if self.form == "wide" or (self.form == "devices" and is_unknown and not self._is_headless):
            return self._wide(time, notes)
        others = self._others(time, device, value)
        if value is None and time is not None and device is None and self._may_lack("device"):
            if self.form is None and len(others) > 1 and _is_family(others):
                return self._wide(time, notes)
            if self.form is None and len(others) > 1:
                raise DataError(
                    f"{self.path} has two readings: its columns {_list_names(others)} may be one "
                    "device each (say --layout wide), or quantities of one device (choose one "
                    "with --value-column, and say which device a row is of)."
                )
        is_sure = device is not None or not self._is_headless
        if value is None and len(others) == 1 and self._may_lack("value") and is_sure:
            value = others[0]
            notes.append(f"column {value!r} holds the readings.")
        if value is None:
            raise self._missing("value" if device or time else "time")
        if device is None:
            self._check_rows_are_devices(time, [one for one in others if one != value])
            notes.append(
                "no column of devices: each row is a device of its own, so promises are for a row."
            )
        if time is None:
            others = [one for one in others if one != value]
            if self.columns.time != NONE and (self._is_headless or self._close("time", others)):
                raise self._missing("time")
            notes.append("no column of times: all rows are one round.")
        return Layout(time, device, (value,), notes=tuple(notes))

    @property
    def _is_headless(self) -> bool:
        return any(_is_number(name) for name in self.names)

    def _may_lack(self, role: str) -> bool:
        """Return whether nobody said how a column is called."""
        return getattr(self.columns, role) in (role, NONE)

    def _others(self, *found: str | None) -> list[str]:
        return [name for name in self.names if name.strip() and name not in found]

    def _column(self, role: str, notes: list[str]) -> str | None:
        """Return the column of a role as the table spells it; None if it has none."""
        wanted = getattr(self.columns, role)
        if wanted == NONE:
            return None
        spelled = [name for name in self.names if name.strip() == wanted]
        if not spelled:
            # Time, TIME and time are one name, unless a table has two of them.
            spelled = [name for name in self.names if name.strip().lower() == wanted.lower()]
        if len(spelled) > 1:
            raise DataError(f"{self.path} has {len(spelled)} columns named {wanted!r}; keep one.")
        if spelled:
            return spelled[0]
        if wanted != role:
            raise self._missing(role)
        known = [name for name in self.names if name.strip().lower() in _KNOWN[role]]
        if len(known) > 1:
            raise DataError(
                f"{self.path} has two readings: the column of {role}s may be {known[0]!r} or "
                f"{known[1]!r}; choose with --{role}-column."
            )
        if not known:
            return None
        notes.append(f"column {known[0]!r} holds the {role if role != 'value' else 'reading'}s.")
        return known[0]

    def _check_rows_are_devices(self, time: str | None, others: Sequence[str]) -> None:
        """Refuse rows of times without devices, unless the user said what they are."""
        if self.columns.device == NONE:
            return
        if self._is_headless or self._close("device", others):
            raise self._missing("device")
        if time is not None:
            raise DataError(
                f"{self.path} has no column 'device', and two readings: all rows may be of one "
                "device (add a column that names it), or each row of a device of its own (say "
                f"--device-column {NONE}). If it is called otherwise, choose it with "
                f"--device-column; the table has {_list_names(self.names)}."
            )

    def _wide(self, time: str | None, notes: list[str]) -> Layout:
        if time is None:
            # A frame that was saved with its index has a first column without a name.
            time = next(iter(self.names), None)
        devices = [name for name in self.names if name != time]
        if not devices:
            raise DataError(
                f"{self.path} has no column besides the times; give one column per device."
            )
        double = [name for name in self.names if self.names.count(name) > 1]
        if double:
            raise DataError(f"{self.path} has two columns named {double[0]!r}; keep one.")
        if not all(name.strip() for name in devices):
            raise DataError(f"{self.path} has a column without a name; name every device's column.")
        notes.append(
            f"each column but {time or 'the first'!r} is a device: {len(devices)} devices."
        )
        return Layout(time, None, tuple(devices), is_wide=True, notes=tuple(notes))

    def _close(self, role: str, names: Sequence[str]) -> str | None:
        """Return a column that may be what was meant, though it is spelled otherwise."""
        wanted = getattr(self.columns, role).lower()
        by_lower = {name.strip().lower(): name.strip() for name in names}
        close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=0.5)
        return by_lower[close[0]] if close else None

    def _missing(self, role: str) -> DataError:
        # Where the header is missing its place is taken by a row of readings, which must not be
        # shown.
        if self._is_headless:
            return DataError(
                f"{self.path} has no header line; write one above the rows: time,device,value."
            )
        close = self._close(role, self.names)
        meant = f": did you mean {close!r}?" if close else "."
        return DataError(
            f"{self.path} has no column {getattr(self.columns, role)!r}; it has "
            f"{_list_names(self.names)}{meant} Choose the column with --{role}-column"
            f"{', or --quantity' if role == 'value' else ''}."
        )


def _is_family(names: Sequence[str]) -> bool:
    """Return whether names differ in a number alone, as those of many devices do."""
    return len({re.sub(r"\d+", "#", name.strip()) for name in names}) == 1


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
