"""The shuffler over HTTP: every route, every problem, every limit, without sockets."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.described import check_described, never_seen, problems_of
from tests.enrolling import applicant, asked, credential_of
from tests.patience import PATIENCE_S
from tests.shuffler.test_token_keys import key_of
from tests.shuffler.test_token_keys import proposal_of as token_proposal

from rase.errors import ConfigurationError, Malformed, StorageBusy
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.describe import description
from rase.shuffler.documents import Documents, load_documents
from rase.shuffler.enrolment import make_tokens, revoke_devices
from rase.shuffler.intake import Outcome, Pending, store_reports
from rase.shuffler.membership import remove_members
from rase.shuffler.report_handler import ReportHandler, reply_to
from rase.shuffler.settings import LimitSettings
from rase.storage.interface import Database
from rase.storage.sqlite import SqliteDatabase
from rase.wire import cbor
from rase.wire.frames import TAG_BYTES, authorization_of, frame_of, handle_of
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset, versions_from_bytes

JSON = "application/json"
DOCS = Path(__file__).parents[2] / "docs/reference"
if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


# The problems that the tests of this file were answered, by method and path.
SEEN: set[tuple[str, str, str]] = set()


def talk(
    world: "World", work: Callable[[httpx.AsyncClient], Awaitable[None]], **limits: Any
) -> Any:
    """Let a client talk to a fresh app; every answer is one of its description. Return the app."""
    app = create_shuffler_app(
        world.database,
        world.clock,
        countersigner=world.countersigner,
        pinned=world.pinned,
        telemetry=world.telemetry,
        limits=LimitSettings(**limits),
    )

    async def compare(answer: httpx.Response) -> None:
        await answer.aread()
        check_described(app.openapi(), answer)
        SEEN.update(problems_of(answer))

    async def main() -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport,
                base_url="http://shuffler",
                event_hooks={"response": [compare]},
            ) as client,
        ):
            await work(client)

    asyncio.run(main())
    return app


def report(world: "World", wire: bytes, *, device: int = 0) -> dict[str, Any]:
    """Return the request that hands a report over."""
    return {
        "url": "/v1/reports",
        "content": wire,
        "headers": {
            "Content-Type": "application/rase-report",
            "Authorization": authorization_of(wire, world.credentials[device]),
        },
    }


def check_problem(answer: httpx.Response, status: int, name: str) -> None:
    """The answer is a problem of that status and type."""
    assert (answer.status_code, answer.headers["Content-Type"]) == (
        status,
        "application/problem+json",
    )
    assert answer.json()["type"] == f"urn:rase:problem:{name}"
    assert answer.json()["status"] == status


def test_a_report_is_stored_then_known(world: "World") -> None:
    """201 for the first, 200 for the same again and for another one; all are counted."""
    world.upload_time(100)
    wire = world.seal(100)

    async def work(client: httpx.AsyncClient) -> None:
        first = await client.post(**report(world, wire))
        assert (first.status_code, first.content) == (201, b"")
        again = await asyncio.gather(*(client.post(**report(world, wire)) for _ in range(5)))
        assert {answer.status_code for answer in again} == {200}
        assert (await client.post(**report(world, world.seal(100)))).status_code == 200
        together = [client.post(**report(world, world.seal(100), device=d)) for d in (1, 2, 3)]
        assert {answer.status_code for answer in await asyncio.gather(*together)} == {201}

    talk(world, work)
    counters = world.counters()
    assert (counters["reports_stored"], counters["reports_repeated"]) == (4, 5)
    assert counters["reports_ignored"] == 1
    assert (world.devices[0], wire) in world.rows("SELECT device, wire FROM report")


def test_schemes_and_media_types_have_no_case(world: "World") -> None:
    """Other clients write them in other ways, with parameters."""
    world.upload_time(100)

    async def work(client: httpx.AsyncClient) -> None:
        for device, (scheme, media) in enumerate(
            [
                ("rase", "application/rase-report; charset=x"),
                ("Rase", "Application/RASE-Report"),
            ]
        ):
            request = report(world, world.seal(100), device=device)
            proof = request["headers"]["Authorization"]
            request["headers"]["Authorization"] = proof.replace("RASE", scheme)
            request["headers"]["Content-Type"] = media
            assert (await client.post(**request)).status_code == 201

    talk(world, work)


def test_who_ends_tls_cannot_act_in_a_devices_name(world: "World") -> None:
    """A proxy that keeps all that passed can repeat it and nothing else, also through a gateway.

    With rase/1 the request carried the device's credential, which was good for any report.
    """
    world.upload_time(100)
    wire, of_proxy = world.seal(100), world.seal(100, place=4000)
    credential = world.credentials[0]
    handle, secret = handle_of(credential), credential.partition(".")[2]
    passed = report(world, wire)
    carried = handed(world, (credential, wire))
    assert secret not in str(passed)
    assert secret.encode() not in carried["content"]
    stolen = frame_of(wire, credential)[-TAG_BYTES:]
    frames = [
        of_proxy + stolen,
        frame_of(of_proxy, f"{handle}.{stolen.hex()}"),
        frame_of(of_proxy, f"{handle}.")[:-TAG_BYTES] + bytes(TAG_BYTES),
    ]

    async def work(client: httpx.AsyncClient) -> None:
        for frame in frames:
            proof = f"RASE {handle}.{frame[-TAG_BYTES:].hex()}"
            mine = {**passed, "content": of_proxy}
            mine["headers"] = {**passed["headers"], "Authorization": proof}
            check_problem(await client.post(**mine), 403, "not-enrolled")
            told = replies(
                await client.post(**{**carried, "content": cbor.encode([[handle, frame]])})
            )
            assert told == [{"status": 403, "problem": "not-enrolled"}]
        assert world.rows("SELECT wire FROM report") == []
        assert (await client.post(**passed)).status_code == 201
        assert (await client.post(**passed)).status_code == 200
        assert replies(await client.post(**carried)) == [{"status": 200}]

    talk(world, work)
    assert [bytes(kept) for (kept,) in world.rows("SELECT wire FROM report")] == [wire]


def test_who_ends_tls_at_the_enrolment_learns_nothing_to_act_with(world: "World") -> None:
    """All bytes of an enrolment make neither a report, nor a device, nor a credential void.

    With rase/1 they held the token, good for a device of the proxy's, and the credential.
    """
    world.upload_time(100)
    (token,) = make_tokens(world.database, 1, expires_s=int(world.clock.now_s()) + 1000)
    wire = world.seal(100)

    async def work(client: httpx.AsyncClient) -> None:
        passed = asked(token)
        answered = (await client.post("/v1/enrolments", json=passed)).json()
        credential = credential_of(token, answered)
        rest, secret = token.partition(".")[2], credential.partition(".")[2]
        assert not any(one in str((passed, answered)) for one in (rest, secret))
        # Neither with another key, nor with a proof that was seen, nor with one by a guess.
        for own in (
            {**passed, "device_key": asked(token, 2)["device_key"]},
            {**asked(token, 2), "proof": answered["proof"]},
            asked(f"{passed['token']}.{passed['proof']}", 2),
        ):
            check_problem(await client.post("/v1/enrolments", json=own), 403, "not-enrolled")
        # As a key behind a tag, everything that was seen is worth nothing.
        for guess in (*passed.values(), *answered.values(), ""):
            frame = frame_of(wire, f"{answered['device']}.{guess}")
            request = report(world, wire)
            proof = f"RASE {answered['device']}.{frame[-TAG_BYTES:].hex()}"
            request["headers"]["Authorization"] = proof
            check_problem(await client.post(**request), 403, "not-enrolled")
        # The same request again is answered the same: it voids nothing.
        again = await client.post("/v1/enrolments", json=passed)
        assert again.json() == answered
        world.credentials.append(credential)
        assert (await client.post(**report(world, wire, device=-1))).status_code == 201
        # An answer of the proxy's making is not believed.
        of_proxy = applicant("0.guess", 3).application.device_key
        for made in ({**answered, "server_key": of_proxy}, {**answered, "device": "0" * 16}):
            with pytest.raises(Malformed, match="not by who made the token"):
                credential_of(token, made)

    talk(world, work)


def test_each_bad_report_is_a_named_problem_and_counted(world: "World") -> None:
    """Malformed, truncated, oversized, wrong key, early, late, unknown campaign, no credential."""
    world.upload_time(100)
    wire = world.seal(100)
    bad = [
        (b"", 400, "bad-report"),
        (wire[:-1], 400, "bad-report"),
        (wire + b"x", 400, "bad-report"),
        (bytes(100_000), 400, "bad-report"),
        (b"\x07" + wire[1:], 400, "bad-report"),
        (world.seal(100, shuffler="unknown"), 409, "outdated-config"),
        (world.seal(100, shuffler="expired"), 409, "outdated-config"),
        (world.seal(101), 409, "round-not-open"),
        (world.seal(98), 410, "round-closed"),
        (wire[:2] + bytes(8) + wire[10:], 404, "unknown-campaign"),
    ]

    async def work(client: httpx.AsyncClient) -> None:
        for content, status, name in bad:
            check_problem(await client.post(**report(world, content)), status, name)
        right = authorization_of(wire, world.credentials[0])
        other = authorization_of(world.seal(100), world.credentials[0])
        handle = handle_of(world.credentials[1])
        for authorization in (
            *("", "Basic x", "RASE x", f"RASE {'g' * 16}.{'0' * 32}", f"RASE {'0' * 49}"),
            *(right[:-1] + "g", right + "0", other, f"RASE {handle}.{right[-32:]}"),
            f"Bearer {world.credentials[0]}",
        ):
            request = report(world, wire)
            request["headers"]["Authorization"] = authorization
            check_problem(await client.post(**request), 403, "not-enrolled")
        request = report(world, wire)
        request["headers"]["Content-Type"] = "text/plain"
        assert (await client.post(**request)).status_code == 415
        assert (await client.post(**report(world, wire))).status_code == 201

    talk(world, work)
    counters = world.counters()
    assert counters["problem_bad_report"] == 5
    assert counters["problem_outdated_config"] == 2
    assert counters["problem_not_enrolled"] == 10
    assert counters["reports_stored"] == 1
    assert world.rows("SELECT count(*) FROM report") == [(1,)]


def test_a_round_that_closes_meanwhile_is_closed(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the closer is faster than the clock check, the device is told so."""
    world.upload_time(100)
    with world.database.transaction() as transaction:
        transaction.execute("UPDATE campaign SET next_round = 101")

    async def work(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(**report(world, world.seal(100))), 410, "round-closed")

    talk(world, work)


