"""What the reports of a span give away to the fusion centre, by the claims they were made under.

Claims do not add up as epsilons do: what 24 reports of one table give away together stands in its
row for 24. Reports of different tables, of two campaigns or of two versions, add up by their rows,
and so do the deltas; what is spent by the reports' own noise is always a bound as well, without a
delta. Everything is in billionths of epsilon.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from rase.accounting.ledger.nano import nano_from_spending
from rase.promise import Claim, claim_for

__all__ = ["ClaimTables", "Given", "first_room", "most_given"]

# What deltas of several tables may lie above a limit by the rounding of their sum.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Given:
    """What one report counts.

    Args:
        place: The second at which its round begins.
        nano: What it spends by its own noise.
        table: The number of the table of claims it was made under; None if nothing was promised
            towards the fusion centre.
    """

    place: int
    nano: int
    table: int | None


# Reports and what they spend, by table.
Held = dict[int | None, tuple[int, int]]


class ClaimTables:
    """Say what reports give away together, under tables of claims.

    Args:
        tables: The tables by number, each ascending in the number of reports.
        most_delta: The largest delta that all of them together may have.
    """

    def __init__(self, tables: Mapping[int, tuple[Claim, ...]], *, most_delta: float) -> None:
        self._tables = tables
        self._most_delta = most_delta * (1 + _CLOSE)

    def give_away(self, held: Held) -> int:
        """Return what some reports give away to the fusion centre, all together.

        Where the deltas exceed their limit no claim is made use of: the noise alone counts.
        """
        spent = given = 0
        delta = 0.0
        for table, (reports, nano) in held.items():
            spent += nano
            claim = None
            if reports and table is not None:
                claim = claim_for(self._tables[table], reports)
            if claim is None or not claim.epsilon:
                # More reports than the table is about, or none.
                given += nano
            else:
                given += min(nano, nano_from_spending("epsilon", claim.epsilon))
                delta += claim.delta
        return given if delta <= self._most_delta else spent


def most_given(reports: Iterable[Given], place: int, *, length: int, tables: ClaimTables) -> int:
    """Return what the window of the most gives away, of those that contain a place.

    Args:
        reports: The reports, in any order.
        place: The second.
        length: Of the windows, in seconds.
        tables: The claims that they were made under.
    """
    return max(
        (
            tables.give_away(held)
            for begin, end, held in _windows(reports, length)
            if begin <= place and end > place - length + 1
        ),
        default=0,
    )


def first_room(
    reports: Iterable[Given], one: Given, *, length: int, limit: int, tables: ClaimTables
) -> int:
    """Return the first second from a report's on at which it would keep a limit in all windows.

    Args:
        reports: The reports that were made, in any order.
        one: The report that is to be made; by itself it keeps the limit.
        length: Of the windows, in seconds.
        limit: What a window may give away.
        tables: The claims of all of them.
    """
    free = one.place
    for begin, end, held in _windows(reports, length):
        count, nano = held.get(one.table, (0, 0))
        together = tables.give_away({**held, one.table: (count + 1, nano + one.nano)})
        # A full window blocks all its places; windows are met in the order of their beginning.
        if together > limit and begin <= free:
            free = max(free, end - 1 + length)
    return free


def _windows(reports: Iterable[Given], length: int) -> Iterator[tuple[int, int, Held]]:
    """Yield (begin, end, held): all windows that begin in [begin, end) hold these reports."""
    changes: defaultdict[int, list[tuple[Given, int]]] = defaultdict(list)
    for one in reports:
        changes[one.place - length + 1].append((one, 1))
        changes[one.place + 1].append((one, -1))
    held: Held = {}
    for begin, end in pairwise(sorted(changes)):
        for one, sign in changes[begin]:
            count, nano = held.get(one.table, (0, 0))
            held[one.table] = count + sign, nano + sign * one.nano
        yield begin, end, held
