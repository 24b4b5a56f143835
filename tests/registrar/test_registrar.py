"""The registrar: approvals, windows, tokens once a device, and what it forgets."""

import asyncio
import base64
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cases import each_case
from tests.described import check_described, never_seen, problems_of
from tests.registering import REGISTRAR_KEY, REGISTRAR_SECRET, issuer
from tests.storage.engines import NewAddress

from rase.campaign import Campaign
from rase.clock import FakeClock
from rase.errors import RaseError, WireError
from rase.registrar.app import registrar_app
from rase.registrar.describe import description
from rase.registrar.devices import (
    NotApproved,
    certify,
    certify_list,
    known_devices,
    make_approvals,
    prune_approvals,
    revoke_devices,
)
from rase.registrar.issuing import MAX_BLINDED, WITHOUT_KEYS, Issuance, window_rows
from rase.registrar.settings import RegistrarLimits
from rase.registrar.upkeep import KeyRefused, Upkeep, windows_ahead
from rase.service.telemetry import Telemetry
from rase.storage.backup import back_up
from rase.storage.interface import Database
from rase.storage.opening import open_database
from rase.wire import cbor
from rase.wire.issuing import Issuer
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    public_key_of,
    sign_with,
    signature_of,
    versions_bytes,
)
from rase.wire.tokens import (
    TokenKey,
    is_certified,
    list_input,
    proof_input,
    requests_bytes,
    token_keys_from_bytes,
)
from rase.wire.wallet import TokenBatch

FUSION = SigningKey(role=Role.FUSION, secret=bytes([1]) * 32)
SHUFFLER = SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32)
PINNED = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)
ROUND_S = 600
NOW_ROUND = 1000
CAMPAIGN = Campaign(
    id="homes",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=100,
    mechanism="budget-aware",
    epsilon=(1.0,),
    window=6,
    window_budget=2.0,
    round_s=ROUND_S,
    upload_s=60,
    grace_s=100,
    k_min=3,
    not_before=0,
    not_after=10**6,
)
DEVICE = bytes([9]) * 32


class Shuffler:
    """The peer: publishes the campaign, and signs unless it is told not to."""

    def __init__(self) -> None:
        self.is_up = True
        self.has_campaign = True
        self.signed: dict[int, bytes] = {}

    def versions(self, campaign: str) -> bytes | None:
        """Return the published versions."""
        if not self.is_up:
            raise WireError("no answer.")
        signatures = (signature_of(CAMPAIGN, key) for key in (FUSION, SHUFFLER))
        signed = SignedCampaign(CAMPAIGN, *signatures).to_bytes()
        return versions_bytes([signed]) if self.has_campaign else None

    def sign(self, key: TokenKey, registrar_signature: bytes) -> bytes:
        """Sign a key."""
        if not self.is_up:
            raise WireError("no answer.")
        if self.signed.setdefault(key.first_round, key.modulus) != key.modulus:
            raise KeyRefused("another key was signed.")
        return SHUFFLER.sign(key.signing_input("shuffler"))


class World:
    """A registrar with a clock and a peer."""

    def __init__(self, open_again: Callable[[], Database]) -> None:
        self.open_again = open_again
        self.database = open_again()
        self.clock = FakeClock(NOW_ROUND * ROUND_S + 10)
        self.shuffler = Shuffler()
        self.begin()

    def begin(self) -> None:
        """Begin as a process that remembers nothing."""
        self.upkeep = Upkeep(
            self.database,
            self.clock,
            secret=REGISTRAR_SECRET,
            pinned=PINNED,
            peer=self.shuffler,
            campaigns=[CAMPAIGN.id],
            telemetry=Telemetry("registrar", stream=io.StringIO()),
        )
        self.issuance = Issuance(self.database, self.clock, pinned=PINNED)

    def keys(self) -> list[TokenKey]:
        """Return the published keys."""
        found = token_keys_from_bytes(self.issuance.keys_document(), PINNED)
        return [one.key for one in found]

    def ask(self, key: TokenKey, *, device: bytes = DEVICE, seed: int = 0) -> Any:
        """Ask for a device's tokens; return the signatures or the error."""
        batch = TokenBatch(key, seed.to_bytes(32, "big"))
        (found,) = self.issuance.issue([batch.request(device)])
        return found


