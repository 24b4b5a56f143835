"""Reports through a real mosquitto: stored before they are acknowledged, answered, never lost."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.broker import Mosquitto
from tests.patience import PATIENCE_S, until
from tests.shuffler.certificates import Authority

from rase.errors import ConfigurationError, StorageError
from rase.service.broker_settings import BrokerSettings
from rase.service.telemetry import Telemetry
from rase.shuffler.enrolment import Sender, broker_users, revoke_devices
from rase.shuffler.mqtt import MqttIntake, mqtt_intake
from rase.shuffler.report_handler import ReportHandler
from rase.shuffler.settings import LimitSettings
from rase.transport.broker import Broker
from rase.transport.interface import Unreachable
from rase.transport.mqtt import MqttTransport
from rase.transport.session import Arrived, BrokerSession
from rase.wire.frames import Topics, credential_key, handle_of, report_frame
from rase.wire.problems import Problem

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World

VERSIONS = "/v1/campaigns/homes/versions"
ROUND = 100


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that lets everybody do everything."""
    broker = Mosquitto(tmp_path / "broker")
    yield broker
    broker.kill()


def desk_of(world: "World", telemetry: Telemetry | None = None) -> ReportHandler:
    """Return what takes a world's reports in."""
    return ReportHandler(
        world.database,
        world.clock,
        pinned=world.pinned,
        telemetry=telemetry or world.telemetry,
        limits=LimitSettings(reports_per_minute=1000),
    )


@contextmanager
def intake(
    world: "World", broker: Broker, *, client_id: str = "one", handler: ReportHandler | None = None
) -> Iterator[Callable[[], None]]:
    """Run an intake in a thread of its own; yield what ends it without a farewell."""
    started, stop = threading.Event(), threading.Event()
    is_dying = threading.Event()

    async def run() -> None:
        served = handler or desk_of(world)
        taking = MqttIntake(
            served, broker, client_id=client_id, clock=world.clock, telemetry=world.telemetry
        )
        task = asyncio.create_task(taking.run())
        while not taking._session.is_up:
            await asyncio.sleep(0.01)
        started.set()
        while not stop.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        if is_dying.is_set():
            # Cut off without acknowledging anything more.
            taking._session._connection = -1
            taking._session.stop()
            return
        await taking.aclose()
        await served.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()

    def die() -> None:
        is_dying.set()
        stop.set()
        thread.join()

    try:
        assert started.wait(PATIENCE_S)
        yield die
    finally:
        stop.set()
        thread.join()


def device(world: "World", number: int, broker: Broker) -> MqttTransport:
    """Return the transport of a device."""
    return MqttTransport(broker, campaign="homes", credential=world.credentials[number])


def send(transport: MqttTransport, wire: bytes) -> tuple[int, str | None]:
    """Send a report; return status and problem."""
    answer = transport.post("/v1/reports", wire, content_type="application/rase-report")
    return answer.status, Problem.from_json(answer.body).type.name if answer.body else None


def test_a_report_goes_through_the_broker(world: "World", mosquitto: Mosquitto) -> None:
    """Campaign and keys are fetched, a report is stored, a retry is known, all by one broker."""
    world.upload_time(ROUND)
    with intake(world, mosquitto.broker()):
        transport = device(world, 0, mosquitto.broker())
        versions = transport.get(VERSIONS)
        assert versions.status == 200
        assert versions.body == world.documents.published_bytes("homes", now_s=world.clock.now_s())
        keyset = transport.get("/v1/keyset")
        assert keyset.body == world.documents.signed_keyset
        assert transport.get(VERSIONS, etag=versions.etag).status == 304
        assert transport.get("/v1/keyset", etag=keyset.etag).status == 304
        assert transport.get("/v1/other").status == 404
        assert transport.post("/v1/other", b"", content_type="").status == 404
        wire = world.seal(ROUND)
        assert send(transport, wire) == (201, None)
        assert send(transport, wire) == (200, None)
        assert send(transport, world.seal(ROUND)) == (200, None)
        assert world.rows("SELECT device, wire FROM report") == [(world.devices[0], wire)]


