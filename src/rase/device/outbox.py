"""Envelopes on their way: sent at a random moment of the upload window, then again and again.

A retry repeats the same bytes after a growing pause, until the shuffler has said yes or never.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rase.campaign import Campaign
from rase.clock import FIRST_PAUSE_S, LONGEST_PAUSE_S, Clock, backoff_s
from rase.device.journal import Journal
from rase.device.reporter import Envelope
from rase.errors import Malformed
from rase.kernels.entropy import Entropy, checked_entropy, integer_below
from rase.transport.interface import Answer, Transport, Unreachable
from rase.wire.messages import REPORT_TYPE

__all__ = ["REPORTS_PATH", "Outbox", "Verdict", "random_share"]

REPORTS_PATH: Final = "/v1/reports"
_RESOLUTION = 1 << 20
_OUTDATED: Final = ("outdated-config", "other-keyset")


class Verdict(Enum):
    """Say what became of an envelope."""

    SENT = "sent"
    CLOSED = "closed"
    DROPPED = "dropped"
    OUTDATED = "outdated"


@dataclass(slots=True)
class _Item:
    envelope: Envelope
    campaign: Campaign
    # By the monotonic clock: setting the wall clock must not move them.
    due_s: float
    last_s: float
    attempts: int = 0


class Outbox:
    """Envelopes on their way; those that are due are sent.

    Args:
        transport: The way to the shuffler.
        credential: What proves to the shuffler that reports are this device's.
        clock: Gives when something is due.
        entropy: Where the moments come from.
        journal: Takes notes.
        study: Whether moments may be repeated, because nobody sends.

    Raises:
        TypeError: If the entropy is not the operating system's, and it is not for study.
    """

    def __init__(
        self,
        transport: Transport,
        credential: str,
        *,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        study: bool = False,
    ) -> None:
        self._transport = transport
        self._credential = credential
        self._clock = clock
        self._entropy = checked_entropy(entropy, study=study)
        self._journal = journal
        self._items: dict[int, _Item] = {}

    def __contains__(self, round: int) -> bool:
        return round in self._items

    def __len__(self) -> int:
        return len(self._items)

    def add(self, envelope: Envelope, campaign: Campaign) -> None:
        """Take an envelope, to be sent at a random moment of what is left of its upload window.

        Reports and cover reports are treated alike from here on.
        """
        now_s = self._clock.now_s()
        left_s = max(campaign.upload_end_s(envelope.round) - now_s, 0.0)
        # Never before the round's end: the shuffler does not take it, and clocks may go back.
        early_s = max(campaign.round_end_s(envelope.round) - now_s, 0.0)
        wait_s = early_s + random_share(self._entropy) * (left_s - early_s)
        # A round longer than needed, in case this clock is ahead of the shuffler's.
        life_s = max(_last_s(campaign, envelope.round) - now_s, wait_s)
        passed_s = self._clock.monotonic_s()
        self._items[envelope.round] = _Item(
            envelope, campaign, due_s=passed_s + wait_s, last_s=passed_s + life_s
        )

    def replace(self, envelope: Envelope, campaign: Campaign) -> None:
        """Put a newly sealed envelope in the place of its round's, to be sent at once."""
        item = self._items[envelope.round]
        if envelope.data != item.envelope.data:
            item.envelope, item.campaign = envelope, campaign
            item.due_s = self._clock.monotonic_s()

    def settle(self, round: int) -> None:
        """Forget the envelope of a round."""
        self._items.pop(round, None)

    def next_due_s(self) -> float | None:
        """Return the monotonic second at which the next envelope is due."""
        return min((item.due_s for item in self._items.values()), default=None)

    def send_due(self) -> Iterator[tuple[Envelope, Verdict]]:
        """Send what is due and yield what must be acted on; it also keeps the pauses."""
        for item in list(self._items.values()):
            if self._is_over(item):
                self._journal.note("dropped", round=item.envelope.round, problem="too-late")
                yield item.envelope, Verdict.DROPPED
            elif item.due_s <= self._clock.monotonic_s():
                verdict = self._send(item)
                if verdict is not None:
                    yield item.envelope, verdict

    def _is_over(self, item: _Item) -> bool:
        is_past = self._clock.now_s() >= _last_s(item.campaign, item.envelope.round)
        # If the clock was set back from far ahead, the round would stay open for years.
        return is_past or self._clock.monotonic_s() > item.last_s

    def _send(self, item: _Item) -> Verdict | None:
        round = item.envelope.round
        item.attempts += 1
        try:
            answer = self._transport.post(
                REPORTS_PATH,
                item.envelope.data,
                content_type=REPORT_TYPE,
                credential=self._credential,
            )
        except Unreachable:
            self._journal.note("unreachable", round=round, wait_s=self._pause(item))
            return None
        if answer.status in (200, 201):
            self._journal.note("sent", round=round, attempts=item.attempts)
            return Verdict.SENT
        problem = _problem_name(answer)
        if problem in ("round-closed", "unknown-campaign", "bad-report"):
            self._journal.note("dropped", round=round, problem=problem)
            return Verdict.CLOSED if problem == "round-closed" else Verdict.DROPPED
        wait_s = self._pause(item, at_least_s=answer.retry_after_s or 0.0)
        self._journal.note("refused", round=round, problem=problem, wait_s=wait_s)
        return Verdict.OUTDATED if problem in _OUTDATED else None

    def _pause(self, item: _Item, *, at_least_s: float = 0.0) -> float:
        # Short enough for several tries while the round is open, however long an outage was.
        most_s = min(LONGEST_PAUSE_S, max(item.campaign.grace_s / 4, FIRST_PAUSE_S))
        pause_s = max(
            backoff_s(item.attempts, share=random_share(self._entropy), most_s=most_s), at_least_s
        )
        item.due_s = self._clock.monotonic_s() + pause_s
        return pause_s


def random_share(entropy: Entropy) -> float:
    """Draw a number of [0, 1), in steps of a millionth."""
    return integer_below(_RESOLUTION, entropy) / _RESOLUTION


def _last_s(campaign: Campaign, round: int) -> int:
    return campaign.closes_s(round) + campaign.round_s


def _problem_name(answer: Answer) -> str:
    from rase.wire.problems import Problem

    try:
        return Problem.from_json(answer.body).type.name
    except Malformed:
        # A proxy or another service answered; it may be gone next time.
        return "not-enrolled" if answer.status == 401 else f"status-{answer.status}"
