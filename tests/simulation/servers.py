"""The two servers of a simulated world, put together as their commands do."""

from typing import TextIO

from tests.simulation.setting import INNER_KEY, OUTER_KEYS, PINNED, POLICY, SIGNERS

from rase.campaign import Campaign
from rase.clock import Clock
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import FusionPolicy, Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.service.telemetry import Telemetry
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner
from rase.shuffler.forward import HttpSender
from rase.shuffler.peeling import Peeler
from rase.shuffler.release import Releaser
from rase.storage.face import Database
from rase.wire import cbor
from rase.wire.keys import Keyset, Role
from rase.wire.signed import campaign_bytes

__all__ = ["Countersigns", "centre_of", "closer_of"]


def closer_of(database: Database, clock: Clock, *, client: object, log: TextIO) -> Closer:
    """Return the shuffler's closer.

    Args:
        database: The shuffler's.
        clock: The world's.
        client: Carries batches, as an HTTP client does.
        log: Where its lines go.
    """
    releaser = Releaser(
        database, peeler=Peeler(OUTER_KEYS), key=SIGNERS[Role.SHUFFLER], name="simulated"
    )
    return Closer(
        database,
        clock,
        releaser=releaser,
        sender=HttpSender("http://fusion", client=client),
        pinned=PINNED,
        telemetry=Telemetry("shuffler", stream=log),
        lease_s=1,
    )


def centre_of(database: Database, clock: Clock, *, log: TextIO) -> FusionCentre:
    """Return the fusion centre."""
    policy = FusionPolicy()
    opener = BatchOpener([INNER_KEY], processes=0)
    return FusionCentre(
        database=database,
        clock=clock,
        intake=Intake(database, clock, pinned=PINNED, opener=opener, policy=policy),
        rounds=Rounds(database, clock, policy=policy),
        questions=Questions(database),
        policy=policy,
        telemetry=Telemetry("fusion", stream=log),
    )


class Countersigns:
    """The shuffler, asked by the fusion centre for its signatures."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._clock = clock
        self._signer = Countersigner(
            database, key=SIGNERS[Role.SHUFFLER], pinned=PINNED, policy=POLICY
        )

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Sign a campaign, if the policy allows it."""
        proposal = cbor.encode([campaign_bytes(campaign), fusion_signature])
        signed, _ = self._signer.campaign(proposal, now_s=self._clock.now_s())
        return signed.shuffler_signature

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Sign a keyset, if the policy allows it."""
        signed, _ = self._signer.keyset(cbor.encode([keyset.to_bytes(), fusion_signature]))
        return signed.shuffler_signature
