"""Questions as requests: what both clients send, and how times are written."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rase.address import split_address
from rase.errors import ConfigurationError

__all__ = ["Moment", "Query", "base_url", "headers", "span", "two_sides"]

Moment = datetime | int | str
"""A time: a datetime with a zone, milliseconds since 1970, or RFC 3339."""

# As httpx takes it: the same name may come several times.
Query = dict[str, str] | list[tuple[str, str | int | float | bool | None]]
_SIDE: Final = {"campaign": "campaign", "label": "label", "category": "category"}
_TIMES: Final = {"at": "at", "start": "from", "end": "to"}


def base_url(url: str) -> str:
    """Return the address of a fusion centre, checked.

    Raises:
        ConfigurationError: If a token would go over the network in the clear.
    """
    try:
        split_address(url, plain="http", secure="https")
    except ValueError as error:
        raise ConfigurationError([f"url {error}"]) from None
    return url.rstrip("/")


def headers(token: str) -> dict[str, str]:
    """Return the headers that every question has.

    Raises:
        ConfigurationError: If the token cannot be one.
    """
    if not token.isascii() or not token.isprintable() or not token.strip():
        raise ConfigurationError(["token must be the text that the operator gave you."])
    return {"Authorization": f"Bearer {token.strip()}", "Accept": "application/json"}


def span(
    *,
    campaign: str | None,
    method: str | None,
    w: int | str | None = None,
    strict: bool = False,
    timezone: str | None = None,
    final: bool = False,
    at: Moment | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    label: str | None = None,
    category: str | None = None,
) -> dict[str, str]:
    """Return the query of a question; what was not asked is left out.

    Raises:
        ValueError: If a datetime has no zone.
    """
    asked = {
        "campaign": campaign,
        "method": method,
        "w": None if w is None else str(w),
        "strict": "true" if strict else None,
        "timezone": timezone,
        "final": "true" if final else None,
        "at": _format_moment(at),
        "from": _format_moment(start),
        "to": _format_moment(end),
        "label": label,
        "category": category,
    }
    return {name: value for name, value in asked.items() if value is not None}


def two_sides(
    campaign: str | None, first: Mapping[str, Moment], second: Mapping[str, Moment]
) -> dict[str, str]:
    """Return the query of a difference.

    Args:
        campaign: The campaign of both, unless a side names another.
        first: What the first side is about.
        second: What is different about the second.

    Raises:
        ValueError: If a side has a word that none knows, or a time without a zone.

    Example:
        >>> two_sides("homes", {"label": "north"}, {"label": "south", "at": 0})
        {'campaign': 'homes', 'label': 'north', 'than_label': 'south', 'than_at': '0'}
    """
    asked = {} if campaign is None else {"campaign": campaign}
    for before, side in (("", first), ("than_", second)):
        for name, value in side.items():
            word = _SIDE.get(name) or _TIMES.get(name)
            if word is None:
                known = ", ".join((*_SIDE, *_TIMES))
                raise ValueError(f"a side must have words out of {known}, got {name!r}.")
            asked[f"{before}{word}"] = _format_moment(value) or ""
    return asked


def _format_moment(moment: Moment | None) -> str | None:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a time must have a zone, such as datetime.now(UTC).")
        return moment.isoformat()
    return None if moment is None else str(moment)
