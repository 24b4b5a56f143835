"""A round's mean becomes noise, the noise an envelope; or else a cover report of the same size.

What lies on the disk until the round is closed: the noisy place with its budget class and the tag
of the campaign it was drawn for (18 bytes, in the ledger, paid for), and the envelope. The place is
needed if the servers' keys change before the report arrived: then the same noise is sealed again.
"""

import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rase.accounting.ledger import (
    CampaignLimits,
    Entry,
    LedgerStatus,
    LedgerUnusable,
    Spending,
    StoredReport,
)
from rase.campaign import Campaign
from rase.clock import Clock
from rase.device.journal import Journal
from rase.device.memory import Memory
from rase.device.state import Cover, StateUnusable
from rase.device.states import drawn_number, reported
from rase.device.terms import SealingKeys, TermsRefused
from rase.errors import BudgetSpent, PrivacyRefused, UnknownKey, WireError
from rase.kernels.entropy import Entropy, checked_entropy
from rase.laws.registry import randomizer_named
from rase.promise import Claim
from rase.wire.messages import Content, Header
from rase.wire.signed import SignedCampaign

if TYPE_CHECKING:
    from rase.device.comparison import Observer
    from rase.laws.randomizer import Randomizer

__all__ = ["Envelope", "LedgerFace", "Reporter", "randomizer_of"]

# Version, budget class, grid place, tag of the campaign; the token follows, where there is one.
_DRAWN = struct.Struct(">BBq8s")
_DRAWN_VERSION = 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """Stored bytes that may be sent any number of times.

    Args:
        round: The round they belong to.
        data: The bytes.
        is_cover: Whether they only hide that there is nothing to say.
    """

    round: int
    data: bytes = field(repr=False)
    is_cover: bool = field(repr=False)


class LedgerFace(Protocol):
    """What the agent asks of its ledger; `rase.accounting.ledger.Ledger` is one."""

    def join(self, limits: CampaignLimits) -> None:
        """Take part in a campaign, or take over the limits of its new version."""
        ...

    def report(
        self, campaign: str, round: int, *, epsilon: float, claims: tuple[Claim, ...] = ()
    ) -> AbstractContextManager[Spending]:
        """Open the transaction that pays for the report of a round."""
        ...

    def stored_report(self, campaign: str, round: int) -> StoredReport:
        """Return the report of a round."""
        ...

    def reseal(self, campaign: str, round: int, *, envelope: bytes) -> StoredReport:
        """Put the same report into a new envelope."""
        ...

    def mark_sent(self, campaign: str, round: int) -> None:
        """Note that the report of a round is done with."""
        ...

    def unsent(self) -> list[StoredReport]:
        """Return the stored reports that were not marked as sent."""
        ...

    def status(self, time_s: int) -> LedgerStatus:
        """Return what is spent, and which campaigns were joined."""
        ...

    def history(self, count: int = 100) -> list[Entry]:
        """Return the latest entries."""
        ...

    def close_rounds(self, before_s: int) -> int:
        """Close all rounds that begin before a second, and erase their reports."""
        ...