@pytest.fixture
def world(new_address: NewAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A registrar that knows one device; each world draws the same keys, made once a process."""
    numbers = count()
    monkeypatch.setattr(Issuer, "generate", lambda: issuer(next(numbers)))
    address = new_address("registrar")
    opened: list[Database] = []

    def open_again() -> Database:
        opened.append(open_database(address, migrations="registrar"))
        return opened[-1]

    made = World(open_again)
    certify_list(made.database, [public_key_of(DEVICE)], secret=REGISTRAR_SECRET)
    yield made
    for database in opened:
        database.close()


def test_windows_end_at_multiples_and_are_made_ahead() -> None:
    """The first begins as soon as its tokens can be fetched; later ones follow without a gap."""
    more: dict[str, Any] = {"window_rounds": 0, "lead_s": 0, "windows": 2}
    now_s = NOW_ROUND * ROUND_S + 10
    found = list(windows_ahead(CAMPAIGN, last_round=None, now_s=now_s, **more))
    assert found == [(1002, 1007), (1008, 1013)]
    assert list(windows_ahead(CAMPAIGN, last_round=1013, now_s=now_s, **more)) == []
    late = now_s + 100 * ROUND_S
    assert next(windows_ahead(CAMPAIGN, last_round=1013, now_s=late, **more)) == (1102, 1103)
    carrying = replace(CAMPAIGN, carry_rounds=4, not_before=1003)
    more |= {"window_rounds": 7}
    found = list(windows_ahead(carrying, last_round=None, now_s=now_s, **more))
    assert found[:2] == [(1005, 1009), (1010, 1019)]


def test_keys_are_made_signed_and_used(world: World) -> None:
    """A device gets as many tokens as the budget pays for, and the same again when it repeats."""
    world.upkeep.step()
    keys = world.keys()
    assert [(key.first_round, key.last_round, key.reports) for key in keys[:2]] == [
        (1002, 1007, 2),
        (1008, 1013, 2),
    ]
    assert len({key.modulus for key in keys}) == len(keys)
    first = world.ask(keys[0])
    assert len(TokenBatch(keys[0], bytes(32)).open(first)) == 2
    world.begin()
    assert world.ask(keys[0]) == first
    assert [row.devices for row in window_rows(world.database)][:2] == [1, 0]


def test_nobody_gets_more_than_the_window_allows(world: World) -> None:
    """A clone, a restored backup or a thief asks for other tokens, and is refused."""
    world.upkeep.step()
    key, following, *_ = world.keys()
    world.ask(key)
    refused = world.ask(key, seed=1)
    assert isinstance(refused, WireError)
    assert refused.problem == "tokens-issued"
    assert isinstance(world.ask(following, seed=1), list)


def test_issuing_ends_before_the_window_begins(world: World) -> None:
    """Late fetching would show who joined; the private key is then erased for good."""
    world.upkeep.step()
    key = world.keys()[0]
    world.clock.advance(key.issue_until_s - world.clock.now_s())
    refused = world.ask(key)
    assert isinstance(refused, WireError)
    assert refused.problem == "not-issuing"
    world.upkeep.step()
    with world.database.snapshot() as transaction:
        rows = transaction.execute("SELECT private FROM token_key ORDER BY first_round")
    assert rows[0][0] is None
    assert rows[1][0] is not None


def test_only_certified_devices_get_tokens(world: World) -> None:
    """A stranger, a forged request and a revoked device get none."""
    world.upkeep.step()
    key, following, *_ = world.keys()
    assert isinstance(world.ask(key, device=bytes([8]) * 32), NotApproved)
    batch = TokenBatch(key, bytes(32))
    forged = replace(batch.request(DEVICE), signature=bytes(64))
    (found,) = world.issuance.issue([forged])
    assert isinstance(found, NotApproved)
    assert isinstance(world.ask(key), list)
    revoke_devices(world.database, [public_key_of(DEVICE).hex()[:12]])
    assert isinstance(world.ask(following), NotApproved)
    assert [one.is_revoked for one in known_devices(world.database)] == [True]
    with pytest.raises(LookupError, match="no certified device has a key"):
        revoke_devices(world.database, ["ffff"])


@each_case("count", [0, 1, 3])
def test_all_tokens_are_asked_for_at_once(world: World, count: int) -> None:
    """Fewer or more are refused, and so is a request beyond what one may ask for."""
    world.upkeep.step()
    key = world.keys()[0]
    request = TokenBatch(key, bytes(32)).request(DEVICE)
    (found,) = world.issuance.issue([replace(request, blinded=request.blinded[:1] * count)])
    assert isinstance(found, WireError)
    many = world.issuance.issue([replace(request, blinded=request.blinded[:1] * (MAX_BLINDED + 1))])
    assert [getattr(one, "problem", "") for one in many] == ["bad-report"]


def test_a_restored_registrar_issues_no_second_set_of_known_windows(world: World) -> None:
    """Without its database it has no key of a window that the shuffler signed: it cannot go on."""
    world.upkeep.step()
    before = world.keys()
    with world.database.transaction() as transaction:
        for table in ("token_key", "issued", "device", "approval"):
            transaction.execute(f"DELETE FROM {table}")  # noqa: S608 - our words
    assert world.keys() == []
    assert isinstance(world.ask(before[0]), WireError)
    certify_list(world.database, [public_key_of(DEVICE)], secret=REGISTRAR_SECRET)
    world.upkeep.step()
    assert world.keys() == []
    # It goes on with the first window after those.
    world.clock.advance(before[-1].issue_until_s - world.clock.now_s())
    world.upkeep.step()
    world.upkeep.step()
    after = world.keys()
    assert after[0].first_round == before[-1].last_round + 1
    assert isinstance(world.ask(after[0]), list)


def test_an_older_copy_that_is_put_back_gives_nobody_a_second_set(tmp_path: Path) -> None:
    """Whoever fetched after the copy was made gets no other tokens of any window it knows.

    With the private keys, as in a copy of the file by other means, they would get as many again.
    """
    stack = ExitStack()

    def opened(name: str = "registrar.db") -> Database:
        return stack.enter_context(closing(open_database(tmp_path / name, migrations="registrar")))

    keys, counts = {}, {}
    for name, erase in (("copy.db", WITHOUT_KEYS), ("file.db", None)):
        with stack:
            world = World(lambda name=name: opened(f"own-{name}"))  # type: ignore[misc]
            certify_list(world.database, [public_key_of(DEVICE)], secret=REGISTRAR_SECRET)
            world.upkeep.step()
            keys[name] = world.keys()
            back_up(tmp_path / f"own-{name}", tmp_path / name, erase=erase)
            assert all(isinstance(world.ask(key, seed=1), list) for key in keys[name])
            world.database = opened(name)
            world.begin()
            again = [world.ask(key, seed=2) for key in keys[name]]
            counts[name] = sum(isinstance(one, list) for one in again)
            if erase is not None:
                world.upkeep.step()
                last = keys[name][-1]
                world.clock.advance(last.issue_until_s - world.clock.now_s())
                world.upkeep.step()
                published = world.keys()
                after = [key for key in published if key.first_round > last.last_round]
                assert isinstance(world.ask(after[0]), list)
    assert counts == {"copy.db": 0, "file.db": len(keys["file.db"])}


def test_two_processes_share_a_registrar(world: World) -> None:
    """What one has signed the other signs the same, and no other set."""
    world.upkeep.step()
    key = world.keys()[0]
    first = world.ask(key, seed=1)
    world.database = world.open_again()
    world.begin()
    assert world.ask(key, seed=1) == first
    assert isinstance(world.ask(key, seed=2), WireError)
    before = world.keys()
    world.upkeep.step()
    assert world.keys() == before


def test_an_outage_of_the_shuffler_loses_nothing(world: World) -> None:
    """Keys wait for its signature; those that got none in time are dropped with their rounds."""
    world.shuffler.is_up = False
    with pytest.raises(WireError):
        world.upkeep.step()
    assert world.keys() == []
    world.shuffler.is_up, world.shuffler.has_campaign = True, False
    world.upkeep.step()
    assert world.keys() == []
    world.shuffler.has_campaign = True
    world.upkeep.step()
    first = world.keys()[0]
    world.upkeep.step()
    assert world.keys()[0] == first


def test_what_is_over_is_forgotten(world: World) -> None:
    """Rows of a window stay until a day after it."""
    world.upkeep.step()
    world.ask(world.keys()[0])
    world.clock.advance(10 * 86_400)
    world.upkeep.step()
    assert all(row.first_round > NOW_ROUND + 1000 for row in window_rows(world.database))
    with world.database.snapshot() as transaction:
        assert transaction.execute("SELECT * FROM issued") == []


def test_approvals_are_for_one_device(world: World) -> None:
    """It may ask again for ten minutes; another key, a wrong secret or no proof gets nothing."""
    now_s = world.clock.now_s()
    (approval,) = make_approvals(world.database, 1, expires_s=int(now_s) + 5000)
    secret, other = bytes([3]) * 32, bytes([4]) * 32

    def ask(own: bytes, text: str = approval, at_s: float = now_s, **more: Any) -> bytes:
        key = public_key_of(own)
        asked = {"device_key": key, "proof": sign_with(own, proof_input(key)), **more}
        return certify(world.database, text, secret=REGISTRAR_SECRET, now_s=at_s, **asked)

    for bad in (approval + "x", "x." + approval, "", "no-dot"):
        with pytest.raises(NotApproved, match="wrong, used or expired"):
            ask(secret, bad)
    with pytest.raises(NotApproved, match="proof"):
        ask(secret, proof=bytes(64))
    certificate = ask(secret)
    assert is_certified(public_key_of(secret), certificate, PINNED)
    assert ask(secret) == certificate
    with pytest.raises(NotApproved):
        ask(other)
    with pytest.raises(NotApproved):
        ask(secret, at_s=now_s + 700)
    prune_approvals(world.database, now_s=now_s + 700)
    with world.database.snapshot() as transaction:
        assert transaction.execute("SELECT * FROM approval") == []
    revoke_devices(world.database, [public_key_of(secret).hex()])
    (again,) = make_approvals(world.database, 1, expires_s=int(now_s) + 5000)
    with pytest.raises(NotApproved):
        ask(secret, again)
    with pytest.raises(ValueError, match="count must be at least 1"):
        make_approvals(world.database, 0, expires_s=1)


def test_a_list_is_certified_as_a_whole(world: World) -> None:
    """One signature for a fleet; not for another list."""
    keys = [bytes([number]) * 32 for number in range(5)]
    certificate = certify_list(world.database, keys, secret=REGISTRAR_SECRET)
    assert certificate == sign_with(REGISTRAR_SECRET, list_input(keys))
    assert len(known_devices(world.database)) == 6


def hooks_of(app: Any) -> dict[str, list[Any]]:
    """Return what compares each answer with the app's description."""

    async def compare(answer: httpx.Response) -> None:
        await answer.aread()
        check_described(app.openapi(), answer)

    return {"response": [compare]}


@pytest.mark.sqlite
def test_the_description_is_of_the_routes(world: World) -> None:
    """Its copy is current; every problem that it names for these requests is what is answered."""
    page = Path(__file__).parents[2] / "docs/reference/openapi-registrar.json"
    assert page.read_text("utf-8") == description()
    app = registrar_app(
        world.database,
        world.clock,
        secret=REGISTRAR_SECRET,
        pinned=PINNED,
        telemetry=Telemetry("registrar", stream=io.StringIO()),
        limits=RegistrarLimits(certificates_per_minute=1),
    )
    wrong = {"approval": "a.b", "device_key": "A" * 43, "proof": "A" * 86}
    seen: set[tuple[str, str, str]] = set()

    async def talk() -> None:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://registrar", event_hooks=hooks_of(app)
        ) as client:
            for body in (wrong, wrong, wrong | {"proof": "?"}, {}, {"approval": "x" * 5000}):
                seen.update(problems_of(await client.post("/v1/certificates", json=body)))
            for path, content in (
                ("/v1/certificates", b"?"),
                ("/v1/tokens", b"?"),
                ("/v1/tokens", bytes(10**7)),
            ):
                headers = {"Content-Type": "application/json"}
                answer = await client.post(path, content=content, headers=headers)
                seen.update(problems_of(answer))
            assert (await client.get("/openapi.json")).json() == app.openapi()

    asyncio.run(talk())
    left = {(path, kind.rpartition(":")[2]) for _, path, kind in never_seen(app.openapi(), seen)}
    # Those are in the test of its limits, and in that of a full disk.
    passing = {(path, "unavailable") for path in app.openapi()["paths"]}
    assert left == passing | {("/v1/tokens", "too-many")}


