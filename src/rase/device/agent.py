"""One step of the device's work after the other, by the clock it is given; it never waits itself.

A step fetches terms if it is time, takes readings, ends rounds, and sends what is due. Whatever
fails is noted and tried again or given up; only the program's own mistakes end the agent.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rase.accounting.ledger import CampaignLimits, LedgerUnusable
from rase.campaign import Campaign
from rase.clock import Clock, backoff_s
from rase.device.behaviour import Behaviour
from rase.device.collection import Collection
from rase.device.journal import Journal, StudyJournal
from rase.device.memory import Memory
from rase.device.outbox import Outbox, Verdict, random_share
from rase.device.reporter import Envelope, LedgerFace, Reporter
from rase.device.sources.interface import Reading, Source, SourceFailed
from rase.device.state import StateUnusable
from rase.device.states import state_numbers
from rase.device.terms import TermsRefused
from rase.errors import PrivacyRefused, UnknownKey
from rase.kernels.entropy import Entropy, checked_entropy
from rase.transport.interface import Transport, Unreachable

if TYPE_CHECKING:
    from rase.device.comparison import Observer
    from rase.device.tokens import TokenFetcher

__all__ = ["Agent"]

_LONGEST_WAIT_S = 60.0
_REMEMBERED_ROUNDS = 4096
_MOST_OPEN = 1024
_DEFAULT_CACHE_S = 300.0
_KEYSET = "/v1/keyset"
_FIRST_LOOK_S = 10.0
_LONGEST_REST_S = 600.0
_MOST_DOUBLINGS = 6


class Agent:
    """Do a device's work.

    Args:
        memory: Terms and cover reports.
        ledger: The privacy ledger.
        transport: The way to the shuffler.
        source: Where readings come from.
        credential: What proves to the shuffler that reports are this device's.
        clock: Gives rounds and pauses.
        entropy: Where noise and moments come from: the operating system, unless for study.
        journal: Takes notes.
        study: For simulations, which may repeat their noise: every note of the journal says so.
        behaviour: How it behaves.
        is_paused: Says whether the owner has paused sharing: cover reports go on.
        is_off: Says whether sharing is switched off: then nothing is sent at all.
        observer: Sees what is measured and reported, for the owner's page.
        tokens: Fetches the tokens without which nothing is reported; None without a registrar.

    Raises:
        TypeError: If the entropy is not the operating system's, and it is not for study.
    """

    def __init__(
        self,
        memory: Memory,
        ledger: LedgerFace,
        *,
        tokens: "TokenFetcher",
        transport: Transport,
        source: Source,
        credential: str,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        study: bool = False,
        behaviour: Behaviour | None = None,
        is_paused: Callable[[], bool] = lambda: False,
        is_off: Callable[[], bool] = lambda: False,
        observer: "Observer | None" = None,
    ) -> None:
        entropy = checked_entropy(entropy, study=study)
        journal = StudyJournal(journal) if study else journal
        self._memory = memory
        self._terms = memory.terms
        self._ledger = ledger
        self._transport = transport
        self._source = source
        self._clock = clock
        self._entropy = entropy
        self._journal = journal
        self._behaviour = behaviour or Behaviour()
        self._is_paused = is_paused
        self._is_off = is_off
        self._observer = observer
        self._collection = Collection(self._behaviour.aggregate)
        # What the owner sees of the present round, paused or not.
        self._shown = Collection(self._behaviour.aggregate)
        self._outbox = Outbox(
            transport, credential, clock=clock, entropy=entropy, journal=journal, study=study
        )
        self._reporter = Reporter(
            memory,
            ledger,
            clock=clock,
            entropy=entropy,
            journal=journal,
            has_turn=self._behaviour.has_turn,
            sends_cover=self._behaviour.sends_cover,
            observer=observer,
            study=study,
        )
        self._tokens = tokens
        self._tokens_at_s = clock.monotonic_s()
        self._failed_looks = 0
        self._etags: dict[str, str | None] = {}
        self._fetch_at_s = self._poll_at_s = clock.monotonic_s()
        self._failed_fetches = 0
        self._done: dict[int, None] = {}
        self._first_round: int | None = None
        self.rounds_ended = 0
        self.refusal: TermsRefused | None = None
        self._recall()

    @property
    def outbox(self) -> Outbox:
        """The envelopes on their way."""
        return self._outbox

    def step(self) -> float:
        """Do everything that is due.

        Returns:
            After how many seconds there is more to do.
        """
        if self._clock.monotonic_s() >= self._fetch_at_s:
            self._fetch()
        self._fetch_tokens()
        latest = self._terms.latest
        if latest is not None:
            self._collect(latest.campaign)
            self._end_rounds(latest.campaign)
            self._send()
        return self._wait_s()

    def _recall(self) -> None:
        """Find what an agent before this one left behind."""
        name = self._terms.campaign_id
        # Oldest first: when there are too many, the first one in is forgotten.
        for entry in reversed(self._ledger.history(_REMEMBERED_ROUNDS)):
            if entry.campaign == name:
                self._done[entry.round] = None
        unsent = [
            Envelope(stored.round, stored.envelope, is_cover=False)
            for stored in self._ledger.unsent()
            if stored.campaign == name
        ]
        for round, cover in self._memory.covers.items():
            self._done[round] = None
            if not cover.is_done:
                unsent.append(Envelope(round, cover.envelope, is_cover=True))
        for envelope in unsent:
            signed = self._terms.campaign_for(envelope.round)
            if signed is not None:
                self._outbox.add(envelope, signed.campaign)
        joined = [item.limits.campaign for item in self._ledger.status(0).campaigns]
        if self._terms.latest is not None and name not in joined:
            # The ledger was made again after the terms were accepted.
            self._join(self._terms.latest.campaign)

    def _fetch(self) -> None:
        """Ask for campaign and keyset, and plan the next time."""
        try:
            self._offer(f"/v1/campaigns/{self._terms.campaign_id}/versions", self._offer_versions)
            self._offer(_KEYSET, self._offer_keyset)
        except TermsRefused as error:
            self.refusal = error
            self._plan_fetch(is_failed=True)
            self._journal.note("terms-refused", reason=error.reason)
        except (Unreachable, StateUnusable, LedgerUnusable) as error:
            wait_s = self._plan_fetch(is_failed=True)
            self._journal.note("not-fetched", kind=type(error).__name__, wait_s=wait_s)
        else:
            self.refusal = None
            if self._observer is not None:
                self._observer.note_fetched()
            self._plan_fetch(is_failed=False)

    def _fetch_tokens(self) -> None:
        """Look for new token windows before the known ones are over, and fetch what is due."""
        if self._is_off():
            return
        now_s = self._clock.monotonic_s()
        try:
            if now_s >= self._tokens_at_s:
                # Whatever fails, the next look is not at once, and later each time.
                rest_s = min(_FIRST_LOOK_S * 2**self._failed_looks, _LONGEST_REST_S)
                self._tokens_at_s = now_s + rest_s
                self._failed_looks = min(self._failed_looks + 1, _MOST_DOUBLINGS)
                self._tokens.look_for_keys()
                latest = self._terms.latest
                lasts_s = None
                if latest is not None:
                    lasts_s = self._tokens.lasts_s(latest.campaign.round_s)
                if lasts_s is not None:
                    self._failed_looks = 0
                    again_s = min(self._fetch_at_s, now_s + lasts_s)
                    self._tokens_at_s = max(again_s, now_s + _FIRST_LOOK_S)
            self._tokens.step()
        except (Unreachable, LedgerUnusable) as error:
            wait_s = max(self._tokens_at_s - now_s, 0.0)
            self._journal.note("not-fetched", kind=type(error).__name__, wait_s=wait_s)

    def _offer(self, path: str, offer: Callable[[bytes], None]) -> None:
        answer = self._transport.get(path, etag=self._etags.get(path))
        if answer.status == 304:
            if path == _KEYSET:
                self._memory.keep_keyset(now_s=self._clock.now_s())
            return
        if answer.status != 200:
            raise Unreachable(f"{path} is answered with {answer.status}.")
        offer(answer.body)
        self._etags[path] = answer.etag

    def _offer_versions(self, data: bytes) -> None:
        for campaign in self._memory.offer_versions(data, self._join):
            self._journal.note("terms-accepted", campaign=campaign.id, version=campaign.version)

    def _offer_keyset(self, data: bytes) -> None:
        keyset = self._memory.offer_keyset(data, now_s=self._clock.now_s())
        if keyset is not None:
            self._journal.note("keys-accepted", version=keyset.version)

    def _join(self, campaign: Campaign) -> None:
        try:
            self._ledger.join(
                CampaignLimits(
                    campaign.id,
                    campaign.round_s,
                    window=campaign.window,
                    window_epsilon=campaign.window_budget,
                )
            )
        except LedgerUnusable:
            raise
        except (PrivacyRefused, ValueError) as error:
            raise TermsRefused("ledger", str(error)) from None

    def _plan_fetch(self, *, is_failed: bool) -> float:
        _, signed = self._terms.accepted_terms
        cache_s = _DEFAULT_CACHE_S if signed is None else float(signed.keyset.cache_s)
        if is_failed:
            self._failed_fetches += 1
            wait_s = backoff_s(
                self._failed_fetches, share=random_share(self._entropy), most_s=cache_s
            )
        else:
            self._failed_fetches = 0
            wait_s = cache_s * (0.5 + random_share(self._entropy) / 2)
        self._fetch_at_s = self._clock.monotonic_s() + wait_s
        return wait_s

    def _collect(self, campaign: Campaign) -> None:
        """Take readings into the present round."""
        now_s = self._clock.monotonic_s()
        if now_s < self._poll_at_s:
            return
        self._poll_at_s = now_s + (self._behaviour.poll_s or max(campaign.round_s / 10, 1.0))
        try:
            readings = self._source.read()
        except SourceFailed as error:
            self._journal.note("source-failed", kind=error.kind)
            return
        numbers = self._numbers(readings, campaign)
        if numbers is None:
            return
        round = self._present_round(campaign)
        if self._observer is not None:
            for number in numbers:
                self._shown.add(round, number)
            so_far = self._shown.peek(round)
            if so_far is not None:
                self._observer.read(round, *so_far)
        if self._is_paused() or self._is_off():
            self._collection.clear()
            return
        for number in numbers:
            self._collection.add(round, number)

    def _numbers(self, readings: Sequence[Reading], campaign: Campaign) -> list[float] | None:
        """Return readings as the campaign has them; None if it is about something else."""
        found = [one for one in readings if not isinstance(one, str)]
        if campaign.categories and not campaign.bounds:
            if found:
                self._journal.note("source-failed", kind="states")
                return None
            numbers, unknown = state_numbers(
                campaign, [one for one in readings if isinstance(one, str)]
            )
            if unknown:
                # How many, never which: a state is a reading.
                self._journal.note("states-unknown", count=unknown)
            return numbers
        if len(found) < len(readings):
            self._journal.note("source-failed", kind="states")
            return None
        factor = self._factor(campaign)
        if factor is None:
            # Clipped readings of another unit would be a mean of nonsense.
            self._journal.note("source-failed", kind="unit")
            return None
        return [factor * one for one in found]

    def _factor(self, campaign: Campaign) -> float | None:
        """Return what turns readings into the campaign's unit; None if nothing does."""
        if self._behaviour.unit is None:
            return 1.0
        from rase.device.sources.units import factor_between

        return factor_between(self._behaviour.unit, campaign.unit)

    def _end_rounds(self, latest: Campaign) -> None:
        """Make the envelope of each round that has ended and is not closed yet."""
        now_s = self._clock.now_s()
        present = self._present_round(latest)
        # The first round r with (r + 1) * round_s + grace_s > now, under any version that is held.
        grace_s = max(signed.campaign.grace_s for signed in self._terms.accepted_terms[0])
        first = max(int((now_s - grace_s) // latest.round_s), present - _MOST_OPEN, 0)
        self._collection.drop_before(first)
        self._shown.drop_before(first)
        if self._first_round is None:
            self._first_round = present
        for round in range(first, present):
            signed = self._terms.campaign_for(round)
            if round in self._done or signed is None or not self._is_open(signed.campaign, round):
                continue
            try:
                self._terms.keys_for(signed, now_s, round=round)
            except (UnknownKey, LookupError):
                # Fetched soon; until the round closes there is time.
                self._fetch_at_s = min(self._fetch_at_s, self._clock.monotonic_s() + 10.0)
                continue
            # From here on the round has had its chance, whatever fails: noise is drawn once.
            self._remember(round)
            self.rounds_ended += 1
            mean = self._collection.take(round)
            is_off, is_paused = self._is_off(), self._is_paused()
            if self._observer is not None and not (is_off and round < self._first_round):
                self._observer.note_round_end(round, mean, is_shared=not (is_off or is_paused))
            if is_off:
                continue
            envelope = self._reporter.make(signed, round, None if is_paused else mean)
            if envelope is not None:
                self._outbox.add(envelope, signed.campaign)

    def _is_open(self, campaign: Campaign, round: int) -> bool:
        """Return whether an envelope for a round that has ended may still be made.

        For rounds that ended before this agent began, only while others send as well.
        """
        is_ours = self._first_round is not None and round >= self._first_round
        end_s = campaign.closes_s(round) if is_ours else campaign.upload_end_s(round)
        return self._clock.now_s() < end_s

    def _send(self) -> None:
        if self._is_off():
            # What was made before stays where it is; it is too late for it by and by.
            return
        for envelope, verdict in self._outbox.send_due():
            if verdict is Verdict.OUTDATED:
                self._seal_again(envelope)
                continue
            self._outbox.settle(envelope.round)
            try:
                self._settle(envelope, verdict)
            except (LedgerUnusable, StateUnusable):
                # Not noted down: the next agent sends the same bytes again, which harms nobody.
                self._journal.note(
                    "round-skipped", round=envelope.round, reason="not-noted-as-sent"
                )

    def _seal_again(self, envelope: Envelope) -> None:
        self._etags.clear()
        self._fetch()
        try:
            again = self._reporter.seal_again(envelope)
        except LedgerUnusable:
            return
        signed = self._terms.campaign_for(envelope.round)
        if again is None or signed is None:
            self._outbox.settle(envelope.round)
        else:
            self._outbox.replace(again, signed.campaign)

    def _settle(self, envelope: Envelope, verdict: Verdict) -> None:
        """Note that an envelope is done with, and erase what no open round needs any more."""
        round = envelope.round
        if envelope.is_cover:
            cover = self._memory.covers.get(round)
            # Forgotten already if a later round was confirmed first: then its own is closed.
            if cover is not None:
                self._memory.keep_cover(round, type(cover)(cover.envelope, is_done=True))
        else:
            self._ledger.mark_sent(self._terms.campaign_id, round)
        signed = self._terms.campaign_for(round)
        if signed is None or verdict is Verdict.DROPPED:
            return
        campaign = signed.campaign
        # The shuffler took a report of this round, so by its clock the round has ended; or it said
        # that the round is closed. Times it confirmed, never our own, close rounds for ever.
        over_s = campaign.round_end_s(round)
        if verdict is Verdict.SENT:
            over_s -= campaign.grace_s
        first_open = max(over_s // campaign.round_s, 0)
        self._tokens.forget_before(campaign.block_start(first_open))
        self._ledger.close_rounds(self._closable_s(campaign, campaign.round_s * first_open))
        self._memory.drop_covers(first_open)
        self._terms.forget_before(first_open)

    def _closable_s(self, campaign: Campaign, before_s: int) -> int:
        """Return before which second rounds are over, for all campaigns that share the ledger.

        A longer round of another one that began before may still be open, and so may its grace.
        """
        others = [
            one.limits.round_s
            for one in self._ledger.status(0).campaigns
            if one.limits.campaign != campaign.id
        ]
        return max(before_s - 2 * max(others), 0) if others else before_s

    def _remember(self, round: int) -> None:
        self._done[round] = None
        if len(self._done) > _REMEMBERED_ROUNDS:
            del self._done[next(iter(self._done))]

    def _present_round(self, campaign: Campaign) -> int:
        return int(self._clock.now_s() // campaign.round_s)

    def _wait_s(self) -> float:
        now_s = self._clock.monotonic_s()
        moments = [self._fetch_at_s]
        if not self._is_off():
            due_s = self._tokens.next_due_s
            moments += [self._tokens_at_s, *([] if due_s is None else [due_s])]
        due_s = self._outbox.next_due_s()
        if due_s is not None and not self._is_off():
            moments.append(due_s)
        if self._terms.latest is not None:
            campaign = self._terms.latest.campaign
            end_s = campaign.round_end_s(self._present_round(campaign))
            moments += [self._poll_at_s, now_s + end_s - self._clock.now_s()]
        # A clock that is set while we wait is noticed within a minute.
        return min(max(min(moments) - now_s, 0.0), _LONGEST_WAIT_S)
