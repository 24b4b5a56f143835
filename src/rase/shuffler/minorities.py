"""Reports that name other keys than the rest of their round: refused, counted, shown to operators.

Whoever shows a few devices a keyset of their own could tell their reports from those of the crowd.
Such reports are refused under a name of their own and are in no batch; how many there were is kept,
so that the operator learns of it; numbers that were never agreed are counted as 0. Who sent them is
not kept.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from rase.storage.interface import Transaction

__all__ = ["KEPT_DAYS", "Minority", "keep_minorities", "minorities_in"]

KEPT_DAYS: Final = 7
"""How long refused reports are shown."""

_DAY_S: Final = 86400
_HOUR_S: Final = 3600


class Minority(NamedTuple):
    """How many reports named a keyset that the rest did not go by; 0 if it was never agreed."""

    keyset: int
    reports: int


def keep_minorities(transaction: Transaction, counts: Mapping[int, int], *, now_s: float) -> None:
    """Add refused reports, by the number of their keyset, and forget those of long ago."""
    hour_s = int(now_s) // _HOUR_S * _HOUR_S
    transaction.execute("DELETE FROM other_keyset WHERE hour_s < ?", (_first_s(now_s),))
    transaction.execute_many(
        "INSERT INTO other_keyset (keyset, reports, hour_s) VALUES (?, ?, ?) "
        "ON CONFLICT (keyset) DO UPDATE SET reports = other_keyset.reports + excluded.reports, "
        "hour_s = excluded.hour_s",
        [(keyset, count, hour_s) for keyset, count in sorted(counts.items())],
    )


def minorities_in(transaction: Transaction, *, now_s: float) -> list[Minority]:
    """Return the refused reports of the last days, by the number of their keyset."""
    rows = transaction.execute(
        "SELECT keyset, reports FROM other_keyset WHERE hour_s >= ? ORDER BY keyset",
        (_first_s(now_s),),
    )
    return [Minority(*row) for row in rows]


def _first_s(now_s: float) -> int:
    return int(now_s) - KEPT_DAYS * _DAY_S