class Reporter:
    """Make the envelope of a round, at most once.

    Args:
        memory: The terms, and cover reports.
        ledger: Pays for reports.
        clock: Gives which keys are active.
        entropy: Where the noise comes from.
        journal: Takes notes.
        has_turn: Says whether the schedule gives a round to this device.
        sends_cover: Whether to send cover reports at all.
        observer: Sees what was drawn, for the owner's page.
        study: Whether noise may be repeated, because nobody's reading is in it.

    Raises:
        TypeError: If the entropy is not the operating system's, and it is not for study.
    """

    def __init__(
        self,
        memory: Memory,
        ledger: LedgerFace,
        *,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        has_turn: Callable[[Campaign, int], bool],
        sends_cover: bool,
        observer: "Observer | None" = None,
        study: bool = False,
    ) -> None:
        self._memory = memory
        self._ledger = ledger
        self._clock = clock
        self._entropy = checked_entropy(entropy, study=study)
        self._journal = journal
        self._has_turn = has_turn
        self._sends_cover = sends_cover
        self._observer = observer

    def make(self, signed: SignedCampaign, round: int, mean: float | None) -> Envelope | None:
        """Make a report if there is something to say and it may be said, else a cover report.

        Args:
            signed: The campaign that holds in the round.
            round: The round, which has ended.
            mean: The mean reading; None if there is none, or it is not to be shared.

        Returns:
            What to send; None if nothing is to be sent in this round.

        Raises:
            UnknownKey: If a server has no active key; nothing was drawn.
            LookupError: If there is no keyset yet; nothing was drawn.
        """
        keys = self._memory.terms.keys_for(signed, self._clock.now_s(), round=round)
        try:
            if mean is not None and self._has_turn(signed.campaign, round):
                try:
                    return self._report(signed, round, mean, keys)
                except BudgetSpent as error:
                    self._journal.note(
                        "budget-spent", round=round, refresh_round=error.refresh_round
                    )
                except _NoToken:
                    self._journal.note("no-tokens", round=round, reason="none-left")
            return self._cover(signed, round, keys)
        except _Skipped as error:
            self._journal.note("round-skipped", round=round, reason=error.reason)
            return None

    def seal_again(self, envelope: Envelope) -> Envelope | None:
        """Seal the same content for the terms that hold now, if they changed.

        Returns:
            The new envelope; the same one if nothing changed; None if nothing is to be sent.

        Raises:
            LedgerUnusable: If the ledger cannot be written; the old envelope stays.
        """
        round = envelope.round
        signed = self._memory.terms.campaign_for(round)
        try:
            if signed is None:
                raise _Skipped("no-campaign")
            keys = self._memory.terms.keys_for(
                signed, self._clock.now_s(), round=round, is_outdated=True
            )
            header = Header.from_report(envelope.data)
            if header == Header(keys.shuffler.id, signed.hash[:8], round, keys.keyset):
                return envelope
            if envelope.is_cover:
                return self._cover(signed, round, keys)
            return self._report_again(signed, round, keys)
        except (UnknownKey, LookupError):
            return envelope
        except _Skipped as error:
            self._journal.note("round-skipped", round=round, reason=error.reason)
            return None

    def _report(
        self, signed: SignedCampaign, round: int, mean: float, keys: SealingKeys
    ) -> Envelope:
        campaign = signed.campaign
        try:
            epsilon_class = self._memory.terms.admit(campaign)
        except TermsRefused as error:
            raise _Skipped(error.reason) from None
        randomizer = randomizer_of(campaign.reported_in(round), epsilon_class)
        epsilon = campaign.epsilon[epsilon_class]
        try:
            with self._ledger.report(
                campaign.id, round, epsilon=epsilon, claims=campaign.claims
            ) as spending:
                if spending.found is None:
                    token = spending.take_token(campaign.block_start(round))
                    if token is None:
                        raise _NoToken
                    place = randomizer.draw_one(reported(campaign, mean), self._entropy)
                    drawn = _DRAWN.pack(_DRAWN_VERSION, epsilon_class, place, signed.hash[:8])
                    drawn += token
                    spending.keep(drawn, envelope=self._seal(signed, round, drawn, keys))
        except (BudgetSpent, _NoToken):
            raise
        except LedgerUnusable:
            # Whether the entry was stored is not known, so a cover report could contradict it.
            raise _Skipped("ledger-unusable") from None
        except PrivacyRefused:
            raise _Skipped("ledger-refused") from None
        except WireError:
            raise _Skipped("not-sealed") from None
        self._show(campaign, spending.stored_report)
        self._journal.note("sealed", round=round)
        return Envelope(round, spending.stored_report.envelope, is_cover=False)

    def _report_again(
        self, signed: SignedCampaign, round: int, keys: SealingKeys
    ) -> Envelope | None:
        name = signed.campaign.id
        try:
            drawn = self._ledger.stored_report(name, round).report
            envelope = self._seal(signed, round, drawn, keys)
            stored = self._ledger.reseal(name, round, envelope=envelope)
        except _LawChanged:
            # The fusion centre would read the place by another law than it was drawn from.
            self._ledger.mark_sent(name, round)
            return self._cover(signed, round, keys)
        except LedgerUnusable:
            raise
        except (PrivacyRefused, WireError):
            raise _Skipped("not-sealed") from None
        self._show(signed.campaign, stored)
        self._journal.note("sealed-again", round=round)
        return Envelope(round, stored.envelope, is_cover=False)

    def _show(self, campaign: Campaign, stored: StoredReport) -> None:
        if self._observer is None:
            return
        place = _DRAWN.unpack_from(stored.report)[2]
        self._observer.note_report(
            stored.round,
            drawn_number(campaign, place),
            epsilon=stored.epsilon,
            envelope=stored.envelope,
        )

    def _seal(
        self,
        signed: SignedCampaign,
        round: int,
        drawn: bytes,
        keys: SealingKeys,
    ) -> bytes:
        _, epsilon_class, place, tag = _DRAWN.unpack_from(drawn)
        if not signed.hash.startswith(tag):
            drawn_for = self._memory.terms.campaign_by_tag(tag)
            if drawn_for is None:
                raise _LawChanged
            old, new = (one.campaign.reported_in(round) for one in (drawn_for, signed))
            epsilon_class = _same_law(old, epsilon_class, new)
        token = drawn[_DRAWN.size :]
        content = Content(signed.campaign.block_start(round), place, epsilon_class, token)
        label = signed.campaign.label_number(self._memory.terms.rules.label)
        return _envelope_of(content, signed, round, keys, label=label)

    def _cover(self, signed: SignedCampaign, round: int, keys: SealingKeys) -> Envelope | None:
        if not (self._sends_cover and signed.campaign.cover):
            return None
        try:
            data = _cover_of(signed, round, keys)
            # Stored before it is sent, as reports are: retries of both look the same.
            self._memory.keep_cover(round, Cover(data))
        except WireError:
            raise _Skipped("not-sealed") from None
        except StateUnusable:
            raise _Skipped("state-unusable") from None
        self._journal.note("sealed", round=round)
        return Envelope(round, data, is_cover=True)


