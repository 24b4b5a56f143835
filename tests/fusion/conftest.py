"""A fusion centre with a fake clock, and a shuffler and devices that do what a test tells them."""

import asyncio
import io
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from tests.registering import REGISTRAR_KEY, STOCK, EveryWindow
from tests.storage.engines import NewAddress

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.fusion.app import fusion_app
from rase.fusion.campaigns import Publisher
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import Intake, Receipt
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.settings import FusionPolicy
from rase.service.telemetry import Telemetry
from rase.storage.address import DatabaseAddress, PostgresAddress
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import Batch, BatchManifest, Content, LabelCount, batch_id, inner_info
from rase.wire.parcel import header_of
from rase.wire.signed import PinnedKeys, SignedManifest, campaign_hash, signature_of
from rase.wire.suites import public_bytes, public_key, suite

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

CAMPAIGN = Campaign(
    id="street-power",
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
    upload_s=300,
    grace_s=600,
    k_min=4,
    estimators=("unbiased_mean", "sample_mean", "median", "bootstrap_mean"),
    not_before=495000,
    not_after=499999,
)
ROUND = 495001
KEYS = {
    number: OpeningKey(role=Role.FUSION, id=number, secret=bytes([number]) * 32)
    for number in (7, 9)
}
SHUFFLER_KEY = OpeningKey(role=Role.SHUFFLER, id=1, secret=bytes([3]) * 32)
FUSION_SIGNER = SigningKey(role=Role.FUSION, secret=bytes([1]) * 32)
SHUFFLER_SIGNER = SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32)
PINNED = PinnedKeys(FUSION_SIGNER.public_bytes(), SHUFFLER_SIGNER.public_bytes(), REGISTRAR_KEY)


def keyset(*numbers: int, version: int = 1) -> Keyset:
    """Return a keyset with these keys of the fusion centre."""
    keys = [SHUFFLER_KEY, *(KEYS[number] for number in numbers)]
    return Keyset(
        version=version,
        cache_s=600,
        configs=tuple(key.config(not_before_s=0, not_after_s=2**35) for key in keys),
    )


def envelope(
    place: int,
    *,
    round: int = ROUND,
    epsilon_class: int = 0,
    key_id: int = 7,
    campaign: Campaign = CAMPAIGN,
    content: bytes | None = None,
) -> bytes:
    """Return the inner envelope of one report."""
    key = KEYS[key_id]
    if content is None:
        content = Content(round, place, epsilon_class, STOCK.take()).to_bytes()
    info = inner_info(campaign_hash(campaign), round)
    return suite(key.kem, key.aead).encrypt(content, public_of(key_id), info)


@cache
def public_of(key_id: int) -> Any:
    """Return the public half of a key; tests seal thousands of reports to each."""
    key = KEYS[key_id]
    return public_key(key.kem, public_bytes(key.kem, key.secret))


@dataclass
class Parcel:
    """A batch as the shuffler sends it."""

    id: bytes
    body: bytes
    manifest: bytes

    @property
    def path(self) -> str:
        """Where it is put."""
        return f"/v1/batches/{self.id.hex()}"

    @property
    def headers(self) -> dict[str, str]:
        """What it is put with."""
        return header_of(self.manifest)

    def deliver(self, to: Any) -> Receipt:
        """Hand it to an intake or a fusion centre, as the app does."""
        intake: Intake = getattr(to, "intake", to)
        receipt: Receipt = to.receive(intake.check_manifest(self.id, self.manifest), self.body)
        return receipt


def parcel(
    inner: Iterable[bytes],
    *,
    round: int = ROUND,
    key_id: int = 7,
    campaign: Campaign = CAMPAIGN,
    signer: SigningKey = SHUFFLER_SIGNER,
    labels: tuple[LabelCount, ...] = (),
    **changes: object,
) -> Parcel:
    """Pack envelopes with a signed manifest."""
    envelopes = tuple(inner)
    body = Batch(campaign_hash(campaign), round, key_id, envelopes, labels).to_bytes()
    fields: dict[str, object] = {
        "batch_id": batch_id(body),
        "shuffler": "shuffler-1",
        "n": len(envelopes),
        "k_min": campaign.k_min,
        "method": "uniform" if envelopes else "withheld",
        "theta": None,
        "alpha": 0.0,
        "real_loss": 0.0,
        "attacker_success": 1 / max(len(envelopes), 1),
    }
    manifest = BatchManifest(**{**fields, **changes})  # type: ignore[arg-type]
    signed = SignedManifest(manifest, signature_of(manifest, signer)).to_bytes()
    return Parcel(batch_id(body), body, signed)


def reports(places: Sequence[int], **more: object) -> list[bytes]:
    """Return an envelope for each place."""
    return [envelope(place, **more) for place in places]  # type: ignore[arg-type]


class Signs:
    """A shuffler that signs whatever it is asked to."""

    def __init__(self) -> None:
        self.asked = 0

    def campaign(self, campaign: Campaign, fusion_signature: bytes) -> bytes:
        """Sign a campaign."""
        self.asked += 1
        return signature_of(campaign, SHUFFLER_SIGNER)

    def keyset(self, keyset: Keyset, fusion_signature: bytes) -> bytes:
        """Sign a keyset."""
        self.asked += 1
        return signature_of(keyset, SHUFFLER_SIGNER)


