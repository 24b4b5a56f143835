"""Countersigning apart from the network: the intake asks, another process signs or refuses."""

import asyncio
import io
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.patience import PATIENCE_S

from rase.errors import StorageBusy, StorageUnusable
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.documents import Countersigner
from rase.shuffler.settings import LimitSettings
from rase.shuffler.signing import Signer, prune_proposals
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import SignedCampaign, SignedKeyset

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often; nobody waits for the sake of it."""
    monkeypatch.setattr("rase.shuffler.signing._AGAIN_S", 0.005)
    monkeypatch.setattr("rase.shuffler.signing._LOOK_S", 0.005)


def signer_of(world: "World", **more: Any) -> Signer:
    """Return what signs, with a connection of its own, as the closer's process has it."""
    database = world.opened()
    return Signer(
        more.get("database", database),
        world.clock,
        countersigner=Countersigner(
            database,
            key=world.signers[Role.SHUFFLER],
            pinned=world.pinned,
            policy=world.policy,
        ),
        telemetry=more.get("telemetry", world.telemetry),
    )


def talk(
    world: "World", work: Callable[..., Awaitable[None]], *, intakes: int = 1, **limits: Any
) -> None:
    """Let a client talk to intakes that cannot sign, each with a connection of its own."""
    apps = [
        create_shuffler_app(
            world.opened(),
            world.clock,
            pinned=world.pinned,
            telemetry=world.telemetry,
            limits=LimitSettings(**limits),
        )
        for _ in range(intakes)
    ]

    async def main() -> None:
        clients = [
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shuffler")
            for app in apps
        ]
        await work(*clients)
        for client in clients:
            await client.aclose()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


async def wait_for_proposals(world: "World", count: int) -> None:
    """Return once so many proposals wait."""
    while len(world.rows("SELECT id FROM proposal WHERE state = 'waiting'")) < count:
        await asyncio.sleep(0.005)


@pytest.mark.any_store
def test_a_proposal_waits_for_the_closer(world: "World") -> None:
    """Nothing is answered until the other process has signed; the same again is answered 200."""
    second = world.campaign_of(version=2, not_before=105, epsilon=(0.5,))
    keyset = world.keyset_of(2)

    async def work(client: httpx.AsyncClient) -> None:
        signer = signer_of(world)
        for path, document in (("/v1/campaigns/homes/2", second), ("/v1/keyset", keyset)):
            for status in (201, 200):
                asked = asyncio.create_task(client.put(path, content=world.proposal_of(document)))
                await wait_for_proposals(world, 1)
                done, _ = await asyncio.wait([asked], timeout=0.02)
                assert not done
                assert signer.sign_all() == 1
                answer = await asked
                assert (answer.status_code, len(answer.content)) == (status, 64)
        kept = await client.get("/v1/campaigns/homes")
        assert SignedCampaign.from_bytes(kept.content, world.pinned).campaign == second
        kept = await client.get("/v1/keyset")
        assert SignedKeyset.from_bytes(kept.content, world.pinned).keyset == keyset

    talk(world, work)


@pytest.mark.any_store
def test_many_intakes_and_many_signers_agree(world: "World") -> None:
    """Whoever asks and whoever signs: all get the same signature, or the same refusal."""
    second = world.campaign_of(version=2, not_before=105, epsilon=(0.5,))
    weak = world.campaign_of(id="weak", k_min=2)

    async def work(*clients: httpx.AsyncClient) -> None:
        stop = threading.Event()
        signing = [
            asyncio.create_task(asyncio.to_thread(signer_of(world).run, stop)) for _ in range(3)
        ]
        good, bad = (world.proposal_of(one) for one in (second, weak))
        try:
            answers = await asyncio.gather(
                *(one.put("/v1/campaigns/homes/2", content=good) for one in clients * 2)
            )
            refused = await asyncio.gather(
                *(one.put("/v1/campaigns/weak/1", content=bad) for one in clients)
            )
        finally:
            stop.set()
            await asyncio.gather(*signing)
        assert {answer.status_code for answer in answers} <= {200, 201}
        assert len({answer.content for answer in answers}) == 1
        assert {answer.status_code for answer in refused} == {403}
        assert all("k_min must be at least 3" in answer.json()["detail"] for answer in refused)

    talk(world, work, intakes=3)
    assert len(world.rows("SELECT id FROM campaign WHERE id = 'homes'")) == 2
    assert world.rows("SELECT id FROM campaign WHERE id = 'weak'") == []


