"""Means over calendar days and weeks in a zone, also where a day has 23 or 25 hours."""

import difflib
import math
import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal

from rase.series.rounds import RoundResult
from rase.series.score import WindowResult, mean_of_window

__all__ = ["CalendarWindows", "round_limit_s", "zone_of"]

_DAY_S: Final = 86_400
# Rules of zones change; these years show all offsets that a zone has now.
_YEARS: Final = range(2000, 2038)


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
        unit: Literal["day", "week"],
        zone: zoneinfo.ZoneInfo,
        *,
        interval_ms: int,
        strict: bool = False,
    ) -> None:
        limit_s = round_limit_s(zone)
        if limit_s * 1000 % interval_ms:
            raise ValueError(
                f"rounds must begin at midnight in {zone.key}: their length must divide "
                f"{limit_s // 60} minutes, got {interval_ms / 60_000:g}."
            )
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
        day = datetime.fromtimestamp(start_ms / 1000, self.zone).date()
        days = 1
        if self.unit == "week":
            day, days = day - timedelta(days=day.weekday()), 7
        return self._midnight_ms(day), self._midnight_ms(day + timedelta(days=days))

    def _midnight_ms(self, day: date) -> int:
        return int(datetime.combine(day, time(), self.zone).timestamp()) * 1000
