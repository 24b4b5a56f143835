"""Numbers and times as people read them; the filters of all templates."""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from rase.privacy import rounded_down

__all__ = [
    "FILTERS",
    "decimals",
    "duration",
    "each",
    "erring",
    "keep_percent_signs",
    "moment",
    "near",
    "number",
    "sentence",
    "size",
]

_UNITS: Final = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with its significant digits; a dash if there is none.

    Example:
        >>> number(187.23456), number(-0.0001234), number(12345678), number(None), number(3)
        ('187.2', '−0.0001234', '12,345,678', '–', '3')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    text = f"{rounded:,.{min(max(places, 0), 12)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def near(
    value: float | None, low: float | None, high: float | None, places: int | None = None
) -> str:
    """Return an estimate with as many digits as its interval justifies.

    Args:
        value: The estimate, or an end of its interval.
        low: The lower end of its interval.
        high: The upper end.
        places: The decimals of the column it stands in, as `decimals` chooses them; from this
            interval alone if None.

    Example:
        >>> near(-8.2531, -125.9, 109.3), near(0.28431, 0.27, 0.3), near(5.0, None, None)
        ('−8.3', '0.28431', '5')
        >>> near(-0.01, -100.0, 100.0)
        '0.0'
    """
    if value is None or not math.isfinite(value):
        return number(value)
    if places is None:
        places = _worth(low, high)
    if places is None:
        return number(value)
    # Adding 0 takes the sign off what is rounded to nothing.
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}".replace("-", "−")


def decimals(rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many decimals a column of estimates has: one number for all of its rows.

    It is what the interval of the middle row is worth. None if no row has an interval.

    Args:
        rows: Estimates with the ends of their intervals, ``low`` and ``high``.

    Example:
        >>> rows = [{"low": 10.0, "high": high} for high in (12.0, 49.0, 53.0, 60.0)]
        >>> [near(row["high"], 10.0, row["high"]) for row in rows]
        ['12.000', '49.00', '53.0', '60.0']
        >>> [near(row["high"], 10.0, row["high"], decimals(rows)) for row in rows]
        ['12.0', '49.0', '53.0', '60.0']
        >>> decimals([{"low": None, "high": None}]) is None
        True
    """
    found = sorted(
        places for row in rows if (places := _worth(row.get("low"), row.get("high"))) is not None
    )
    return found[(len(found) - 1) // 2] if found else None


def _worth(low: float | None, high: float | None) -> int | None:
    """Return how many decimals an interval justifies; None if unknown."""
    if low is None or high is None or not high > low:
        return None
    # A quarter of the interval is about one standard error; three of its digits are kept.
    places = 2 - math.floor(math.log10((high - low) / 4))
    return places if places <= 12 else None


def erring(value: float | None, error: float | None) -> str:
    """Return a number with its standard error, both to the error's second digit.

    Example:
        >>> erring(68.01, 32.76), erring(-0.3297, 3.809), erring(2.0, None)
        ('68 (± 33)', '−0.3 (± 3.8)', '2')
        >>> erring(0.0, 1e-14)
        '0 (± 1e−14)'
    """
    if value is None or error is None or not (math.isfinite(error) and error > 0):
        return number(value)
    places = 1 - math.floor(math.log10(error))
    if places > 12:
        return f"{value:.3g} (± {error:.2g})".replace("-", "−")
    # Adding 0 takes the sign off what is rounded to nothing.
    shown = (f"{round(one, places) + 0.0:,.{max(places, 0)}f}" for one in (value, error))
    return "{} (± {})".format(*shown).replace("-", "−")


def moment(
    value: float | str | None, form: str = "%Y-%m-%d %H:%M:%S UTC", zone: tzinfo = UTC
) -> str:
    """Return a time with its zone; a dash if there is none.

    Args:
        value: Seconds since 1970, or RFC 3339.
        form: As `datetime.strftime` has it; it names the zone itself.
        zone: The zone in which it is written.

    Example:
        >>> moment(1782000000), moment("2026-06-21T00:00:00Z", "%H:%M UTC")
        ('2026-06-21 00:00:00 UTC', '00:00 UTC')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return datetime.fromisoformat(value).astimezone(zone).strftime(form)
    return datetime.fromtimestamp(value, zone).strftime(form)


def duration(seconds: float) -> str:
    """Return a duration in the one or two largest units.

    Example:
        >>> duration(8), duration(3600), duration(5400), duration(2 * 86400 + 3600)
        ('8 seconds', '1 hour', '1 hour 30 minutes', '2 days 1 hour')
    """
    rest = max(round(seconds), 0)
    parts = []
    for length, name in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count:,} {name}{'s' if count > 1 else ''}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 seconds"


def each(seconds: float) -> str:
    """Return a duration as it follows ``every`` or ``in any``.

    Example:
        >>> each(86400), each(900), each(5400)
        ('day', '15 minutes', '1 hour 30 minutes')
    """
    text = duration(seconds)
    return text.removeprefix("1 ") if text.count(" ") == 1 else text


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter.

    Example:
        >>> sentence("mean power"), sentence("")
        ('Mean power', '')
    """
    return text[:1].upper() + text[1:]


def keep_percent_signs(text: str) -> str:
    """Return a text whose per cent signs stay with their numbers at the end of a line.

    Example:
        >>> keep_percent_signs("at most 73.2 % sure").encode("ascii", "xmlcharrefreplace")
        b'at most 73.2&#160;% sure'
    """
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def size(count: float) -> str:
    """Return a number of bytes.

    Example:
        >>> size(512), size(2048), size(5 * 2**30)
        ('512 B', '2 KiB', '5 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "decimals": decimals,
    "erring": erring,
    "near": near,
    "number": number,
    "rounded_down": rounded_down,
    "moment": moment,
    "duration": duration,
    "each": each,
    "size": size,
    "sentence": sentence,
    "keep_percent_signs": keep_percent_signs,
}