@dataclass
class Centre:
    """A fusion centre in one process, without HTTP."""

    database: Database
    clock: FakeClock
    policy: FusionPolicy = field(default_factory=FusionPolicy)
    opener: BatchOpener = field(
        default_factory=lambda: BatchOpener(list(KEYS.values()), processes=0)
    )
    shuffler: Signs = field(default_factory=Signs)
    address: DatabaseAddress = Path()

    def __post_init__(self) -> None:
        """Put the parts together."""
        self.intake = Intake(
            self.database,
            self.clock,
            pinned=PINNED,
            opener=self.opener,
            token_keys=EveryWindow(),
            policy=self.policy,
        )
        self.rounds = Rounds(self.database, self.clock, policy=self.policy)
        self.questions = Questions(self.database)
        self.publisher = Publisher(
            self.database,
            self.clock,
            key=FUSION_SIGNER,
            pinned=PINNED,
            countersigner=self.shuffler,
        )

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        with self.database.snapshot() as transaction:
            ((rows,),) = transaction.execute(f"SELECT COUNT(*) FROM {table}")  # noqa: S608
        return int(rows)


def app_of(centre: Centre, **more: Any) -> FastAPI:
    """Return the HTTP app of a centre; its log goes nowhere."""
    return fusion_app(
        FusionCentre(
            database=centre.database,
            clock=centre.clock,
            intake=centre.intake,
            rounds=centre.rounds,
            questions=centre.questions,
            policy=centre.policy,
            telemetry=Telemetry("fusion", stream=io.StringIO()),
            **more,
        ),
        tick_s=0.05,
    )


def ask(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    """Send one request to an app, without a network."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://fusion") as client:
            return await client.request(method, path, **more)

    return asyncio.run(send())


@contextmanager
def served(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serve an app on loopback, in a thread; yield its address."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        config = uvicorn.Config(
            app, log_config=None, log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def _publish(address: DatabaseAddress) -> None:
    with closing(open_database(address, migrations="fusion")) as database:
        made = Centre(database, FakeClock(CAMPAIGN.not_before * CAMPAIGN.round_s))
        made.publisher.publish(CAMPAIGN)
        made.publisher.publish_keyset(keyset(7))


@cache
def _published() -> bytes:
    """Return a file with a published campaign and keyset: to make all tables takes longer."""
    with TemporaryDirectory() as folder:
        _publish(Path(folder) / "fusion.sqlite")
        return (Path(folder) / "fusion.sqlite").read_bytes()


def write_database(path: Path, content: bytes) -> None:
    """Write a file as a fusion centre does, which only its owner reads."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


@contextmanager
def made_centre(address: DatabaseAddress) -> Iterator[Centre]:
    """Make a fusion centre with a published campaign and keyset, where nothing is yet."""
    if isinstance(address, Path):
        write_database(address, _published())
    else:
        _publish(address)
    with opened_centre(address, CAMPAIGN.closes_s(ROUND) + 60) as made:
        yield made


@contextmanager
def opened_centre(address: DatabaseAddress, now_s: float) -> Iterator[Centre]:
    """Open a fusion centre that was made before."""
    with closing(open_database(address, migrations="fusion")) as database:
        yield Centre(database, FakeClock(now_s), address=address)


# Where the tokens of lives begin.
_OF_PASTS = 1_000_000

Life: TypeAlias = Callable[[Centre], object]


class Pasts:
    """Fusion centres that lived through something: made once, then copied for each test.

    Args:
        server: The server of PostgreSQL; None for files.
    """

    def __init__(self, server: "PostgresServer | None") -> None:
        self._server = server
        self._known: dict[Life | None, tuple[PostgresAddress | bytes, float]] = {}

    @contextmanager
    def centre(self, path: Path, life: Life | None = None) -> Iterator[Centre]:
        """Open a copy of its own of a centre after a life; the path is for files."""
        if life not in self._known:
            self._known[life] = self._lived(life)
        kept, now_s = self._known[life]
        address: DatabaseAddress = path
        if isinstance(kept, bytes):
            write_database(path, kept)
        else:
            assert self._server is not None
            address = self._server.new_database(like=kept)
        with opened_centre(address, now_s) as centre:
            yield centre

    def _lived(self, life: Life | None) -> tuple[PostgresAddress | bytes, float]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "fusion.sqlite"
            with made_centre(self._server.new_database() if self._server else path) as centre:
                # Those of tests that begin with this past are others.
                STOCK.begin(_OF_PASTS)
                if life is not None:
                    life(centre)
                STOCK.begin()
                now_s = centre.clock.now_s()
            place = centre.address
            return (path.read_bytes() if isinstance(place, Path) else place), now_s


@pytest.fixture(autouse=True)
def _same_tokens() -> None:
    """Begin each test with the same tokens: to sign others takes longer than to open envelopes."""
    STOCK.begin()


@pytest.fixture(scope="session")
def pasts() -> Callable[["PostgresServer | None"], Pasts]:
    """What is known already, by engine."""
    return cache(Pasts)


@pytest.fixture
def path(quick_folder: Path) -> Path:
    """The file in which the database is, for tests of files."""
    return quick_folder / "fusion.sqlite"


After: TypeAlias = Callable[[Life | None], Centre]


@pytest.fixture
def after(
    request: pytest.FixtureRequest,
    new_address: NewAddress,
    pasts: Callable[["PostgresServer | None"], Pasts],
    path: Path,
) -> Iterator[After]:
    """Open a fusion centre with a published campaign, as it is after a life of its own."""
    is_file = request.node.callspec.params["new_address"] == "sqlite"
    known = pasts(None if is_file else request.getfixturevalue("postgres"))
    with ExitStack() as stack:
        yield lambda life: stack.enter_context(known.centre(path, life))


@pytest.fixture
def centre(after: After) -> Centre:
    """A fusion centre with a published campaign, some minutes after the round has closed."""
    return after(None)
