"""Means over calendar days and weeks in a zone, also where a day has 23 or 25 hours."""

import difflib
import math
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Final, Literal

from rase.series.rounds import RoundResult
from rase.series.score import WindowResult, mean_of_window

__all__ = [
    "UNITS",
    "CalendarUnit",
    "CalendarWindows",
    "calendar_span_s",
    "check_midnights",
    "round_limit_s",
    "zone_of",
]

_DAY_S: Final = 86_400
# Rules of zones change; these years show all offsets that a zone has now.
_YEARS: Final = range(2000, 2038)
CalendarUnit = Literal["day", "week"]
# What they are called as lengths of windows.
UNITS: Final[Mapping[str, CalendarUnit]] = MappingProxyType({"1d": "day", "1w": "week"})


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the zone of a name.

    Raises:
        ValueError: If there is no such zone; the message names those that may be meant.
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = zoneinfo.available_timezones()
    if not known:
        raise ValueError(
            f"the zone {name!r} cannot be looked up: this machine has no list of time zones. "
            "Install the Python package tzdata."
        )
    wanted = name.strip().replace(" ", "_").lower()
    meant = sorted(one for one in known if one.lower().rpartition("/")[2] == wanted)
    by_name = {one.lower(): one for one in known}
    meant = meant or [by_name[one] for one in difflib.get_close_matches(wanted, by_name, n=3)]
    hint = f" Did you mean {' or '.join(meant[:3])}?" if meant else ""
    raise ValueError(
        f"timezone must be a name of the IANA list such as Europe/Zurich, got {name!r}.{hint} "
        'All names: python -c "import zoneinfo; print(*sorted(zoneinfo.available_timezones()))"'
    )


def round_limit_s(zone: zoneinfo.ZoneInfo) -> int:
    """Return the seconds that a round's length must divide, so that rounds begin at midnight.

    Example:
        >>> round_limit_s(zone_of("Europe/Zurich")), round_limit_s(zone_of("Asia/Kolkata"))
        (3600, 1800)
    """
    moments = (datetime(year, month, 1, tzinfo=UTC) for year in _YEARS for month in range(1, 13))
    offsets = {moment.astimezone(zone).utcoffset() or timedelta() for moment in moments}
    return math.gcd(_DAY_S, *(int(offset.total_seconds()) for offset in offsets))


class CalendarWindows:
    """Take rounds as they come and return the mean of each day or week of a calendar once.

    A day is from midnight to midnight in the zone, and has 23 or 25 hours where clocks change; a
    week begins on Monday. One that lacks rounds answers with those it has, as
    `rase.series.window` says. The last one of a record answers if its last round is there.

    Args:
        unit: The part of the calendar.
        zone: Where midnight is.
        interval_ms: The length of a round, which must divide `round_limit_s`.
        strict: Whether there is no mean where a round is missing.

    Raises:
        ValueError: If rounds do not begin at midnight in the zone.
    """

    def __init__(
        self,
        unit: CalendarUnit,
        zone: zoneinfo.ZoneInfo,
        *,
        interval_ms: int,
        strict: bool = False,
    ) -> None:
        check_midnights(zone, interval_ms / 1000)
        self.unit = unit
        self.zone = zone
        self.interval_ms = interval_ms
        self.strict = strict
        self._span = (0, 0)
        self._rounds: dict[int, RoundResult] = {}

    def add(self, result: RoundResult) -> WindowResult | None:
        """Take the next round and return the day or week that is then over.

        That is the one which ends with this round, or an earlier one whose last rounds are missing.

        Raises:
            ValueError: If the round has no time.
        """
        if result.start_ms is None:
            raise ValueError("result must have a time to belong to a day.")
        over = None
        if not self._span[0] <= result.start_ms < self._span[1]:
            over = self._close()
            self._span = self._span_of(result.start_ms)
        self._rounds[(result.start_ms - self._span[0]) // self.interval_ms] = result
        if result.start_ms + self.interval_ms >= self._span[1]:
            # At most one of the two has enough rounds: this round may be the only one of its day.
            over = self._close() or over
        return over

    def _close(self) -> WindowResult | None:
        """Return the mean of the rounds that are kept, and keep none."""
        places, self._rounds = self._rounds, {}
        count = (self._span[1] - self._span[0]) // self.interval_ms
        rounds = [places.get(place) for place in range(count)]
        return mean_of_window(rounds, start_ms=self._span[0], strict=self.strict)

    def _span_of(self, start_ms: int) -> tuple[int, int]:
        """Return the first millisecond of the day or week of a moment, and that of the next."""
        begin_s, end_s = calendar_span_s(self.unit, self.zone, start_ms / 1000)
        return begin_s * 1000, end_s * 1000


def check_midnights(zone: zoneinfo.ZoneInfo, round_s: float) -> None:
    """Check that rounds begin at midnight in a zone.

    Raises:
        ValueError: If they do not.
    """
    limit_s = round_limit_s(zone)
    if limit_s % round_s:
        raise ValueError(
            f"rounds must begin at midnight in {zone.key}: their length must divide "
            f"{limit_s // 60} minutes, got {round_s / 60:g}."
        )


def calendar_span_s(
    unit: CalendarUnit, zone: zoneinfo.ZoneInfo, moment_s: float
) -> tuple[int, int]:
    """Return the first second of the day or week of a moment, and that of the next.

    Example:
        >>> begin_s, end_s = calendar_span_s("day", zone_of("Europe/Zurich"), 1774742400)
        >>> (end_s - begin_s) // 3600
        23
    """
    day, days = datetime.fromtimestamp(moment_s, zone).date(), 1
    if unit == "week":
        day, days = day - timedelta(days=day.weekday()), 7
    return _midnight_s(day, zone), _midnight_s(day + timedelta(days=days), zone)


def _midnight_s(day: date, zone: zoneinfo.ZoneInfo) -> int:
    return int(datetime.combine(day, time(), zone).timestamp())
