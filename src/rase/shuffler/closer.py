"""All that needs the private keys: closes rounds that are due and forwards them, step by step."""

import threading
from typing import Final

from rase.clock import Clock
from rase.errors import StorageBusy, StorageError, StorageUnusable, WireError
from rase.service.heartbeat import Heartbeat
from rase.service.rotation import KeyRotation
from rase.service.telemetry import Telemetry
from rase.shuffler.documents import load_documents
from rase.shuffler.enrolment import prune_tokens
from rase.shuffler.forward import Answer, BatchSender, Forwarded, forward_one
from rase.shuffler.release import Closed, Releaser
from rase.shuffler.rounds import Lease, LeaseLost, begin_rounds, claim_round, prune_rounds
from rase.shuffler.signing import prune_proposals
from rase.storage.interface import Database
from rase.wire.signed import PinnedKeys

__all__ = ["Closer"]

_KEEP_S: Final = 7 * 86400
_TIDY_S: Final = 3600
_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


class Closer:
    """Close what is due, forward what waits, forget what is old.

    When it is made, it stores the public halves of its keys: see rase.shuffler.public_keys.

    Args:
        database: The shuffler's.
        clock: Gives when a round is due.
        releaser: Closes one round.
        sender: Reaches the fusion centre.
        pinned: The public signing keys of both servers.
        telemetry: Logs what happens.
        lease_s: How long one closer may take for a round before another tries.
        heart: Says that this closer runs; None if nobody asks.
        rotation: Makes the next opening key when it is due; None if nobody asked.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        releaser: Releaser,
        sender: BatchSender,
        pinned: PinnedKeys,
        telemetry: Telemetry,
        lease_s: int = 60,
        heart: Heartbeat | None = None,
        rotation: KeyRotation | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._releaser = releaser
        self._sender = sender
        self._pinned = pinned
        self._telemetry = telemetry
        self._lease_s = lease_s
        self._heart = heart
        self._rotation = rotation
        # After a crash nobody knows whether the last scrub was done.
        self._is_scrubbed = False
        self._held: Lease | None = None
        releaser.publish_keys()

    def run(self, stop: threading.Event) -> None:
        """Work until asked to stop; what fails is logged and tried again, after growing pauses.

        Raises:
            StorageUnusable: If the database is damaged; trying again would not help.
        """
        tidy_at_s = self._clock.monotonic_s()
        failed_s = _WAIT_S
        while not stop.is_set():
            wait_s = _WAIT_S
            try:
                self._keep_alive()
                is_busy = self.step()
                failed_s = _WAIT_S
                if is_busy:
                    continue
                if self._clock.monotonic_s() >= tidy_at_s:
                    self.tidy()
                    tidy_at_s = self._clock.monotonic_s() + _TIDY_S
            except StorageUnusable:
                raise
            except (StorageError, WireError) as error:
                self._telemetry.count("closer_failures")
                self._telemetry.event("closer_failed", error=str(error), retry_s=failed_s)
                wait_s, failed_s = failed_s, min(2 * failed_s, _LONGEST_WAIT_S)
            stop.wait(wait_s)
        if self._heart is not None:
            self._heart.stop()

    def _keep_alive(self) -> None:
        self._releaser.renew_keys()
        if self._heart is not None:
            self._heart.beat()
        if self._rotation is not None:
            self._rotation.step()

    def step(self) -> bool:
        """Do what is due now: at most one round, one batch; return whether anything was done.

        Raises:
            StorageError: If the database cannot be used; nothing is lost by trying again.
        """
        is_busy = self.close_one() is not None
        is_busy |= self.forward_one() is not None
        if not self._is_scrubbed:
            self._is_scrubbed = self._database.scrub()
        return is_busy

    def close_one(self) -> Closed | None:
        """Close the round that has been due longest; None if none is.

        A round that the database let nobody close is gone on with under the same lease: nobody has
        to wait until that ends.
        """
        now_s = self._clock.now_s()
        documents = load_documents(self._database, self._pinned)
        begin_rounds(self._database, documents, now_s=now_s)
        lease = self._held or claim_round(self._database, now_s=now_s, lease_s=self._lease_s)
        self._held = None
        if lease is None:
            return None
        agreed = documents.of_tag(lease.campaign_hash[:8])
        if agreed is None:
            # Countersigned after we looked; its lease ends, and the next step knows it.
            return None
        name = agreed.campaign.id
        try:
            with self._telemetry.span("close", campaign=name, round=lease.round) as span:
                closed = self._releaser.close(lease, agreed, documents=documents, now_s=now_s)
                span.add_fields(state=closed.state)
        except LeaseLost:
            self._telemetry.count("leases_lost")
            return None
        except StorageBusy:
            self._held = lease
            raise
        self._is_scrubbed = False
        self._log_closed(lease, closed, campaign=name)
        return closed

    def forward_one(self) -> Forwarded | None:
        """Send the batch that has waited longest; None if none is due."""
        with self._telemetry.span("forward") as span:
            forwarded = forward_one(self._database, self._sender, now_s=self._clock.now_s())
            if forwarded is None:
                span.forget()
                return None
            answer = forwarded.answer
            span.add_fields(round=forwarded.round, attempt=forwarded.attempt, state=answer.value)
        self._telemetry.count(f"batches_{answer.value}")
        fields = {"round": forwarded.round, "attempt": forwarded.attempt}
        if answer is Answer.LATER:
            self._telemetry.event(
                "batch_not_taken", **fields, problem=forwarded.problem, retry_s=forwarded.retry_s
            )
        elif forwarded.problem:
            self._telemetry.event(f"batch_{answer.value}", **fields, problem=forwarded.problem)
        else:
            self._telemetry.event(f"batch_{answer.value}", **fields)
        return forwarded

    def tidy(self) -> None:
        """Forget what is old: closed rounds, expired tokens, proposals that were answered."""
        now_s = self._clock.now_s()
        prune_proposals(self._database, before_s=now_s - _TIDY_S)
        prune_rounds(self._database, before_s=now_s - _KEEP_S)
        prune_tokens(self._database, now_s=now_s)

    def _log_closed(self, lease: Lease, closed: Closed, *, campaign: str) -> None:
        self._telemetry.count(f"rounds_{closed.state}")
        self._telemetry.count("reports_released", closed.released)
        self._telemetry.count("reports_unopened", closed.unopened)
        self._telemetry.count("reports_cover", closed.covers)
        self._telemetry.count("reports_carried", closed.carried)
        self._telemetry.count("reports_dropped", closed.dropped)
        self._telemetry.count("reports_minority", closed.minority)
        # How many came to a withheld round is not logged either.
        fields: dict[str, int | str] = {"campaign": campaign, "round": lease.round}
        if closed.state == "released":
            fields |= {"n": closed.released, "batches": closed.batches}
        self._telemetry.event(f"round_{closed.state}", **fields)