def test_a_sender_who_sends_too_much_waits(world: "World") -> None:
    """Beyond the limit a device gets 429 with Retry-After, others do not, and a minute heals."""
    world.upload_time(100)
    wire = world.seal(100)

    async def work(client: httpx.AsyncClient) -> None:
        for status in (201, 200, 429):
            answer = await client.post(**report(world, wire))
            assert answer.status_code == status
        check_problem(answer, 429, "too-many")
        assert 1 <= int(answer.headers["Retry-After"]) <= 61
        other = await client.post(**report(world, world.seal(100), device=1))
        assert other.status_code == 201
        world.clock.advance(60)
        assert (await client.post(**report(world, wire))).status_code == 200

    talk(world, work, reports_per_minute=2)


def test_a_full_queue_asks_to_come_back(world: "World") -> None:
    """More reports at once than may wait are told to come back in a second."""
    world.upload_time(100)

    async def work(client: httpx.AsyncClient) -> None:
        answers = await asyncio.gather(
            *(client.post(**report(world, world.seal(100), device=d % 4)) for d in range(12))
        )
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert {answer.headers["Retry-After"] for answer in refused} == {"2"}

    talk(world, work, max_waiting=1)


def test_a_disk_that_hangs_sheds_load_and_loses_nothing(
    make_world: "MakeWorld", monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing is written a bounded number waits; others get 429 and are taken later."""
    world = make_world(devices=9)
    world.upload_time(100)
    wires = [world.seal(100) for _ in world.devices]
    begun, gate = threading.Event(), threading.Event()

    def hang(database: Database, reports: Sequence[Pending]) -> list[Outcome]:
        begun.set()
        assert gate.wait(PATIENCE_S)
        return store_reports(database, reports)

    monkeypatch.setattr("rase.shuffler.report_handler.store_reports", hang)

    async def work(client: httpx.AsyncClient) -> None:
        def send(device: int) -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(client.post(**report(world, wires[device], device=device)))

        # One is being written, three wait; there is no room for the others.
        waiting = [send(0)]
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        waiting += [send(device) for device in (1, 2, 3)]
        refused = [await send(device) for device in (4, 5, 6, 7, 8)]
        pairs = [[handle_of(world.credentials[8]), frame_of(wires[8], world.credentials[8])]]
        refused.append(
            await client.post(
                "/v1/reports",
                content=cbor.encode(pairs),
                headers={"Content-Type": "application/cbor"},
            )
        )
        for answer in refused:
            check_problem(answer, 429, "too-many")
            assert int(answer.headers["Retry-After"]) >= 1
        assert not any(task.done() for task in waiting)
        assert world.rows("SELECT count(*) FROM report") == [(0,)]
        gate.set()
        assert [(await task).status_code for task in waiting] == [201] * 4
        assert world.rows("SELECT count(*) FROM report") == [(4,)]
        again = [await send(device) for device in range(9)]
        assert [answer.status_code for answer in again] == [200] * 4 + [201] * 5

    talk(world, work, max_waiting=3, max_group=1, reports_per_minute=2)
    assert world.rows("SELECT count(*) FROM report") == [(9,)]


@pytest.mark.sqlite
def test_a_full_disk_loses_nothing(
    make_world: "MakeWorld", capsys: pytest.CaptureFixture[str]
) -> None:
    """While nothing fits devices get 503 and try again; then all is as before."""
    world = make_world(devices=8, kem="x-wing")
    world.upload_time(100)
    wires = [world.seal(100) for _ in world.devices]

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.post(**report(world, wires[0]))).status_code == 201
        assert isinstance(world.database, SqliteDatabase)
        connection = world.database._idle[True][0]
        ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        answers = [await client.post(**report(world, wires[d], device=d)) for d in range(8)]
        refused = next(answer for answer in answers if answer.status_code == 503)
        check_problem(refused, 503, "unavailable")
        assert refused.headers["Retry-After"] == "5"
        assert str(world.path) not in refused.text
        connection.execute(f"PRAGMA max_page_count = {pages * 1000}")
        for device, answer in enumerate(answers):
            again = await client.post(**report(world, wires[device], device=device))
            assert again.status_code == (201 if answer.status_code == 503 else 200)

    talk(world, work)
    assert world.rows("SELECT count(*) FROM report") == [(8,)]
    assert world.counters()["problem_unavailable"] >= 1
    assert "full" in capsys.readouterr().err


def test_enrolment_over_http(world: "World") -> None:
    """A token gives a credential once; bad ones and bad bodies are refused by name."""
    world.upload_time(100)
    first, second = make_tokens(world.database, 2, expires_s=int(world.clock.now_s()) + 10)

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/enrolments", json=asked(first))
        assert answer.status_code == 201
        assert answer.headers["Cache-Control"] == "no-store"
        assert set(answer.json()) == {"device", "server_key", "proof"}
        world.credentials.append(credential_of(first, answer.json()))
        sent = await client.post(**report(world, world.seal(100), device=-1))
        assert sent.status_code == 201
        other = asked(first, 2)
        check_problem(await client.post("/v1/enrolments", json=other), 403, "not-enrolled")
        limited = await client.post("/v1/enrolments", json=asked(first))
        check_problem(limited, 429, "too-many")
        malformed = await client.post("/v1/enrolments", json={"token": second})
        assert malformed.status_code == 422
        assert second not in malformed.text
        large = await client.post("/v1/enrolments", json={"token": "x" * 5000})
        assert large.status_code == 413

    talk(world, work, enrolments_per_minute=2)
    assert world.counters()["enrolments"] == 1


@pytest.mark.uncovered
@pytest.mark.any_store
def test_wrong_tries_keep_no_honest_device_out(world: "World") -> None:
    """After 640 wrong tries, and among as many more, a device with a right token gets in.

    The wrong ones are told to wait, and write nothing; no clock moves, so all are of one second.
    """
    tokens = make_tokens(world.database, 3, expires_s=int(world.clock.now_s()) + 1000)
    wrong = [asked(f"{number:016x}.{'x' * 43}") for number in range(640)]
    wrong.append(asked(tokens[0][:-1] + "!"))

    def right(number: int) -> dict[str, str]:
        return asked(tokens[number], number + 1)

    async def work(client: httpx.AsyncClient) -> None:
        def post(document: dict[str, str]) -> Awaitable[httpx.Response]:
            return client.post("/v1/enrolments", json=document)

        answers = [await post(one) for one in wrong[:100]]
        assert [answer.status_code for answer in answers] == [403] * 60 + [429] * 40
        assert answers[-1].headers["Retry-After"]
        assert (await post(right(0))).status_code == 201
        among = [*wrong[:320], right(1), *wrong[320:], right(2)]
        answers = await asyncio.gather(*map(post, among))
        assert [answers[320].status_code, answers[-1].status_code] == [201, 201]
        others = answers[:320] + answers[321:-1]
        assert {answer.status_code for answer in others} == {429}

    talk(world, work)
    assert world.counters()["enrolments"] == 3


def handed(world: "World", *pairs: tuple[str, bytes]) -> dict[str, Any]:
    """Return the request of a gateway."""
    return {
        "url": "/v1/reports",
        "content": cbor.encode(
            [[handle_of(credential), frame_of(wire, credential)] for credential, wire in pairs]
        ),
        "headers": {"Content-Type": "application/cbor"},
    }


def replies(answer: httpx.Response) -> Any:
    """Return the outcomes that a gateway is told."""
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/cbor")
    return cbor.decode(answer.content, max_size=1 << 20)


def test_a_minority_is_refused_by_name_and_counted(world: "World") -> None:
    """Alone and through a gateway; the operator finds how many there were, and nobody's name."""
    world.upload_time(100)
    wires = [world.seal(100, keyset=2), world.seal(100)]
    pairs = list(zip(world.credentials[1:], wires, strict=False))

    async def work(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(**report(world, wires[0])), 409, "other-keyset")
        answers = replies(await client.post(**handed(world, *pairs)))
        assert answers == [{"status": 409, "problem": "other-keyset"}, {"status": 201}]

    talk(world, work)
    assert world.counters()["problem_other_keyset"] == 2
    assert world.rows("SELECT keyset, reports FROM other_keyset") == [(0, 2)]
    assert world.rows("SELECT COUNT(*) FROM report") == [(1,)]


def test_a_gateway_speaks_for_several_devices(world: "World") -> None:
    """Each report has its own outcome, all share one commit, and a bad one disturbs nobody."""
    world.upload_time(100)
    wires = [world.seal(100) for _ in world.credentials]
    first, second, third, fourth = world.credentials
    pairs = [
        (first, wires[0]),
        (first, wires[0]),
        (second, wires[1][:-1]),
        ("0" * 16 + ".x", wires[1]),
        ("?", wires[1]),
        (third, world.seal(99)),
        (third, world.seal(101)),
        (third, world.seal(100, shuffler="unknown")),
        (third, wires[2]),
        (third, wires[3]),
        (second, wires[1]),
    ]

    async def work(client: httpx.AsyncClient) -> None:
        assert replies(await client.post(**handed(world, *pairs))) == [
            {"status": 201},
            {"status": 200},
            {"status": 400, "problem": "bad-report"},
            {"status": 403, "problem": "not-enrolled"},
            {"status": 403, "problem": "not-enrolled"},
            {"status": 410, "problem": "round-closed"},
            {"status": 409, "problem": "round-not-open"},
            {"status": 409, "problem": "outdated-config"},
            {"status": 201},
            {"status": 200},
            {"status": 201},
        ]
        assert world.counters()["commits"] == 1
        assert world.counters()["problem_not_enrolled"] == 2
        # The same bytes alone are a retry of what the gateway brought.
        assert (await client.post(**report(world, wires[1], device=1))).status_code == 200
        assert replies(await client.post(**handed(world, (fourth, wires[3])))) == [{"status": 201}]

    talk(world, work)
    stored = {device: bytes(wire) for device, wire in world.rows("SELECT device, wire FROM report")}
    assert stored == dict(zip(world.devices, wires, strict=True))


def test_a_gateway_learns_what_to_send_again(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rate limits and a disk that is full are told for each report, with the time to wait."""
    world.upload_time(100)
    first, second = ((world.credentials[place], world.seal(100)) for place in (0, 1))

    async def work(client: httpx.AsyncClient) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("rase.shuffler.report_handler.store_reports", _fail)
            assert (
                replies(await client.post(**handed(world, first, second)))
                == [{"status": 503, "problem": "unavailable", "retry_after_s": 5}] * 2
            )
        told = replies(await client.post(**handed(world, first, first, second)))
        assert told[0] == {"status": 201}
        assert told[2] == {"status": 201}
        assert (told[1]["status"], told[1]["problem"]) == (429, "too-many")
        assert 1 <= told[1]["retry_after_s"] <= 61

    talk(world, work, reports_per_minute=2)


@pytest.mark.any_store
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        cbor.encode({}),
        cbor.encode([]),
        cbor.encode(["credential", b"report"]),
        cbor.encode([["credential", b"report"], ["credential"]]),
        cbor.encode([["credential", b"report"], [b"credential", b"report"]]),
        cbor.encode([["credential", b"report"]]) + b"\x00",
        cbor.encode([["credential", b"report"]] * 4),
        bytes(10_000),
    ],
)
def test_a_malformed_array_is_one_problem(world: "World", content: bytes) -> None:
    """Nothing of it is taken, whatever else it holds."""

    async def work(client: httpx.AsyncClient) -> None:
        headers = {"Content-Type": "application/cbor"}
        answer = await client.post("/v1/reports", content=content, headers=headers)
        check_problem(answer, 400, "bad-report")

    talk(world, work, gateway_reports=3)
    assert world.counters()["problem_bad_report"] == 1
    assert "commits" not in world.counters()


def test_a_gateway_meets_no_hidden_failure() -> None:
    """What is no refusal is not turned into one."""
    with pytest.raises(ConfigurationError):
        reply_to(ConfigurationError(["ours."]))


def test_documents_are_served_with_etags(world: "World") -> None:
    """Devices fetch what both servers signed, once: then 304 until it changes."""

    async def work(client: httpx.AsyncClient) -> None:
        for path, kind in (("/v1/campaigns/homes", SignedCampaign), ("/v1/keyset", SignedKeyset)):
            answer = await client.get(path)
            assert answer.headers["Content-Type"] == "application/cbor"
            assert answer.headers["Cache-Control"] == "max-age=3600"
            kind.from_bytes(answer.content, world.pinned)
            etag = answer.headers["ETag"]
            again = await client.get(path, headers={"If-None-Match": etag})
            assert (again.status_code, again.content) == (304, b"")
        check_problem(await client.get("/v1/campaigns/nobody"), 404, "unknown-campaign")

    talk(world, work)


def test_devices_fetch_every_version_that_still_matters(world: "World") -> None:
    """From the one whose round is not closed to the newest, with an ETag that follows them."""
    for version in (2, 3):
        following = world.campaign_of(version=version, not_before=100 + version)
        world.countersigner.campaign(world.proposal_of(following), now_s=world.clock.now_s())

    async def work(client: httpx.AsyncClient) -> None:
        seen, etags = [], []
        # Version 1 holds up to round 101, version 2 in round 102 alone.
        for time_s in (
            world.campaign.closes_s(101) - 1,
            world.campaign.closes_s(101),
            world.campaign.closes_s(102),
            world.campaign.closes_s(10**6),
        ):
            world.clock.jump(time_s - world.clock.now_s())
            answer = await client.get("/v1/campaigns/homes/versions")
            assert answer.headers["Cache-Control"] == "max-age=3600"
            etags.append(answer.headers["ETag"])
            again = await client.get(
                "/v1/campaigns/homes/versions", headers={"If-None-Match": etags[-1]}
            )
            assert (again.status_code, again.content) == (304, b"")
            seen.append(
                [
                    SignedCampaign.from_bytes(item, world.pinned).campaign.version
                    for item in versions_from_bytes(answer.content)
                ]
            )
        assert seen == [[1, 2, 3], [2, 3], [3], [3]]
        assert len(set(etags)) == 3
        nobody = await client.get("/v1/campaigns/nobody/versions")
        check_problem(nobody, 404, "unknown-campaign")

    talk(world, work)


def test_countersigning_over_http(world: "World") -> None:
    """A proposal gets the shuffler's signature, 201 then 200, or a reason why not."""
    second = world.campaign_of(version=2, not_before=200)
    keyset = world.keyset_of(2)

    async def work(client: httpx.AsyncClient) -> None:
        for path, document in (("/v1/campaigns/homes/2", second), ("/v1/keyset", keyset)):
            for status in (201, 200):
                answer = await client.put(path, content=world.proposal_of(document))
                assert (answer.status_code, len(answer.content)) == (status, 64)
        served = SignedCampaign.from_bytes(
            (await client.get("/v1/campaigns/homes")).content, world.pinned
        )
        assert served.campaign == second
        weak = world.campaign_of(id="weak", k_min=2)
        refused = await client.put("/v1/campaigns/weak/1", content=world.proposal_of(weak))
        check_problem(refused, 403, "policy-refused")
        assert "k_min" in refused.json()["detail"]
        moved = await client.put("/v1/campaigns/homes/3", content=world.proposal_of(second))
        check_problem(moved, 400, "bad-report")
        check_problem(await client.put("/v1/keyset", content=b"?"), 400, "bad-report")
        assert (await client.put("/v1/keyset", content=bytes(300_000))).status_code == 413

    talk(world, work)


def test_health_and_readiness(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Alive is always; ready is with keys and a database that answers."""

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz")).text == "ok\n"
        assert (await client.get("/readyz")).status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(type(world.database), "snapshot", _fail)
            assert (await client.get("/readyz")).status_code == 503
        missing = await client.get("/nowhere")
        assert (missing.status_code, missing.json()["title"]) == (404, "Not Found")

    talk(world, work)


def test_before_the_first_keyset(world: "World") -> None:
    """Without keys the shuffler is alive but not ready, and says that there are none."""
    with world.database.transaction() as transaction:
        transaction.execute("DELETE FROM keyset")

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/v1/keyset")).status_code == 404
        campaign = await client.get("/v1/campaigns/homes")
        assert campaign.headers["Cache-Control"] == "max-age=60"

    talk(world, work)


def test_what_a_device_knows_first_is_looked_up(world: "World") -> None:
    """A report of a campaign that another process agreed to just now is taken, not refused."""
    other = world.campaign_of(id="flats")
    world.upload_time(100)

    async def work(client: httpx.AsyncClient) -> None:
        world.countersigner.campaign(world.proposal_of(other), now_s=world.clock.now_s() - 1000)
        sent = report(world, world.seal(100, campaign=other))
        assert (await client.post(**sent)).status_code == 201

    talk(world, work)


def test_what_others_countersign_is_noticed(
    world: "World", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The intake looks again from time to time, and goes on if it cannot."""
    monkeypatch.setattr("rase.shuffler.report_handler._REFRESH_S", 0.005)

    async def work(client: httpx.AsyncClient) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("rase.shuffler.report_handler.load_documents", _fail)
            while "refresh_failed" not in capsys.readouterr().err:
                await asyncio.sleep(0.005)
        world.countersigner.campaign(
            world.proposal_of(world.campaign_of(id="later")), now_s=world.clock.now_s()
        )
        while (await client.get("/v1/campaigns/later")).status_code != 200:
            await asyncio.sleep(0.005)

    talk(world, work)


def test_what_was_agreed_is_read_by_one_at_a_time(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read earlier never takes the place of what was read later."""
    handler = ReportHandler(
        world.database,
        world.clock,
        pinned=world.pinned,
        telemetry=world.telemetry,
        limits=LimitSettings(),
    )
    steps: list[str] = []
    is_reading, is_beside, may_end = (threading.Event() for _ in range(3))

    def slow(database: Database, pinned: PinnedKeys) -> Documents:
        steps.append("begin")
        (is_beside if is_reading.is_set() else is_reading).set()
        assert may_end.wait(PATIENCE_S)
        steps.append("end")
        return load_documents(database, pinned)

    monkeypatch.setattr("rase.shuffler.report_handler.load_documents", slow)
    threads = [threading.Thread(target=handler.refresh) for _ in range(2)]
    threads[0].start()
    assert is_reading.wait(PATIENCE_S)
    threads[1].start()
    # The second must not begin; where it could, it has this long to show it.
    is_beside.wait(0.1)
    may_end.set()
    for thread in threads:
        thread.join()
    assert steps == ["begin", "end", "begin", "end"]


def test_a_revoked_device_is_refused_by_a_running_intake(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intake looks from time to time, and then answers not-enrolled."""
    monkeypatch.setattr("rase.shuffler.report_handler._REFRESH_S", 0.005)
    world.upload_time(100)
    wire = world.seal(100)

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.post(**report(world, wire))).status_code == 201
        revoke_devices(world.database, [f"{world.devices[0]:016x}"])
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await client.post(**report(world, wire))).status_code != 403:
                await asyncio.sleep(0.005)
        check_problem(answer, 403, "not-enrolled")
        assert (await client.post(**report(world, wire, device=1))).status_code == 201

    talk(world, work, reports_per_minute=100_000)


_MEMBERS = ("token", "device_key", "proof")


def test_answers_hold_no_secret(world: "World") -> None:
    """No refusal repeats what was sent."""
    world.upload_time(100)

    async def work(client: httpx.AsyncClient) -> None:
        secret = "s3cret" * 4
        for answer in (
            await client.post("/v1/enrolments", json=dict.fromkeys(_MEMBERS, secret)),
            await client.post("/v1/enrolments", json={"token": [secret], "device_key": 1}),
            await client.post("/v1/enrolments", content=secret),
        ):
            assert answer.status_code >= 400
            assert secret not in answer.text
            json.loads(answer.text)

    talk(world, work)


def _fail(*arguments: object) -> None:
    raise StorageBusy("the disk is full.")


def test_metrics_tell_counts_and_no_device(world: "World") -> None:
    """/metrics counts reports, devices and rounds that wait, and names no device."""
    world.upload_time(100)

    async def work(client: httpx.AsyncClient) -> None:
        await client.post(**report(world, world.seal(100)))
        answer = await client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.split("\n")
        assert "rase_shuffler_reports_stored_total 1" in lines
        assert "rase_shuffler_devices 4" in lines
        assert "rase_shuffler_rounds_waiting 1" in lines
        assert not any(credential[:16] in answer.text for credential in world.credentials)

    talk(world, work)


def test_every_described_problem_can_happen(world: "World") -> None:
    """What the description names is answered; but for what any route answers that is not well."""
    SEEN.clear()
    world.upload_time(100)
    remove_members(world.database, "homes", world.devices[:1])
    wires = [world.seal(100, shuffler=name) for name in ("shuffler", "unknown")]
    other_round = [world.seal(99), world.seal(101), world.seal(100, keyset=2)]
    strange = world.seal(100, campaign=world.campaign_of(id="strange"))
    weak = world.campaign_of(id="weak", k_min=2)

    async def work(client: httpx.AsyncClient) -> None:
        for device, wire in enumerate((wires[0], wires[1], *other_round, strange, b"?", b"?")):
            await client.post(**report(world, wire, device=min(device, 1)))
        await client.post("/v1/reports", headers={"Content-Type": "text/plain"}, content=b"?")
        await client.post(**report(world, wires[0]) | {"headers": {}})
        await client.post(
            "/v1/reports", headers={"Content-Type": "application/rase-report"}, content=b"?"
        )
        (token,) = make_tokens(world.database, 1, expires_s=2**35)
        wrong = asked(token) | {"certificate": ""}
        for body in (wrong, wrong, {}, {"token": "x" * 5000}):
            await client.post("/v1/enrolments", json=body)
        await client.post("/v1/enrolments", headers={"Content-Type": JSON}, content=b"?")
        for path in ("/v1/campaigns/x", "/v1/campaigns/x/versions", "/v1/public-keys"):
            await client.get(path)
        key = key_of(campaign="flats")
        for path, content in (
            ("/v1/campaigns/weak/1", world.proposal_of(weak)),
            ("/v1/campaigns/weak/1", b"?"),
            ("/v1/campaigns/weak/1", bytes(300_000)),
            ("/v1/campaigns/weak/x", b"?"),
            ("/v1/keyset", world.proposal_of(world.keyset_of(2, cache_s=8 * 86400))),
            ("/v1/keyset", b"?"),
            ("/v1/keyset", bytes(300_000)),
            ("/v1/token-keys", token_proposal(key)),
            ("/v1/token-keys", token_proposal(key_of(reports=1000))),
            ("/v1/token-keys", b"?"),
            ("/v1/token-keys", bytes(300_000)),
        ):
            await client.put(path, content=content)

    app = talk(world, work, reports_per_minute=6, enrolments_per_minute=1)
    left = never_seen(app.openapi(), SEEN)
    passing = {f"urn:rase:problem:{name}" for name in ("unavailable", "unsigned", "too-many")}
    # The one waits for a closer in tests/shuffler/test_public_keys.py, the other for a keyset.
    assert {one for one in left if one[2] not in passing} == {
        ("PUT", "/v1/keyset", "urn:rase:problem:foreign-key"),
        ("GET", "/v1/keyset", "about:blank"),
    }
    assert not [one for one in left if one[0] == "POST" and one[2].endswith("too-many")]


def test_the_copy_of_the_description_is_current() -> None:
    """That of the docs is made from the routes, and is served."""
    assert (DOCS / "openapi-shuffler.json").read_text("utf-8") == description()
