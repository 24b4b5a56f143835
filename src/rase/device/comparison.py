"""What the device measured and what it sent, side by side, for its owner: in memory alone.

It is there only while the owner's page is switched on, holds the last rounds, and ends with the
agent. Nothing of it is ever written, logged or sent.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from rase.clock import Clock
from rase.device.journal import Journal

__all__ = ["Comparison", "Now", "Observer", "RoundSeen", "Trouble"]

# Two days of quarter hours; the owner's page shows no more.
_MOST_ROUNDS: Final = 192
_MOST_OPEN: Final = 8
_TROUBLES: Final = ("terms-refused", "not-fetched", "source-failed", "unreachable", "refused")
# What shows that a trouble is over.
_CURES: Final = {
    "terms-accepted": ("terms-refused", "not-fetched"),
    "keys-accepted": ("terms-refused", "not-fetched"),
    "sent": ("unreachable", "refused"),
}


class Observer(Protocol):
    """See what the device measures and reports; `Comparison` is one."""

    def read(self, round: int, count: int, mean: float) -> None:
        """See how many readings the present round has, and what they became."""
        ...

    def note_fetched(self) -> None:
        """See that the terms could be asked for, and none was refused."""
        ...

    def note_round_end(self, round: int, mean: float | None, *, is_shared: bool) -> None:
        """See the mean of a round that has ended, and whether it may be shared."""
        ...

    def note_report(self, round: int, value: float, *, epsilon: float, envelope: bytes) -> None:
        """See what is sent instead of the mean."""
        ...


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """What happened in a round.

    Args:
        round: The round.
        measured: Its mean reading; None if there was none.
        is_shared: Whether the owner allowed it to be shared.
        sent: The noisy value that was drawn; None if a cover report, or nothing, took its place.
        epsilon: What that spent.
        envelope: The bytes that travel.
        reason: Why there is no noisy value, as the journal calls it; empty if it says nothing.
        refresh_round: Where the budget was spent: the round in which there is more.
        fate: ``waiting``, ``sent`` or ``dropped``; empty if nothing is to be sent.
    """

    round: int
    measured: float | None = field(default=None, repr=False)
    is_shared: bool = True
    sent: float | None = field(default=None, repr=False)
    epsilon: float | None = None
    envelope: bytes = field(default=b"", repr=False)
    reason: str = ""
    refresh_round: int | None = None
    fate: str = ""


@dataclass(frozen=True, slots=True)
class Now:
    """The present round: its number, how many readings it has, and what they became."""

    round: int
    count: int
    mean: float = field(repr=False)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong last: an event of the journal, its fields, when, and how often."""

    event: str
    fields: Mapping[str, object]
    time_s: float
    count: int = 1


class Comparison:
    """Keep the last rounds for the owner's page; a journal that passes every event on.

    Safe to ask from another thread than the agent's.

    Args:
        journal: Gets every note, unchanged.
        clock: Gives when something went wrong.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._rounds: dict[int, RoundSeen] = {}
        self._troubles: dict[str, Trouble] = {}
        self._means: dict[int, Now] = {}

    @property
    def rounds(self) -> list[RoundSeen]:
        """The last rounds, newest first."""
        with self._lock:
            return sorted(self._rounds.values(), key=lambda one: -one.round)

    @property
    def troubles(self) -> list[Trouble]:
        """What went wrong and was not seen to work again since, newest first."""
        with self._lock:
            return sorted(self._troubles.values(), key=lambda one: -one.time_s)

    @property
    def now(self) -> Now | None:
        """The readings of the newest round that has not ended; None if there are none."""
        with self._lock:
            return self._means[max(self._means)] if self._means else None

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rounds.clear()
            self._troubles.clear()
            self._means.clear()

    def read(self, round: int, count: int, mean: float) -> None:
        """Keep what the present round's readings became so far."""
        with self._lock:
            self._troubles.pop("source-failed", None)
            self._means[round] = Now(round, count, mean)
            if len(self._means) > _MOST_OPEN:
                del self._means[min(self._means)]

    def note_fetched(self) -> None:
        """Note that the terms are no trouble any more."""
        with self._lock:
            self._troubles.pop("terms-refused", None)
            self._troubles.pop("not-fetched", None)

    def note_round_end(self, round: int, mean: float | None, *, is_shared: bool) -> None:
        """Keep the mean of a round; one that may not be shared was seen by `read` all the same."""
        with self._lock:
            seen = self._means.pop(round, None)
        measured = seen.mean if mean is None and seen is not None else mean
        self._change(round, measured=measured, is_shared=is_shared)

    def note_report(self, round: int, value: float, *, epsilon: float, envelope: bytes) -> None:
        """Keep the noisy value of a round and its bytes."""
        self._change(round, sent=value, epsilon=epsilon, envelope=envelope)

    def note(self, event: str, **fields: object) -> None:
        """Pass an event on, and keep what it says about a round."""
        self._journal.note(event, **fields)
        with self._lock:
            if event in _TROUBLES:
                before = self._troubles.get(event)
                count = 1 if before is None else before.count + 1
                self._troubles[event] = Trouble(event, fields, self._clock.now_s(), count)
            for cured in _CURES.get(event, ()):
                self._troubles.pop(cured, None)
        round = fields.get("round")
        if not isinstance(round, int):
            return
        match event:
            case "sealed" | "sealed-again":
                self._change(round, fate="waiting")
            case "sent":
                self._change(round, fate="sent")
            case "dropped":
                self._change(round, fate="dropped", reason=str(fields.get("problem", "")))
            case "budget-spent":
                self._change(round, reason=event, refresh_round=fields.get("refresh_round"))
            case "round-skipped":
                self._change(round, reason=str(fields.get("reason", "")))
            case _:
                return

    def _change(self, round: int, **changes: object) -> None:
        with self._lock:
            before = self._rounds.get(round, RoundSeen(round))
            self._rounds[round] = replace(before, **changes)  # type: ignore[arg-type]
            while len(self._rounds) > _MOST_ROUNDS:
                del self._rounds[min(self._rounds)]
