"""What pages show, and of which time: one model in the address, kept from page to page.

``range`` names a span that moves with the clock, such as ``today`` or ``7d``; ``from`` and ``to``
are moments of the reader's zone, ``to`` excluded; ``zone`` is a name of the IANA list;
``compare`` asks for an earlier time or another campaign next to it; ``label``, ``category`` and
``method`` choose one of a round's answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any, Final
from urllib.parse import unquote, urlencode
from zoneinfo import ZoneInfo

from starlette.exceptions import HTTPException
from starlette.requests import Request

from rase.campaign import Campaign
from rase.theme.formatting import each

__all__ = [
    "COMPARISONS",
    "KEPT",
    "PART",
    "RANGES",
    "ZONE_COOKIE",
    "Span",
    "earlier_span",
    "part_of",
    "ranges_of",
    "span_of",
    "zone_of_visitor",
]

_DAY_S: Final = 86_400
# Rolling spans by their seconds; None for days of the calendar.
RANGES: Final[Mapping[str, tuple[str, int | None]]] = {
    "5m": ("5 minutes", 300),
    "1h": ("1 hour", 3600),
    "6h": ("6 hours", 6 * 3600),
    "1d": ("24 hours", _DAY_S),
    "today": ("Today", None),
    "yesterday": ("Yesterday", None),
    "7d": ("7 days", 7 * _DAY_S),
    "30d": ("30 days", 30 * _DAY_S),
}
COMPARISONS: Final = {"before": "the time before", "week": "a week earlier"}
# What the navigation keeps, so that the next page shows the same time, and the same answers of it.
KEPT: Final = ("range", "from", "to", "zone", "compare")
PART: Final = ("label", "category", "method")
ZONE_COOKIE: Final = "rase_zone"
# As many rounds as make a line; the first rolling span that holds them is shown first.
_ENOUGH: Final = 24
_SOME: Final = 8
_LAST_S: Final = 253_402_300_799  # the year 9999, where calendars end


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time as it was asked for.

    Args:
        name: The name of a range; empty for moments.
        start_s: Its first second.
        end_s: The second after its last.
        zone: The reader's zone.
        asked_zone: The zone as the address names it; empty if it does not.
        compare: What it is compared with: a name of `COMPARISONS`, a campaign, or empty.
        label: One of the campaign's labels; empty for all devices.
        category: One of its states; empty for the first, or for numbers.
        method: One of its estimators; empty for the first.
    """

    name: str
    start_s: float
    end_s: float
    zone: tzinfo
    asked_zone: str = ""
    compare: str = ""
    label: str = ""
    category: str = ""
    method: str = ""

    @property
    def part(self) -> dict[str, Any]:
        """Which of a round's answers, as addresses and questions name it."""
        asked = {"label": self.label, "category": self.category, "method": self.method}
        return {name: value for name, value in asked.items() if value}

    @property
    def title(self) -> str:
        """The time in words."""
        if self.name:
            return RANGES[self.name][0]
        return f"{self.local(self.start_s)} to {self.local(self.end_s)}"

    @property
    def words(self) -> str:
        """The time as it follows "in" or "of"."""
        if not self.name:
            return self.title
        seconds = RANGES[self.name][1]
        return self.title.lower() if seconds is None else f"the last {each(seconds)}"

    @property
    def start_ms(self) -> int:
        """The first millisecond."""
        return round(1000 * self.start_s)

    @property
    def end_ms(self) -> int:
        """The last millisecond: a round that begins at the end is not of it."""
        return round(1000 * self.end_s) - 1

    def rounds(self, campaign: Campaign) -> tuple[int, int]:
        """Return the first and last round that begin in it; the last is smaller if none does."""
        first = -(-self.start_ms // (1000 * campaign.round_s))
        return first, min(self.end_ms // (1000 * campaign.round_s), campaign.not_after)

    def local(self, moment_s: float, form: str = "%Y-%m-%d %H:%M") -> str:
        """Return a moment in the reader's zone."""
        return datetime.fromtimestamp(moment_s, self.zone).strftime(form)

    def field(self, moment_s: float) -> str:
        """Return a moment as a field for date and time holds it."""
        return self.local(moment_s, "%Y-%m-%dT%H:%M")

    def query(self, **more: str) -> str:
        """Return the part of an address that asks for this time again.

        Args:
            **more: What else it holds or what is different; empty values are left out.
        """
        if self.name:
            asked = {"range": self.name, "zone": self.asked_zone}
        else:
            asked = self._moments(self.start_s, self.end_s)
        return _address({**asked, "compare": self.compare, **self.part, **more})

    def move(self, by: int, **more: str) -> str:
        """Return the part of an address for the time before (-1) or after (1), equally long."""
        moments = self._moments(*_move_ends(self, by=by))
        return _address({**moments, "compare": self.compare, **self.part, **more})

    def _moments(self, start_s: float, end_s: float) -> dict[str, str]:
        # A link that is sent to somebody in another zone means the same time there.
        zone = self.asked_zone or str(self.zone)
        return {"from": self._exact(start_s), "to": self._exact(end_s), "zone": zone}

    def _exact(self, moment_s: float) -> str:
        """Return a moment as an address has it: with its offset where the clock shows it twice."""
        moment = datetime.fromtimestamp(moment_s, self.zone)
        other = moment.replace(fold=1 - moment.fold)
        is_twice = moment.utcoffset() != other.utcoffset()
        return moment.isoformat(timespec="minutes") if is_twice else self.field(moment_s)


def span_of(request: Request, campaign: Campaign, now_s: float, *, names: tuple[str, ...]) -> Span:
    """Return the time that an address asks for; the usual one of the campaign without a word.

    Args:
        request: The request.
        campaign: The campaign that is shown.
        now_s: The present second.
        names: All campaigns that it may be compared with.

    Raises:
        HTTPException: If a moment cannot be read, the time ends before it begins, or what it is
            compared with, or the part that is asked for, is not there.
    """
    asked = request.query_params
    zone = zone_of_visitor(request)
    asked_zone = asked.get("zone", "").strip()
    compare = asked.get("compare", "")
    if compare and compare not in COMPARISONS and compare not in names:
        raise HTTPException(
            400, f"compare must be {', '.join(COMPARISONS)} or a campaign, got {compare[:40]!r}."
        )
    name = ""
    if asked.get("from") or asked.get("to"):
        start_s = _read_moment(asked.get("from", ""), "from", zone)
        end_s = _read_moment(asked.get("to", ""), "to", zone) if asked.get("to") else now_s
        if end_s <= start_s:
            raise HTTPException(400, "The end of the time must be after its beginning.")
    else:
        name = asked.get("range", "")
        if name not in RANGES:
            name = _usual(campaign)
        start_s, end_s = _range_span(name, now_s, zone)
    return Span(
        name=name,
        start_s=start_s,
        end_s=end_s,
        zone=zone,
        asked_zone=asked_zone,
        compare=compare,
        **part_of(request, campaign),
    )


def part_of(request: Request, campaign: Campaign) -> dict[str, Any]:
    """Return which of a round's answers an address asks for, as far as it says.

    Raises:
        HTTPException: If the campaign has no such label, state or estimator.
    """
    asked = request.query_params
    found = {name: _read_part(asked.get(name, ""), name, campaign) for name in PART}
    if found["label"]:
        # Labels of numbers have one estimator.
        found["method"] = ""
    return {name: value for name, value in found.items() if value}


def ranges_of(campaign: Campaign) -> dict[str, str]:
    """Return the ranges in which a campaign has some rounds, with their labels."""
    return {
        name: label
        for name, (label, length_s) in RANGES.items()
        if length_s is None or length_s >= _SOME * campaign.round_s
    }


def earlier_span(span: Span) -> Span:
    """Return the time with which a comparison of times compares."""
    week = timedelta(days=7)
    start_s, end_s = _move_ends(span, by=-1, step=week if span.compare == "week" else None)
    return Span(name="", start_s=start_s, end_s=end_s, zone=span.zone, **span.part)


def zone_of_visitor(request: Request) -> tzinfo:
    """Return the zone of an address, else the browser's own, else UTC.

    Raises:
        HTTPException: If the address names no zone.
    """
    asked = request.query_params.get("zone", "").strip()
    known = unquote(request.cookies.get(ZONE_COOKIE, ""))
    for name in (asked, known):
        if name == "UTC":
            return UTC
        try:
            if name:
                return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            if name == asked:
                raise HTTPException(
                    400, f"zone must be a name such as Europe/Zurich or UTC, got {name[:40]!r}."
                ) from None
    return UTC


def _move_ends(span: Span, *, by: int, step: timedelta | None = None) -> tuple[float, float]:
    """Return both ends moved by steps of the clock on the wall; of the span's length if None.

    The day before one of 23 hours then begins at midnight, too.
    """
    start, end = (datetime.fromtimestamp(one, span.zone) for one in (span.start_s, span.end_s))
    if step is None:
        step = end.replace(tzinfo=None) - start.replace(tzinfo=None)
    try:
        return (start + by * step).timestamp(), (end + by * step).timestamp()
    except (ValueError, OverflowError):
        return span.start_s, span.end_s


def _read_part(text: str, name: str, campaign: Campaign) -> str:
    """Return a label, a state or an estimator of a campaign; empty for its first or for all."""
    labels = (*campaign.labels, "other") if campaign.labels else ()
    known = {
        "label": labels,
        "category": campaign.categories,
        "method": campaign.estimators if campaign.states is None else (),
    }[name]
    if text and text not in known:
        there = f"one of {', '.join(known)}" if known else "absent: this campaign has none"
        raise HTTPException(400, f"{name} must be {there}, got {text[:40]!r}.")
    return text


def _address(asked: Mapping[str, str]) -> str:
    return urlencode({name: value for name, value in asked.items() if value})


def _usual(campaign: Campaign) -> str:
    wanted_s = _ENOUGH * campaign.round_s
    rolling = ((name, length) for name, (_, length) in RANGES.items() if length is not None)
    return next((name for name, length in rolling if length >= wanted_s), "30d")


def _range_span(name: str, now_s: float, zone: tzinfo) -> tuple[float, float]:
    length_s = RANGES[name][1]
    if length_s is not None:
        return max(now_s - length_s, 0.0), now_s
    midnight = datetime.combine(datetime.fromtimestamp(now_s, zone).date(), time(), zone)
    if name == "today":
        return midnight.timestamp(), max(now_s, midnight.timestamp() + 1)
    return (midnight - timedelta(days=1)).timestamp(), midnight.timestamp()


def _read_moment(text: str, name: str, zone: tzinfo) -> float:
    try:
        moment = datetime.fromisoformat(text.strip()[:40].replace(" ", "T", 1))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        moment_s = moment.timestamp()
        if not 0 <= moment_s <= _LAST_S:
            raise ValueError
    except (ValueError, OverflowError):
        raise HTTPException(
            400,
            f"{name} must be a date, or a date and a time such as 2026-06-21T13:00, "
            f"got {text[:40]!r}.",
        ) from None
    return moment_s
