"""The time of an address: ranges, moments in a zone, what stands beside it, and what is refused."""

from datetime import UTC, datetime
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import Request
from tests.fusion.conftest import CAMPAIGN

from rase.dashboard.live import _difference
from rase.dashboard.timeline import RANGES, Span, earlier_span, span_of

NOW_S = datetime(2026, 6, 21, 13, 30, tzinfo=UTC).timestamp()


def asked(query: str = "", *, zone: str = "", now_s: float = NOW_S) -> Span:
    """Return the time of an address, for a visitor in a zone."""
    headers = [(b"cookie", f"rase_zone={zone}".encode())] if zone else []
    request = Request({"type": "http", "query_string": query.encode(), "headers": headers})
    return span_of(request, CAMPAIGN, now_s, names=("street-power", "heat"))


def local(moment_s: float, zone: str = "UTC") -> str:
    """Return a moment as the clock on the wall shows it."""
    return datetime.fromtimestamp(moment_s, ZoneInfo(zone)).strftime("%m-%d %H:%M")


def test_days_are_those_of_the_readers_calendar() -> None:
    """Today and yesterday begin at midnight of the zone; the address overrules the cookie."""
    for span, zone in (
        (asked("range=yesterday"), "UTC"),
        (asked("range=yesterday", zone="Pacific%2FAuckland"), "Pacific/Auckland"),
        (asked("range=yesterday&zone=Europe/Zurich", zone="Asia/Tokyo"), "Europe/Zurich"),
    ):
        assert (span.end_s - span.start_s, str(span.zone)) == (86400, zone)
        assert local(span.start_s, zone).endswith("00:00")
    assert local(asked("range=yesterday").start_s) == "06-20 00:00"
    today = asked("range=today", zone="Pacific%2FAuckland")
    assert local(today.start_s, "Pacific/Auckland") == "06-22 00:00"
    assert today.end_s == NOW_S


def test_a_day_on_which_clocks_change_has_its_own_length() -> None:
    """Yesterday has 23 hours in spring; the day before it begins at midnight all the same."""
    monday_s = datetime(2026, 3, 30, 9, tzinfo=UTC).timestamp()
    span = asked("range=yesterday&zone=Europe/Zurich", now_s=monday_s)
    assert span.end_s - span.start_s == 23 * 3600
    before = parse_qs(span.move(-1))
    assert (before["from"], before["to"]) == (["2026-03-28T00:00"], ["2026-03-29T00:00"])
    earlier = earlier_span(asked("range=yesterday&zone=Europe/Zurich&compare=week", now_s=monday_s))
    assert local(earlier.start_s, "Europe/Zurich") == "03-22 00:00"
    assert earlier.end_s - earlier.start_s == 24 * 3600


def test_the_usual_time_shows_a_line() -> None:
    """Without a word, or with an unknown one: the first rolling range that holds 24 rounds."""
    assert asked().name == asked("range=nonsense").name == "1d"
    assert asked().title == "24 hours"
    assert asked().words == "the last day"
    assert asked("range=today").words == "today"


@given(
    start=st.integers(0, 4_000_000),
    minutes=st.integers(1, 400_000),
    zone=st.sampled_from(["UTC", "Europe/Zurich", "America/St_Johns", "Pacific/Chatham"]),
)
def test_an_address_asks_for_the_same_time_again(start: int, minutes: int, zone: str) -> None:
    """Whatever is chosen, the links of its page lead back to it, to the minute."""
    first_s = 60.0 * (start + 29_000_000)
    span = Span(name="", start_s=first_s, end_s=first_s + 60 * minutes, zone=ZoneInfo(zone))
    again = asked(span.query())
    assert (again.start_s, again.end_s) == (span.start_s, span.end_s)
    assert str(again.zone) == str(span.zone)
    assert again.query() == span.query()


def test_every_range_has_an_address() -> None:
    """Each name is understood as itself, and keeps what it is compared with."""
    for name in RANGES:
        again = asked(asked(f"range={name}&compare=week").query())
        assert (again.name, again.compare) == (name, "week")


def test_rounds_are_those_that_begin_in_the_time() -> None:
    """The end is not of it; a time shorter than a round may hold none."""
    round_s = CAMPAIGN.round_s
    first = CAMPAIGN.not_before + 10
    span = Span(name="", start_s=first * round_s, end_s=(first + 3) * round_s, zone=UTC)
    assert span.rounds(CAMPAIGN) == (first, first + 2)
    short = Span(name="", start_s=first * round_s + 1, end_s=first * round_s + 2, zone=UTC)
    assert short.rounds(CAMPAIGN) == (first + 1, first)
    endless = Span(name="", start_s=0, end_s=200_000_000_000, zone=UTC)
    assert endless.rounds(CAMPAIGN)[1] == CAMPAIGN.not_after


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=yesterday", "from must be a date"),
        ("from=2026-06-21&to=2026-13-01", "to must be a date"),
        ("from=2026-06-21&to=2026-06-21", "must be after its beginning"),
        ("to=2026-06-21", "from must be a date"),
        ("from=0001-01-01", "from must be a date"),
        ("zone=Middle/Earth", "zone must be a name"),
        ("zone=../../etc/passwd", "zone must be a name"),
        ("compare=gone", "compare must be"),
    ],
)
def test_what_cannot_be_read_is_named(query: str, words: str) -> None:
    """The page says which part of the address is wrong, and what it may be."""
    with pytest.raises(HTTPException, match=words) as refused:
        asked(query)
    assert refused.value.status_code == 400


def test_a_browser_with_an_unknown_zone_gets_utc() -> None:
    """A cookie is nobody's mistake: the page is shown."""
    assert asked(zone="Middle%2FEarth").zone is UTC
    assert asked("from=2026-06-20&zone=UTC").zone is UTC


def test_two_equal_means_are_called_different_at_most_once_in_forty_times() -> None:
    """On either side, as the page says; means that are four errors apart are told apart.

    Of 20,000 drawings a true share of 1/40 is above 0.032 with probability below 1e-9.
    """
    rng = np.random.default_rng(20261118)

    def whole(value: float, error: float) -> dict[str, float]:
        return {"value": value, "low": value - 1.96 * error, "high": value + 1.96 * error}

    higher = lower = 0
    for one, other in rng.normal(size=(20_000, 2)):
        found = _difference(whole(100 + 3 * one, 3), whole(100 + 4 * other, 4))
        assert found is not None
        higher += found.low > 0
        lower += found.high < 0
    assert 400 < higher < 640
    assert 400 < lower < 640
    apart = _difference(whole(130, 3), whole(110, 4))
    assert apart is not None
    assert apart.low > 0
    # Where the range cuts an interval, the side that is not cut says how far it reaches.
    cut = _difference({"value": 1.0, "low": 0.0, "high": 7.0}, whole(0.0, 0.0))
    assert cut is not None
    assert (cut.low, cut.high) == (-5.0, 7.0)
    assert _difference(None, whole(1.0, 1.0)) is None
