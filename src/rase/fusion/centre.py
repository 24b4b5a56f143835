"""The fusion centre as one object: what the HTTP app, the commands and simulations share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rase.campaign import Campaign
from rase.clock import Clock
from rase.fusion.alarms import Alarms
from rase.fusion.campaigns import Publisher
from rase.fusion.intake import CheckedManifest, Intake, LateBatch, Receipt
from rase.fusion.mechanism import Effect, effect_of
from rase.fusion.query import Questions
from rase.fusion.rounds import FinalRound, Rounds
from rase.fusion.settings import FusionPolicy
from rase.service.heartbeat import Heartbeat
from rase.service.rotation import KeyRotation
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database

__all__ = ["FusionCentre"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionCentre:
    """The parts of a fusion centre.

    Args:
        database: Its state.
        clock: Its time.
        intake: Takes batches in.
        rounds: Makes rounds final.
        questions: Answers subscribers.
        publisher: Publishes new versions; None if this process may not.
        policy: What the operator decided.
        telemetry: Counts and logs, without values.
        on_final: Called after rounds became final, e.g. to wake streams.
        space: Gives the size of the database and the room on its disk; None if unknown.
        alarms: The alarms on answers; None for none.
        heart: Says that this process runs and which keys it holds; None if nobody asks.
        rotation: Makes and publishes the next opening key when it is due; None if nobody asked.
    """

    database: Database
    clock: Clock
    intake: Intake
    rounds: Rounds
    questions: Questions
    publisher: Publisher | None = None
    policy: FusionPolicy = field(default_factory=FusionPolicy)
    telemetry: Telemetry = field(default_factory=lambda: Telemetry("fusion"))
    on_final: list[Callable[[], None]] = field(default_factory=list)
    space: Callable[[], dict[str, int]] | None = None
    alarms: Alarms | None = None
    heart: Heartbeat | None = None
    rotation: KeyRotation | None = None

    def keep_alive(self) -> None:
        """Take new keys from their files, and say that this process runs.

        Raises:
            StorageError: If that this process runs could not be written.
        """
        self.intake.renew_keys()
        if self.heart is not None:
            self.heart.beat()
        if self.rotation is not None:
            self.rotation.step()

    def receive(self, checked: CheckedManifest, body: bytes) -> Receipt:
        """Take a batch in, and count what was in it.

        Args:
            checked: Its manifest.
            body: The batch.

        Raises:
            WireError: With the problem the shuffler is sent.
        """
        with self.telemetry.span("put") as span:
            try:
                receipt = self.intake.receive(checked, body)
            except LateBatch as late:
                # Signed by the shuffler and lost: whoever runs this server must be able to see it.
                self.telemetry.count("batches_late")
                self.telemetry.event("batch_late", campaign=late.campaign, round=late.round)
                raise
            span.add_fields(
                campaign=receipt.campaign,
                round=receipt.round,
                state="received" if receipt.is_new else "known",
            )
        if receipt.is_new:
            self.telemetry.count("batches_received")
            self.telemetry.count("envelopes_refused", receipt.refused)
            self.telemetry.count("envelopes_replayed", receipt.replayed)
            self.telemetry.count("reports_without_token", receipt.untokened)
            self.telemetry.event("batch_received", campaign=receipt.campaign, round=receipt.round)
            if receipt.is_extra:
                self.telemetry.count("batches_extra")
                self.telemetry.event("batch_extra", campaign=receipt.campaign, round=receipt.round)
        else:
            self.telemetry.count("batches_known")
        return receipt

    def tick(self) -> list[FinalRound]:
        """Do all that is due, and notify who waits for it."""
        try:
            with self.telemetry.span("finalise") as span:
                done = self.rounds.tick()
                span.add_fields(count=len(done))
                if not done:
                    span.forget()
        finally:
            for bad in self.rounds.take_failed():
                self.telemetry.count("rounds_failed")
                self.telemetry.event(
                    "round_failed", campaign=bad.campaign, round=bad.round, error=bad.error
                )
        for one in done:
            state = "withheld" if one.is_withheld else "final"
            self.telemetry.count(f"rounds_{state}")
            self.telemetry.event("round_done", campaign=one.campaign, round=one.round, state=state)
        if done:
            for wake in tuple(self.on_final):
                wake()
        return done

    def effects(self, campaigns: tuple[Campaign, ...], n: int | None) -> list[list[Effect]]:
        """Return what each of some versions leads to, for the same number of reports.

        Args:
            campaigns: The versions.
            n: How many reports to assume; None for the mean of the last rounds.
        """
        assumed = self.questions.recent_n(campaigns[0]) if n is None else n
        return [effect_of(campaign, assumed) for campaign in campaigns]