class _Skipped(Exception):
    """Nothing is sent in a round; says why, without a value."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _NoToken(Exception):
    """There is no token for a report: nothing is drawn, nothing spent."""


class _LawChanged(Exception):
    """A new version of the campaign reads reports by another law than this one was drawn from."""


def randomizer_of(campaign: Campaign, epsilon_class: int) -> "Randomizer":
    """Return what turns readings into reports of a campaign, for one of its budgets."""
    return randomizer_named(
        campaign.mechanism,
        campaign.epsilon[epsilon_class],
        domain=campaign.public,
        precision=campaign.precision,
    )


def _envelope_of(
    content: Content,
    signed: SignedCampaign,
    round: int,
    keys: SealingKeys,
    *,
    label: int,
) -> bytes:
    # Noise and envelopes are needed at the end of a round, not for starting.
    from rase.wire.seal import seal_report

    return seal_report(
        content,
        campaign_hash=signed.hash,
        **keys._asdict(),
        round=round,
        label=label,
    )


def _cover_of(signed: SignedCampaign, round: int, keys: SealingKeys) -> bytes:
    from rase.wire.seal import seal_cover

    block = signed.campaign.block_start(round)
    return seal_cover(round=round, block=block, campaign_hash=signed.hash, **keys._asdict())


def _same_law(old: Campaign, epsilon_class: int, new: Campaign) -> int:
    """Return the budget class of another version whose reports follow the same law."""

    def law_of(campaign: Campaign, number: int) -> tuple[object, ...]:
        randomizer, epsilon = randomizer_of(campaign, number), campaign.epsilon[number]
        return randomizer.law(epsilon).name, epsilon, randomizer.domain

    wanted = law_of(old, epsilon_class)
    for number in range(len(new.epsilon)):
        if law_of(new, number) == wanted:
            return number
    raise _LawChanged