def test_the_routes_answer_as_the_page_says(world: World) -> None:
    """Certificate, keys and tokens over HTTP; every refusal has its name."""
    world.upkeep.step()
    app = registrar_app(
        world.database,
        world.clock,
        secret=REGISTRAR_SECRET,
        pinned=PINNED,
        telemetry=Telemetry("registrar", stream=io.StringIO()),
    )

    async def talk() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://registrar", event_hooks=hooks_of(app)
        ) as client:
            (approval,) = make_approvals(world.database, 1, expires_s=10**10)
            own = bytes([7]) * 32
            key = public_key_of(own)
            body = {
                "approval": approval,
                "device_key": base64.urlsafe_b64encode(key).decode().rstrip("="),
                "proof": base64.urlsafe_b64encode(sign_with(own, proof_input(key))).decode(),
            }
            asked = TokenBatch(world.keys()[0], bytes(32)).request(own)
            return [
                await client.post("/v1/certificates", json=body),
                await client.post("/v1/certificates", json=body | {"approval": "a.b"}),
                await client.post("/v1/certificates", json=body | {"proof": "?"}),
                await client.get("/v1/token-keys"),
                await client.post(
                    "/v1/tokens",
                    content=requests_bytes([asked, replace(asked, first_round=5)]),
                ),
                await client.post("/v1/tokens", content=b"nonsense"),
                await client.get("/readyz"),
            ]

    answers = asyncio.run(talk())
    assert [one.status_code for one in answers] == [201, 403, 400, 200, 200, 400, 200]
    assert answers[3].content == world.issuance.keys_document()
    replies = cbor.decode(answers[4].content, max_size=1 << 20)
    assert replies[0][0] == 200
    assert replies[1] == [409, "not-issuing"]
    text = answers[0].json()["certificate"]
    signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert is_certified(public_key_of(bytes([7]) * 32), signed, PINNED)


