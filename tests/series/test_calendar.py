"""Days and weeks of a calendar, with days of 23 and 25 hours."""

from datetime import UTC, datetime

import pytest
from tests.cases import each_case

from rase import Estimate, RoundResult, Uniform
from rase.series.calendar import CalendarWindows, round_limit_s, zone_of
from rase.series.score import WindowResult

MANIFEST = Uniform().manifest_for(4)
HOUR_MS = 3_600_000
ZURICH = zone_of("Europe/Zurich")


def ms(year: int, month: int, day: int, hour: int) -> int:
    """Return a moment in UTC."""
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1000


def result(start_ms: int) -> RoundResult:
    """Return an hourly round whose mean is its hour in UTC."""
    value = float(start_ms // HOUR_MS % 24)
    estimate = Estimate(value, 3.0, n=4, method="unbiased_mean", target="mean")
    return RoundResult(
        4, {"unbiased_mean": estimate}, MANIFEST, round=start_ms // HOUR_MS, start_ms=start_ms
    )


def followed(windows: CalendarWindows, starts: list[int]) -> list[WindowResult]:
    """Return the windows that end, in order."""
    return [one for one in (windows.add(result(start)) for start in starts) if one is not None]


def hours(first_ms: int, count: int) -> list[int]:
    """Return when so many hours begin."""
    return [first_ms + place * HOUR_MS for place in range(count)]


@each_case(
    ("first_ms", "count"),
    [
        (ms(2024, 3, 30, 23), 23),  # clocks go forward
        (ms(2024, 6, 1, 22), 24),
        (ms(2024, 10, 26, 22), 25),  # clocks go back
    ],
)
def test_a_day_has_the_hours_that_its_clocks_give_it(first_ms: int, count: int) -> None:
    """It begins at midnight in the zone, ends with its last round, and its mean is over all."""
    (day,) = followed(
        CalendarWindows("day", ZURICH, interval_ms=HOUR_MS), hours(first_ms, count + 20)
    )
    mean = day.estimates["unbiased_mean"]
    assert (day.start_ms, mean.rounds, mean.of_rounds) == (first_ms, count, count)
    values = [start // HOUR_MS % 24 for start in hours(first_ms, count)]
    assert mean.value == pytest.approx(sum(values) / count)


@each_case(
    ("first_ms", "count"),
    [(ms(2024, 3, 24, 23), 167), (ms(2024, 6, 2, 22), 168), (ms(2024, 10, 20, 22), 169)],
)
def test_a_week_is_from_monday_to_monday(first_ms: int, count: int) -> None:
    """Of 167, 168 or 169 hours."""
    (week,) = followed(
        CalendarWindows("week", ZURICH, interval_ms=HOUR_MS), hours(first_ms, count + 100)
    )
    mean = week.estimates["unbiased_mean"]
    assert (week.start_ms, mean.rounds, mean.of_rounds) == (first_ms, count, count)


def test_a_day_whose_clocks_change_at_midnight_begins_at_one() -> None:
    """In Santiago a day in September has no hour from 0 to 1."""
    first_ms = ms(2024, 9, 8, 4)
    windows = CalendarWindows("day", zone_of("America/Santiago"), interval_ms=HOUR_MS)
    (day,) = followed(windows, hours(first_ms, 30))
    assert (day.start_ms, day.estimates["unbiased_mean"].of_rounds) == (first_ms, 23)


def test_missing_rounds_are_counted_and_strict_refuses() -> None:
    """A day whose last round is missing answers when the next begins; half a day never does."""
    starts = hours(ms(2024, 6, 1, 22), 60)
    kept = [*starts[:23], *starts[24:36], *starts[48:60]]
    (day,) = followed(CalendarWindows("day", ZURICH, interval_ms=HOUR_MS), kept)
    mean = day.estimates["unbiased_mean"]
    assert (day.start_ms, mean.rounds, mean.of_rounds) == (starts[0], 23, 24)
    strict = CalendarWindows("day", ZURICH, interval_ms=HOUR_MS, strict=True)
    assert followed(strict, kept) == []


def test_a_day_that_is_not_over_has_no_mean() -> None:
    """Its last round, or a later one, must be there."""
    starts = hours(ms(2024, 6, 1, 22), 23)
    assert followed(CalendarWindows("day", ZURICH, interval_ms=HOUR_MS), starts) == []


def test_rounds_must_begin_at_midnight_and_have_a_time() -> None:
    """Six hours from midnight in UTC are none in Zurich."""
    with pytest.raises(ValueError, match="must divide 60 minutes, got 360"):
        CalendarWindows("day", ZURICH, interval_ms=6 * HOUR_MS)
    CalendarWindows("day", zone_of("UTC"), interval_ms=6 * HOUR_MS)
    assert round_limit_s(zone_of("Asia/Kathmandu")) == 900
    timeless = RoundResult(4, result(0).estimates, MANIFEST)
    with pytest.raises(ValueError, match="must have a time"):
        CalendarWindows("day", ZURICH, interval_ms=HOUR_MS).add(timeless)


@each_case(
    ("name", "said"),
    [
        ("Zurich", "Did you mean Europe/Zurich?"),
        ("Europe/Zurch", "Did you mean Europe/Zurich"),
        ("new york", "Did you mean America/New_York?"),
        ("../etc/passwd", "available_timezones"),
        ("", "available_timezones"),
    ],
)
def test_an_unknown_zone_is_refused_and_the_right_one_named(name: str, said: str) -> None:
    """The message says how to find all names."""
    with pytest.raises(ValueError, match="must be a name of the IANA list") as refused:
        zone_of(name)
    assert said in str(refused.value)


def test_a_machine_without_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is suggested where nothing is known."""
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(ValueError, match="Install the Python package tzdata"):
        zone_of("Zurich")