@pytest.mark.any_store
def test_problems_have_the_same_words(world: "World", mosquitto: Mosquitto) -> None:
    """Whatever is refused over HTTP is refused through a broker by the same name."""
    with intake(world, mosquitto.broker()):
        transport = device(world, 0, mosquitto.broker())
        assert send(transport, world.seal(ROUND)) == (409, "round-not-open")
        world.close_time(ROUND)
        assert send(transport, world.seal(ROUND)) == (410, "round-closed")
        assert send(transport, b"nonsense") == (400, "bad-report")
        outdated = world.seal(ROUND + 1, shuffler="unknown")
        world.upload_time(ROUND + 1)
        assert send(transport, outdated) == (409, "outdated-config")
        other = world.seal(ROUND, campaign=world.campaign_of(version=7))
        assert send(transport, other) == (404, "unknown-campaign")


@pytest.mark.any_store
def test_only_enrolled_devices_are_believed(world: "World", mosquitto: Mosquitto) -> None:
    """A frame with another device's tag, a revoked device and a strange name are not enrolled."""
    world.upload_time(ROUND)
    with intake(world, mosquitto.broker()):
        mine, other = world.credentials[:2]
        forged = handle_of(mine) + "." + other.partition(".")[2]
        transport = MqttTransport(mosquitto.broker(), campaign="homes", credential=forged)
        assert send(transport, world.seal(ROUND)) == (403, "not-enrolled")
        strange = MqttTransport(mosquitto.broker(), campaign="homes", credential="me.secret")
        assert send(strange, world.seal(ROUND)) == (403, "not-enrolled")
        late = world.enrolled()
        transport = MqttTransport(mosquitto.broker(), campaign="homes", credential=late)
        assert send(transport, world.seal(ROUND)) == (201, None)
    revoke_devices(world.database, [handle_of(mine)])
    with intake(world, mosquitto.broker()):
        gone = MqttTransport(mosquitto.broker(), campaign="homes", credential=mine)
        assert send(gone, world.seal(ROUND)) == (403, "not-enrolled")
    assert len(world.rows("SELECT * FROM report")) == 1


def test_what_arrives_while_the_intake_is_away_is_kept(
    world: "World", mosquitto: Mosquitto
) -> None:
    """The broker keeps reports for a session that is away, and over its own restart."""
    world.upload_time(ROUND)
    with intake(world, mosquitto.broker()):
        pass
    # As a device that sends and does not wait for the answer.
    hasty = BrokerSession(mosquitto.broker(), "hasty")
    hasty.start()
    assert hasty.wait_up(PATIENCE_S)
    handle, _, secret = world.credentials[0].partition(".")
    frame = report_frame(world.seal(ROUND), handle, credential_key(secret))
    hasty.publish(Topics("homes").report(handle), frame).wait_for_publish(PATIENCE_S)
    hasty.stop()
    assert world.rows("SELECT * FROM report") == []
    mosquitto.stop()
    mosquitto.start()
    with intake(world, mosquitto.broker()):
        until(lambda: len(world.rows("SELECT * FROM report")) == 1)