def test_what_a_stranger_proposes_is_not_kept(world: "World") -> None:
    """The intake checks the fusion centre's signature itself: others cannot fill the table."""
    stranger = SigningKey.generate(Role.FUSION)
    second = world.campaign_of(version=2, not_before=105)

    async def work(client: httpx.AsyncClient) -> None:
        for path, document in (
            ("/v1/campaigns/homes/2", second),
            ("/v1/keyset", world.keyset_of(2)),
        ):
            content = world.proposal_of(document, stranger)
            answer = await client.put(path, content=content)
            assert answer.status_code == 400
            assert "not signed by the pinned key of the fusion" in answer.json()["detail"]
        moved = await client.put("/v1/campaigns/homes/3", content=world.proposal_of(second))
        assert moved.status_code == 400

    talk(world, work)
    assert world.rows("SELECT id FROM proposal") == []


def test_without_a_closer_nothing_is_signed_now_or_later(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says what to look after, and a closer that comes later signs nothing of it."""
    monkeypatch.setattr("rase.shuffler.signing._PATIENCE_S", 0.02)

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.put("/v1/keyset", content=world.proposal_of(world.keyset_of(2)))
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "5"
        assert answer.json()["type"] == "urn:rase:problem:unsigned"
        assert "closer, which signs, does not answer" in answer.json()["detail"]

    talk(world, work)
    assert signer_of(world).sign_all() == 0
    assert world.documents.keyset == world.keyset_of(1)


def test_an_answer_in_the_last_moment_counts(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was signed before the intake gave up is answered, not withdrawn."""
    monkeypatch.setattr("rase.shuffler.signing._PATIENCE_S", 0.0)
    signer = signer_of(world)

    def late(handler: Any, name: bytes) -> None:
        signer.sign_all()

    monkeypatch.setattr("rase.shuffler.signing.SigningService._answer", late)

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.put("/v1/keyset", content=world.proposal_of(world.keyset_of(2)))
        assert answer.status_code == 201

    talk(world, work)


def test_a_proposal_that_another_intake_withdrew_is_not_signed(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two intakes that share a proposal may find it gone; that is no answer."""
    monkeypatch.setattr("rase.shuffler.signing._PATIENCE_S", 0.0)

    def gone(handler: Any, name: bytes) -> None:
        with world.database.transaction() as transaction:
            transaction.execute("DELETE FROM proposal")

    monkeypatch.setattr("rase.shuffler.signing.SigningService._answer", gone)

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.put("/v1/keyset", content=world.proposal_of(world.keyset_of(2)))
        assert answer.status_code == 503

    talk(world, work)


def test_the_signer_survives_a_database_that_is_busy(world: "World") -> None:
    """A failure is logged and tried again; a damaged database ends the whole process."""
    log = io.StringIO()
    stop = threading.Event()
    signer = signer_of(world, telemetry=Telemetry("shuffler", stream=log))
    failures = [StorageBusy("locked."), StorageBusy("locked."), StorageUnusable("damaged.")]

    def sign_all() -> int:
        raise failures.pop(0)

    signer.sign_all = sign_all  # type: ignore[method-assign]
    with pytest.raises(StorageUnusable):
        signer.run(stop)
    assert stop.is_set()
    assert log.getvalue().count("signing_failed error=") == 2
    signer.run(stop)


def test_answered_proposals_are_forgotten(world: "World") -> None:
    """The closer's tidying forgets proposals of more than an hour ago."""
    insert = "INSERT INTO proposal (id, kind, body, asked_s, state) VALUES (?, 'keyset', ?, ?, ?)"
    now_s = int(world.clock.now_s())
    with world.database.transaction() as transaction:
        for name, age_s in ((b"old", 3601), (b"new", 60)):
            transaction.execute(insert, (name, b"", now_s - age_s, "signed"))
    world.closer().tidy()
    assert world.rows("SELECT id FROM proposal") == [(b"new",)]
    prune_proposals(world.database, before_s=now_s)
    assert world.rows("SELECT id FROM proposal") == []