def test_a_fleet_behind_one_address_is_not_refused(world: World) -> None:
    """The limits are each device's own: a gateway's others get tokens when one asks too often."""
    world.upkeep.step()
    most = RegistrarLimits().requests_per_minute
    secrets = [number.to_bytes(32, "big") for number in range(100, 102 + most)]
    certify_list(world.database, [public_key_of(one) for one in secrets], secret=REGISTRAR_SECRET)
    app = registrar_app(
        world.database,
        world.clock,
        secret=REGISTRAR_SECRET,
        pinned=PINNED,
        telemetry=Telemetry("registrar", stream=io.StringIO()),
    )
    key = world.keys()[0]
    asked = [TokenBatch(key, bytes(32)).request(secret) for secret in secrets]
    often = replace(asked[0], blinded=())  # answered without a signature, and counted

    async def talk() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://registrar", event_hooks=hooks_of(app)
        ) as client:
            sent = [[one] for one in asked] + [[often]] * most + [asked]
            return [
                await client.post("/v1/tokens", content=requests_bytes(requests))
                for requests in sent
            ]

    answers = asyncio.run(talk())
    assert [one.status_code for one in answers] == [200] * (len(asked) + most - 1) + [429, 200]
    assert 1 <= int(answers[-2].headers["Retry-After"]) <= 61
    refused, *others = cbor.decode(answers[-1].content, max_size=1 << 20)
    assert refused == [429, "too-many"]
    assert [status for status, _ in others] == [200] * (len(asked) - 1)


def test_no_table_has_a_place_for_a_token(tmp_path: Path) -> None:
    """What was signed is kept as one hash of all blinded nonces: no report, no round."""
    path = tmp_path / "registrar.db"
    with (
        closing(open_database(path, migrations="registrar")) as database,
        database.snapshot() as transaction,
    ):
        columns = {
            table: {row[1] for row in transaction.execute(f"PRAGMA table_info({table})")}
            for table in ("approval", "device", "token_key", "issued")
        }
    assert columns["issued"] == {"campaign", "first_round", "device_key", "digest"}
    assert columns["device"] == {"device_key", "is_revoked"}


def test_a_fault_of_the_machine_is_no_answer(world: World) -> None:
    """The device asks again later."""
    world.upkeep.step()
    key = world.keys()[0]
    request = TokenBatch(key, bytes(32)).request(DEVICE)
    too_large = replace(request, blinded=(bytes([255]) * 256,) * key.reports)
    signed = replace(too_large, signature=sign_with(DEVICE, too_large.signing_input()))
    (found,) = world.issuance.issue([signed])
    assert isinstance(found, RaseError)