def test_a_full_disk_loses_nothing(
    world: "World", mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that cannot be stored is not acknowledged, and comes again by itself."""
    monkeypatch.setattr("rase.shuffler.mqtt._RETRY_S", 0.1)
    world.upload_time(ROUND)
    handler, failures = desk_of(world), [StorageError("full"), StorageError("full")]
    take = handler.take

    async def failing(sender: Sender) -> int:
        if failures:
            raise failures.pop()
        return await take(sender)

    monkeypatch.setattr(handler, "take", failing)
    with intake(world, mosquitto.broker(), handler=handler):
        transport = device(world, 0, mosquitto.broker())
        assert send(transport, world.seal(ROUND)) == (503, "unavailable")
        until(lambda: len(world.rows("SELECT * FROM report")) == 1)


@pytest.mark.uncovered
def test_intakes_share_the_load_and_a_dead_one_loses_nothing(
    make_world: "MakeWorld", mosquitto: Mosquitto
) -> None:
    """Two intakes take reports in; one dies, and every report still arrives once."""
    world = make_world(devices=60)
    world.upload_time(ROUND)
    wires = [world.seal(ROUND) for _ in world.credentials]
    telemetries = [Telemetry("shuffler"), Telemetry("shuffler")]

    def report(number: int) -> None:
        assert send(device(world, number, mosquitto.broker()), wires[number])[0] == 201

    def report_again(number: int) -> None:
        # The broker keeps some for the dead one; a device that is not answered sends again.
        transport = device(world, number, Broker(url=mosquitto.broker().url, timeout_s=0.3))
        until(lambda: is_answered(transport, number))

    def is_answered(transport: MqttTransport, number: int) -> bool:
        try:
            return send(transport, wires[number])[0] in (200, 201)
        except Unreachable:
            return False

    with (
        intake(world, mosquitto.broker(), client_id="a", handler=desk_of(world, telemetries[0])),
        intake(
            world, mosquitto.broker(), client_id="b", handler=desk_of(world, telemetries[1])
        ) as die,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(report, range(30)))
        stored = [one.counters()["rase_shuffler_reports_stored_total"] for one in telemetries]
        assert min(stored) > 0
        die()
        list(pool.map(report_again, range(30, 60)))
    assert len(world.rows("SELECT * FROM report")) == 60


@pytest.mark.uncovered
def test_a_broker_killed_under_load_loses_nothing_acknowledged(
    make_world: "MakeWorld", mosquitto: Mosquitto
) -> None:
    """Whoever was answered is stored, although the broker was killed twice; retries bring all."""
    world = make_world(devices=80)
    world.upload_time(ROUND)
    wires = [world.seal(ROUND) for _ in world.credentials]
    answered: list[int] = []

    def report(number: int) -> None:
        broker = Broker(url=mosquitto.broker().url, timeout_s=2)
        transport = device(world, number, broker)
        until(lambda: is_answered(transport, number))

    def is_answered(transport: MqttTransport, number: int) -> bool:
        try:
            assert send(transport, wires[number])[0] in (200, 201)
        except Unreachable:
            return False
        answered.append(number)
        return True

    with intake(world, mosquitto.broker()), ThreadPoolExecutor(8) as pool:
        running = [pool.submit(report, number) for number in range(80)]
        for count in (20, 50):
            until(lambda count=count: len(answered) >= count)  # type: ignore[misc]
            mosquitto.kill()
            known = {world.devices[number] for number in list(answered)}
            assert known <= {row[0] for row in world.rows("SELECT device FROM report")}
            mosquitto.start()
        for one in running:
            one.result(PATIENCE_S)
    assert len(world.rows("SELECT * FROM report")) == 80


@pytest.mark.any_store
def test_a_policy_changes_when_what_was_agreed_does(world: "World", mosquitto: Mosquitto) -> None:
    """A new version is published without a restart; an empty broker is told again."""
    handler = desk_of(world)
    with intake(world, mosquitto.broker(), handler=handler):
        transport = device(world, 0, mosquitto.broker())
        first = transport.get(VERSIONS).body
        following = world.campaign_of(version=2, not_before=ROUND + 10)
        world.countersigner.campaign(world.proposal_of(following), now_s=world.clock.now_s())
        handler.refresh()

        def is_new() -> bool:
            transport.get("/v1/keyset")
            return transport.get(VERSIONS).body != first

        until(is_new)


def test_settings_name_a_broker(tmp_path: Path) -> None:
    """Passwords come from files of their own, and a missing one is a mistake with a name."""
    secret = tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text("hush\n")
    settings = BrokerSettings(url="mqtts://b.example", user="rase-shuffler", password_file=secret)
    broker = Broker.of(settings)
    assert (broker.host, broker.port, broker.password) == ("b.example", 8883, "hush")
    assert "hush" not in repr(broker)
    missing = BrokerSettings(url="mqtts://b.example", password_file=tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"mqtt\.password_file"):
        Broker.of(missing)


@pytest.mark.any_store
def test_the_context_connects_and_says_farewell(world: "World", mosquitto: Mosquitto) -> None:
    """The shuffler's status is online while it runs and offline afterwards."""
    seen: list[bytes] = []
    ear = BrokerSession(
        mosquitto.broker(),
        "ear",
        subscriptions=[Topics("homes").status("shuffler")],
        on_message=lambda arrived: seen.append(arrived.payload),
    )
    ear.start()
    assert ear.wait_up(PATIENCE_S)

    async def run() -> None:
        settings = BrokerSettings(url=mosquitto.broker().url)
        handler = desk_of(world)
        async with mqtt_intake(handler, settings, clock=world.clock, telemetry=world.telemetry):
            while len(seen) < 1:
                await asyncio.sleep(0.01)
        await handler.aclose()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    until(lambda: len(seen) == 2)
    ear.stop()
    assert [b"online" in seen[0], b"offline" in seen[1]] == [True, True]


@pytest.mark.any_store
def test_a_message_that_fails_unexpectedly_is_told_by_kind_and_done_with(
    world: "World", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its device sends it again; it keeps no other message from coming, and no log quotes it."""
    acknowledged: list[Arrived] = []
    arrived = Arrived("rase/homes/report/3f2a90c1d45b6e78", b"s3cret", 1, 1)

    async def failing(name: str, frame: bytes) -> None:
        raise ZeroDivisionError(frame.decode())

    async def main() -> None:
        intake = MqttIntake(
            SimpleNamespace(take_frame=failing),  # type: ignore[arg-type]
            Broker(url="mqtt://localhost"),
            client_id="one",
            clock=world.clock,
            telemetry=Telemetry("shuffler"),
        )
        monkeypatch.setattr(intake._session, "acknowledge", acknowledged.append)
        await intake._take(arrived)

    asyncio.run(main())
    assert acknowledged == [arrived]
    told = capsys.readouterr().err
    assert "unexpected error=ZeroDivisionError" in told
    assert "s3cret" not in told


@pytest.mark.any_store
def test_the_deployed_acl_keeps_everybody_to_their_topics(world: "World", tmp_path: Path) -> None:
    """A device writes only its own topic and reads only the campaign; fusion sees no report."""
    folder = tmp_path / "broker"
    folder.mkdir()
    authority = Authority(folder, "ca")
    certificate, key = authority.issue("server")
    certificate.rename(folder / "server.crt")
    assert key == folder / "server.key"
    users = dict(broker_users(world.database))
    users |= dict.fromkeys(("rase-shuffler", "rase-fusion", "rase-reader"), "hush")
    mosquitto = Mosquitto(folder, users, is_deployed=True)
    handles = [handle_of(credential) for credential in world.credentials]
    topics = Topics("homes")
    everything = [
        topics.policy,
        topics.estimate,
        topics.window(24),
        topics.status("fusion"),
        topics.status("shuffler"),
        "homeassistant/device/homes/config",
        *(topics.report(handle) for handle in handles[:2]),
        *(topics.answer(handle) for handle in handles[:2]),
    ]
    got: dict[str, list[Arrived]] = {}
    refusals: list[str | None] = []
    sessions = {}
    try:
        for user in (handles[0], "rase-fusion", "rase-reader", "rase-shuffler"):
            got[user] = []
            sessions[user] = BrokerSession(
                mosquitto.broker(user, users[user]),
                f"id-{user}",
                subscriptions=["#", "rase/#", "$share/spies/rase/#", *everything],
                on_message=got[user].append,
            )
            sessions[user].start()
            assert sessions[user].wait_up(PATIENCE_S)
        for user in sessions:
            for topic in everything:
                # Each from a connection of its own: a denied one may be the connection's last.
                client = mosquitto.broker(user, users[user]).client(f"writes-{user}")
                client.connect("127.0.0.1", mosquitto.port)
                until(lambda client=client: client.loop(0.1) == 0 and client.is_connected())  # type: ignore[misc]
                sent = client.publish(topic, user.encode(), qos=1)
                until(lambda client=client, sent=sent: client.loop(0.1) != 0 or sent.is_published())  # type: ignore[misc]
                assert sent.is_published()
                client.disconnect()
        wrong = BrokerSession(mosquitto.broker(handles[1], "wrong"), "w", on_change=refusals.append)
        wrong.start()
        until(lambda: bool(refusals))
        wrong.stop()
        # A last message that everybody may read shows that all before it have arrived.
        sessions["rase-shuffler"].publish(topics.policy, b"end").wait_for_publish(PATIENCE_S)
        until(lambda: any(one.payload == b"end" for one in got[handles[0]]))
        until(lambda: any(one.payload == b"end" for one in got["rase-fusion"]))
    finally:
        for session in sessions.values():
            session.stop()
        mosquitto.kill()
    assert "Not authorized" in str(refusals[0])
    read = {user: {one.topic for one in messages} for user, messages in got.items()}
    written = {
        user: {one.topic for messages in got.values() for one in messages if one.payload == name}
        for user in got
        for name in [user.encode()]
    }
    assert read[handles[0]] == {topics.policy, topics.answer(handles[0])}
    assert written[handles[0]] <= {topics.report(handles[0])}
    assert read["rase-fusion"] == {topics.policy}
    assert not any("/report/" in topic for topic in read["rase-fusion"] | read["rase-reader"])
    assert read["rase-shuffler"] == {topics.report(handles[0]), topics.policy}
    assert written["rase-fusion"] == {
        topics.estimate,
        topics.window(24),
        topics.status("fusion"),
        "homeassistant/device/homes/config",
    }
    assert written["rase-reader"] == set()
    assert written["rase-shuffler"] == {
        topics.policy,
        topics.status("shuffler"),
        *(topics.answer(handle) for handle in handles[:1]),
    }
