"""A shuffler without HTTP: its database, keys and devices, and a fusion centre that listens."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.enrolling import enrol
from tests.patience import PATIENCE_S
from tests.registering import REGISTRAR_KEY

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.errors import WireError
from rase.service.keyring import PublicKeys
from rase.service.telemetry import Telemetry
from rase.shuffler.closer import Closer
from rase.shuffler.documents import Countersigner, Documents, Policy, load_documents
from rase.shuffler.enrolment import make_tokens
from rase.shuffler.forward import Answer
from rase.shuffler.intake import Outcome, check_report, store_reports
from rase.shuffler.opening import OuterOpenerPool
from rase.shuffler.public_keys import keep_own_keys
from rase.shuffler.release import Releaser
from rase.storage.address import DatabaseAddress
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire import cbor
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import PART_BYTES, Batch, Content, batch_id
from rase.wire.seal import seal_cover, seal_report
from rase.wire.signed import PinnedKeys, SignedManifest, campaign_bytes, campaign_hash, signature_of
from rase.wire.suites import KEM_NUMBERS, X_WING

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

    from rase.storage.address import PostgresAddress

ROUND_S = 1000
FIRST = 100
NOW_S = FIRST * ROUND_S + 10
POLICY = Policy(max_epsilon=4.0, max_window_budget=100.0, min_k_min=3, max_carry_rounds=2)
OPENERS = {
    "shuffler": OpeningKey.generate(Role.SHUFFLER, 7),
    "expired": OpeningKey.generate(Role.SHUFFLER, 8),
    "unknown": OpeningKey.generate(Role.SHUFFLER, 9),
    "fusion": OpeningKey.generate(Role.FUSION, 1),
    "next": OpeningKey.generate(Role.FUSION, 2),
    "x-wing": OpeningKey.generate(Role.FUSION, 3, kem=X_WING),
}
SIGNERS = {role: SigningKey.generate(role) for role in Role}
PINNED = PinnedKeys(
    SIGNERS[Role.FUSION].public_bytes(), SIGNERS[Role.SHUFFLER].public_bytes(), REGISTRAR_KEY
)


def campaign_of(**changes: Any) -> Campaign:
    """Return a campaign for tests."""
    values: dict[str, Any] = {
        "id": "homes",
        "version": 1,
        "quantity": "power",
        "unit": "W",
        "low": 0.0,
        "high": 100.0,
        "steps": 100,
        "mechanism": "budget-aware",
        "beta": 0.5,
        "rho": 0.9,
        "epsilon": (1.0,),
        "window": 10,
        "window_budget": 10.0,
        "round_s": ROUND_S,
        "upload_s": 400,
        "grace_s": 500,
        "k_min": 3,
        "not_before": 0,
        "not_after": 10**6,
    }
    return Campaign.from_fields({**values, **changes})


def keyset_of(version: int = 1, **changes: Any) -> Keyset:
    """Return a keyset for tests: key 8 of the shuffler has long expired, key 9 is not in it."""
    times = {"not_before_s": 0, "not_after_s": 10**9}
    configs = [
        OPENERS[name].config(**(times | ({"not_after_s": 10} if name == "expired" else {})))
        for name in ("shuffler", "expired", "fusion", "next", "x-wing")
    ]
    return Keyset(version=version, configs=tuple(configs), **{"cache_s": 3600, **changes})


def proposal_of(document: Campaign | Keyset, key: SigningKey | None = None) -> bytes:
    """Return what the fusion centre sends to have a document countersigned."""
    body = campaign_bytes(document) if isinstance(document, Campaign) else document.to_bytes()
    return cbor.encode([body, signature_of(document, key or SIGNERS[Role.FUSION])])


@dataclass
class Ear:
    """A fusion centre that checks and remembers what it is sent; its answers can be planned."""

    problem: str = ""
    answers: list[Answer] = field(default_factory=list)
    bodies: dict[tuple[int, int], bytes] = field(default_factory=dict)
    manifests: dict[tuple[int, int], SignedManifest] = field(default_factory=dict)
    batches: dict[tuple[int, int], Batch] = field(default_factory=dict)
    calls: int = 0

    def send(self, batch: bytes, body: bytes, manifest: bytes) -> Answer:
        """Check that a batch never changes."""
        self.calls += 1
        assert batch_id(body) == batch
        read = Batch.from_bytes(body)
        key = read.round, read.key_id
        assert self.bodies.setdefault(key, body + manifest) == body + manifest, "a batch changed"
        self.batches[key] = read
        self.manifests[key] = SignedManifest.from_bytes(manifest, PINNED)
        assert self.manifests[key].manifest.batch_id == batch
        return self.answers.pop(0) if self.answers else Answer.ACCEPTED


class World:
    """Hold a shuffler and its fleet.

    Args:
        address: Where its database is.
        devices: How many are enrolled.
        groups: The public groups that they belong to, in turn.
        **changes: To the campaign.
    """

    pinned = PINNED
    policy = POLICY
    _enrolled = 0
    part_bytes = PART_BYTES
    openers = OPENERS
    signers = SIGNERS
    campaign_of = staticmethod(campaign_of)
    keyset_of = staticmethod(keyset_of)
    proposal_of = staticmethod(proposal_of)

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        devices: int = 4,
        groups: tuple[str, ...] = ("",),
        **changes: Any,
    ) -> None:
        self.address = address
        self._opened = ExitStack()
        self.clock = FakeClock(NOW_S)
        self.database: Database = self.opened()
        self.campaign = campaign_of(**changes)
        self.hash = campaign_hash(self.campaign)
        self.countersigner = Countersigner(
            self.database, key=SIGNERS[Role.SHUFFLER], pinned=PINNED, policy=POLICY
        )
        try:
            self.countersigner.campaign(proposal_of(self.campaign), now_s=NOW_S)
        except WireError:
            # Nobody gets a world whose campaign is refused, so nobody closes it.
            self.close()
            raise
        keep_own_keys(self.database, [OPENERS["shuffler"], OPENERS["expired"]])
        self.countersigner.keyset(proposal_of(keyset_of()), now_s=NOW_S)
        self.ear = Ear()
        self.telemetry = Telemetry("shuffler")
        self.credentials = [
            self.enrolled(group=groups[number % len(groups)]) for number in range(devices)
        ]
        self.devices = [int(credential[:16], 16) for credential in self.credentials]

    def public_text(self) -> str:
        """Return the shuffler's public.json, all that an intake knows of its keys."""
        config = OPENERS["shuffler"].config(not_before_s=0, not_after_s=10**9)
        return PublicKeys(
            role=Role.SHUFFLER,
            signing_key=SIGNERS[Role.SHUFFLER].public_bytes(),
            cache_s=3600,
            configs=(config,),
        ).to_text()

    def opened(self) -> Database:
        """Open the database, as one more process does."""
        database = open_database(self.address, migrations="shuffler")
        self._opened.callback(database.close)
        return database

    def close(self) -> None:
        """Close the database, as often as it was opened."""
        self._opened.close()

    @property
    def path(self) -> Path:
        """The file in which everything is, for tests of files."""
        assert isinstance(self.address, Path)
        return self.address

    def enrolled(self, *, group: str = "") -> str:
        """Enrol a device and return its credential."""
        now_s = self.clock.now_s()
        (token,) = make_tokens(self.database, 1, expires_s=int(now_s) + 10, group=group)
        self._enrolled += 1
        return enrol(self.database, token, now_s=now_s, number=1000 + self._enrolled).credential

    @property
    def documents(self) -> Documents:
        """What was agreed by now."""
        return load_documents(self.database, PINNED)

    def seal(
        self,
        round: int,
        *,
        place: int = 5,
        fusion: str = "fusion",
        shuffler: str = "shuffler",
        campaign: Campaign | None = None,
        label: int = 0,
        keyset: int = 1,
    ) -> bytes:
        """Return a report."""
        times = {"not_before_s": 0, "not_after_s": 10**9}
        kem = KEM_NUMBERS[(campaign or self.campaign).kem]
        return seal_report(
            Content((campaign or self.campaign).block_start(round), place),
            round=round,
            campaign_hash=campaign_hash(campaign or self.campaign),
            shuffler=OPENERS[shuffler].config(**times),
            fusion=OPENERS["x-wing" if kem == X_WING else fusion].config(**times),
            keyset=keyset,
            label=label,
        )

    def cover(self, round: int) -> bytes:
        """Return a cover report."""
        times = {"not_before_s": 0, "not_after_s": 10**9}
        return seal_cover(
            round=round,
            block=self.campaign.block_start(round),
            campaign_hash=self.hash,
            shuffler=OPENERS["shuffler"].config(**times),
            fusion=OPENERS["fusion"].config(**times),
            keyset=1,
        )

    def send(self, device: int, wire: bytes, *, database: Database | None = None) -> Outcome:
        """Take one report in, as the app does."""
        pending = check_report(
            wire, self.devices[device], documents=self.documents, now_s=self.clock.now_s()
        )
        (outcome,) = store_reports(database or self.database, [pending])
        return outcome

    def send_each(self, first: int, wires: list[bytes]) -> None:
        """Take in one report of each device from the first on, in one group."""
        documents, now_s = self.documents, self.clock.now_s()
        pending = [
            check_report(wire, device, documents=documents, now_s=now_s)
            for device, wire in zip(self.devices[first:], wires, strict=False)
        ]
        assert set(store_reports(self.database, pending)) == {Outcome.STORED}

    def upload_time(self, round: int) -> None:
        """Go to the upload window of a round."""
        self.clock.jump(self.campaign.round_end_s(round) + 50 - self.clock.now_s())

    def close_time(self, round: int) -> None:
        """Go to the moment in which a round is due."""
        self.clock.jump(self.campaign.closes_s(round) + 1 - self.clock.now_s())

    def releaser(self, database: Database | None = None) -> Releaser:
        """Return what closes rounds."""
        return Releaser(
            database or self.database,
            opener=OuterOpenerPool([OPENERS["shuffler"], OPENERS["expired"]]),
            key=SIGNERS[Role.SHUFFLER],
            name="test",
            part_bytes=self.part_bytes,
        )

    def closer(self, database: Database | None = None, *, lease_s: int = 1) -> Closer:
        """Return a closer, as a fresh process would have it."""
        return Closer(
            database or self.database,
            self.clock,
            releaser=self.releaser(database),
            sender=self.ear,
            pinned=PINNED,
            telemetry=self.telemetry,
            lease_s=lease_s,
        )

    def counters(self) -> dict[str, int]:
        """Return the counters without their prefix and suffix."""
        return {
            name.removeprefix("rase_shuffler_").removesuffix("_total"): count
            for name, count in self.telemetry.counters().items()
        }

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return what the database holds."""
        with self.database.snapshot() as transaction:
            return transaction.execute(sql)


MakeWorld = Callable[..., World]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no intake give up on a closer that is only slow."""
    monkeypatch.setattr("rase.shuffler.signing._PATIENCE_S", float(PATIENCE_S))


@pytest.fixture(scope="session")
def migrated(postgres: "PostgresServer") -> "PostgresAddress":
    """An empty database of a shuffler, to be copied: all migrations take longer than a copy."""
    address = postgres.new_database()
    open_database(address, migrations="shuffler").close()
    return address


@pytest.fixture
def make_world(
    request: pytest.FixtureRequest, new_address: Callable[[str], DatabaseAddress]
) -> Iterator[MakeWorld]:
    """Make worlds, each with a database of its own."""
    made: list[World] = []
    chosen = getattr(request.node, "callspec", None)
    is_copied = chosen is not None and chosen.params.get("new_address") == "postgres"

    def place() -> DatabaseAddress:
        if not is_copied:
            return new_address(f"shuffler{len(made)}.db")
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database(like=request.getfixturevalue("migrated"))

    def make(**arguments: Any) -> World:
        made.append(World(place(), **arguments))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A world of four devices."""
    return make_world()
