"""A fleet for the benchmarks of the servers: keys, a campaign, enrolled devices, sealed reports."""

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha384
from itertools import chain
from multiprocessing import get_context
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, utils

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.token_keys import TokenKeys
from rase.service.telemetry import Telemetry
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, Policy, load_documents
from rase.shuffler.enrolment import enrol, enrol_many, make_tokens
from rase.shuffler.forward import BatchSender
from rase.shuffler.intake import check_report, store_reports
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.release import Releaser
from rase.storage.interface import Database, Transaction
from rase.wire import cbor
from rase.wire.agreement import Applicant
from rase.wire.issuing import Issuer
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import PART_BYTES, Content
from rase.wire.seal import seal_report
from rase.wire.signed import (
    PinnedKeys,
    campaign_bytes,
    campaign_hash,
    public_key_of,
    sign_with,
    signature_of,
)
from rase.wire.tokens import (
    SignedTokenKey,
    TokenKey,
    certificate_input,
    list_input,
    token_keys_bytes,
)

__all__ = ["CAMPAIGN", "FIRST", "Fleet", "Shuffler", "centre_of", "cores", "pool", "sealed"]

FIRST: Final = 1000
_FOR_EVER: Final = {"not_before_s": 0, "not_after_s": 2**35}
_GROUP: Final = 1000
CAMPAIGN: Final = Campaign(
    id="bench",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    mechanism="budget-aware",
    epsilon=(1,),
    window=24,
    window_budget=24,
    round_s=3600,
    upload_s=3600,
    grace_s=3600,
    k_min=20,
    not_before=0,
    not_after=2**32 - 1,
)


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def pool() -> ProcessPoolExecutor:
    """Return a pool with a process for each core, as the servers have one."""
    return ProcessPoolExecutor(cores(), mp_context=get_context("spawn"))


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hold the keys of both servers, and what was agreed."""

    campaign: Campaign = CAMPAIGN
    openers: dict[Role, OpeningKey] = field(
        default_factory=lambda: {role: OpeningKey.generate(role, 1) for role in Role}
    )
    signers: dict[Role, SigningKey] = field(
        default_factory=lambda: {role: SigningKey.generate(role) for role in Role}
    )
    registrar: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    issuing: bytes = field(default_factory=lambda: Issuer.generate().to_der(), repr=False)

    @property
    def hash(self) -> bytes:
        """CH of the campaign."""
        return campaign_hash(self.campaign)

    @property
    def pinned(self) -> PinnedKeys:
        """The public signing keys."""
        return PinnedKeys(
            self.signers[_FUSION].public_bytes(),
            self.signers[_SHUFFLER].public_bytes(),
            public_key_of(self.registrar),
        )

    @property
    def modulus(self) -> bytes:
        """The key that tokens are signed by."""
        return _issuer(self.issuing).modulus.to_bytes(256, "big")

    @property
    def keyset(self) -> Keyset:
        """The public keys of both servers."""
        configs = tuple(key.config(**_FOR_EVER) for key in self.openers.values())
        return Keyset(version=1, cache_s=3600, configs=configs)

    def seal(self, places: list[int], round: int) -> list[bytes]:
        """Return a report for each place."""
        configs = {role: key.config(**_FOR_EVER) for role, key in self.openers.items()}
        return [
            seal_report(
                Content(round, place, 0, self.token()),
                campaign_hash=self.hash,
                shuffler=configs[_SHUFFLER],
                fusion=configs[_FUSION],
                keyset=1,
            )
            for place in places
        ]

    def token(self) -> bytes:
        """Return a fresh token, as blind signing gives it, signed in one step."""
        nonce = os.urandom(32)
        digest = sha384(nonce).digest()
        return nonce + _issuer(self.issuing).key.sign(
            digest, _PSS, utils.Prehashed(hashes.SHA384())
        )

    def token_keys(self) -> bytes:
        """Return the document of the one window, whose tokens count in every round."""
        key = TokenKey(
            campaign=self.campaign.id,
            first_round=FIRST,
            last_round=2**32 - 1,
            reports=1,
            issue_until_s=1,
            modulus=self.modulus,
        )
        own = sign_with(self.registrar, key.signing_input("registrar"))
        theirs = self.signers[_SHUFFLER].sign(key.signing_input("shuffler"))
        return token_keys_bytes([SignedTokenKey(key, own, theirs).to_bytes()])

    def certificate(self, device_key: bytes) -> str:
        """Return the registrar's certificate of a device's key."""
        signed = sign_with(self.registrar, certificate_input(device_key))
        return base64.urlsafe_b64encode(signed).decode()


@cache
def _issuer(data: bytes) -> Issuer:
    return Issuer.from_der(data)


_PSS: Final = padding.PSS(padding.MGF1(hashes.SHA384()), 48)
_FUSION, _SHUFFLER = Role.FUSION, Role.SHUFFLER


def sealed(fleet: Fleet, count: int, round: int, *, by: ProcessPoolExecutor) -> list[bytes]:
    """Return as many reports of a round, sealed by all cores."""
    places = [number % fleet.campaign.steps for number in range(count)]
    parts = [places[start : start + _GROUP] for start in range(0, count, _GROUP)]
    return list(chain.from_iterable(by.map(partial(_seal, fleet, round), parts)))


def _seal(fleet: Fleet, round: int, places: list[int]) -> list[bytes]:
    return fleet.seal(places, round)


class Shuffler:
    """A shuffler's database with a campaign and devices, and the closer that works on it.

    Args:
        database: An empty one.
        clock: Its time.
        fleet: Keys and campaign.
    """

    def __init__(self, database: Database, clock: FakeClock, fleet: Fleet) -> None:
        self.database = database
        self.clock = clock
        self.fleet = fleet
        key = fleet.signers[_SHUFFLER]
        keep_own_keys(database, [fleet.openers[_SHUFFLER]])
        policy = Policy(max_epsilon=30, max_window_budget=1e9, min_k_min=2)
        countersigner = Countersigner(database, key=key, pinned=fleet.pinned, policy=policy)
        signer = fleet.signers[_FUSION]
        body = campaign_bytes(fleet.campaign)
        proposal = cbor.encode([body, signature_of(fleet.campaign, signer)])
        countersigner.campaign(proposal, now_s=clock.now_s())
        body = fleet.keyset.to_bytes()
        proposal = cbor.encode([body, signature_of(fleet.keyset, signer)])
        countersigner.keyset(proposal, now_s=clock.now_s())
        self.credentials: list[str] = []

    def enrol(self, count: int) -> list[str]:
        """Enrol devices, all in one commit, and return their credentials."""
        now_s = self.clock.now_s()
        tokens = make_tokens(self.database, count, expires_s=int(now_s) + 60)
        with self.database.transaction() as transaction:
            once = _Within(transaction)
            for token in tokens:
                secret = os.urandom(32)
                device = Applicant(token, secret)
                agreement = enrol(
                    once,
                    device.application,
                    now_s=now_s,
                    certificate=self.fleet.certificate(public_key_of(secret)),
                    pinned=self.fleet.pinned,
                )
                self.credentials.append(device.credential(agreement))
        return self.credentials

    def admit(self, count: int) -> None:
        """Admit devices by a list of their keys; those that were enrolled before are forgotten."""
        keys = [os.urandom(32) for _ in range(count)]
        admitted = enrol_many(
            self.database,
            keys,
            certificate=sign_with(self.fleet.registrar, list_input(keys)),
            pinned=self.fleet.pinned,
        )
        self.credentials = [one.credential for one in admitted]

    def store(self, wires: list[bytes]) -> None:
        """Take in one report of each device, as the intake does, in groups."""
        documents = load_documents(self.database, self.fleet.pinned)
        devices = [int(credential[:16], 16) for credential in self.credentials]
        now_s = self.clock.now_s()
        for start in range(0, len(wires), _GROUP):
            pairs = zip(
                wires[start : start + _GROUP], devices[start : start + _GROUP], strict=False
            )
            pending = [
                check_report(wire, device, documents=documents, now_s=now_s)
                for wire, device in pairs
            ]
            store_reports(self.database, pending)

    def to_upload(self, round: int) -> None:
        """Set the clock into the upload window of a round."""
        self.clock.jump(self.fleet.campaign.round_end_s(round) + 1 - self.clock.now_s())

    def to_close(self, round: int) -> None:
        """Set the clock to the moment at which a round is due."""
        self.clock.jump(self.fleet.campaign.closes_s(round) + 1 - self.clock.now_s())

    def closer(
        self,
        opener: OuterOpenerPool,
        sender: BatchSender,
        *,
        telemetry: Telemetry,
        part_bytes: int = PART_BYTES,
    ) -> Closer:
        """Return the closer."""
        key = self.fleet.signers[_SHUFFLER]
        return Closer(
            self.database,
            self.clock,
            releaser=Releaser(
                self.database, opener=opener, key=key, name="bench", part_bytes=part_bytes
            ),
            sender=sender,
            pinned=self.fleet.pinned,
            telemetry=telemetry,
        )


@dataclass(frozen=True, slots=True)
class _Within:
    """Let steps that commit each for itself share one transaction."""

    _transaction: Transaction

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        yield self._transaction

    share = snapshot = transaction

    def scrub(self) -> bool:
        return True

    def close(self) -> None:
        return None


class _Signs:
    """A shuffler that countersigns what it is asked to."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        return signature_of(campaign, self._key)

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        return signature_of(keyset, self._key)


def centre_of(
    database: Database, clock: FakeClock, fleet: Fleet, *, opener: BatchOpener, **more: Any
) -> FusionCentre:
    """Return a fusion centre in which the campaign and the keys are published."""
    publisher = Publisher(
        database,
        clock,
        key=fleet.signers[_FUSION],
        pinned=fleet.pinned,
        countersigner=_Signs(fleet.signers[_SHUFFLER]),
    )
    publisher.publish(fleet.campaign)
    publisher.publish_keyset(fleet.keyset)
    return FusionCentre(
        database=database,
        clock=clock,
        intake=Intake(
            database,
            clock,
            pinned=fleet.pinned,
            opener=opener,
            token_keys=TokenKeys(database, clock, pinned=fleet.pinned, fetch=fleet.token_keys),
        ),
        rounds=Rounds(database, clock),
        questions=Questions(database),
        **more,
    )
