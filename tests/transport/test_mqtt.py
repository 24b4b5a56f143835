"""A device's transport where the broker is away, refuses, or says nothing of use."""

import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.broker import Mosquitto
from tests.patience import PATIENCE_S, until

from rase.errors import ConfigurationError
from rase.transport.broker import Broker
from rase.transport.interface import Unreachable
from rase.transport.mqtt import MqttTransport
from rase.transport.session import BrokerSession
from rase.wire.frames import Reply, Topics, answer_frame, handle_of, report_id

CREDENTIAL = "3f2a90c1d45b6e78.secret"


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker that knows one user."""
    broker = Mosquitto(tmp_path / "broker", {"me": "right"})
    yield broker
    broker.kill()


def transport(
    mosquitto: Mosquitto, user: str, password: str, *, timeout_s: float = PATIENCE_S
) -> MqttTransport:
    """Return a transport; of little patience where nothing will come."""
    url = mosquitto.broker().url
    broker = Broker(url=url, user=user, password=password, timeout_s=timeout_s)
    return MqttTransport(broker, campaign="homes", credential=CREDENTIAL)


def reason_of(ask: Callable[[], object]) -> str:
    """Return why a question was not answered."""
    with pytest.raises(Unreachable) as caught:
        ask()
    return str(caught.value)


def test_a_broker_that_is_away_is_unreachable(mosquitto: Mosquitto) -> None:
    """Neither a refused connection nor a name that leads nowhere is more than that."""
    mosquitto.kill()
    with pytest.raises(Unreachable, match="does not answer: Connection refused"):
        transport(mosquitto, "me", "right").get("/v1/keyset")


def test_a_wrong_password_is_told(mosquitto: Mosquitto) -> None:
    """The broker's own words say why."""
    with pytest.raises(Unreachable, match="refuses: Not authorized"):
        transport(mosquitto, "me", "wrong").get("/v1/keyset")


def test_silence_is_unreachable(mosquitto: Mosquitto) -> None:
    """Without a campaign, or with nonsense in its place, there is no answer."""
    hasty = transport(mosquitto, "me", "right", timeout_s=0.3)
    # On a busy machine the time may be over before the broker itself has answered.
    until(lambda: "no campaign is published" in reason_of(partial(hasty.get, "/v1/keyset")))
    post = partial(hasty.post, "/v1/reports", b"report", content_type="")
    until(lambda: "the shuffler does not answer" in reason_of(post))
    session = BrokerSession(mosquitto.broker("me", "right"), "other")
    session.start()
    assert session.wait_up(PATIENCE_S)
    session.publish("rase/homes/policy", b"nonsense", is_retained=True).wait_for_publish(PATIENCE_S)
    session.stop()
    mine = transport(mosquitto, "me", "right")
    with pytest.raises(Unreachable, match="no policy of this protocol"):
        mine.get("/v1/keyset")


def test_a_session_is_up_when_reports_can_reach_it() -> None:
    """Not before the broker has subscribed it: what is sent to nobody, the broker drops."""
    reasons = list[str | None]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = Broker(url=f"mqtt://127.0.0.1:{listener.getsockname()[1]}")
        session = BrokerSession(
            broker, "server", subscriptions=["rase/a", "rase/b"], on_change=reasons.append
        )
        session.start()
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(bytes.fromhex("20 03 00 00 00"))
            asked = connection.recv(1024)
            assert all(topic in asked for topic in (b"rase/a", b"rase/b"))
            assert (session.is_up, reasons) == (False, [])
            connection.sendall(bytes.fromhex("90 05") + asked[2:4] + bytes.fromhex("00 01 01"))
            assert session.wait_up(PATIENCE_S)
            until(lambda: reasons == [None])
            session.stop()


def test_a_refused_subscription_is_told() -> None:
    """A server to which nothing will ever arrive says so, though it is connected."""
    reasons = list[str | None]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = Broker(url=f"mqtt://127.0.0.1:{listener.getsockname()[1]}")
        session = BrokerSession(
            broker, "server", subscriptions=["rase/#"], on_change=reasons.append
        )
        session.start()
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(bytes.fromhex("20 03 00 00 00"))
            number = connection.recv(1024)[2:4]
            connection.sendall(bytes.fromhex("90 04") + number + bytes.fromhex("00 87"))
            until(lambda: len(reasons) > 1)
            session.stop()
    assert reasons[:2] == [None, "the subscription is refused: Not authorized"]


def test_a_device_leaves_nothing_behind(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """No session, no retained message and no hardware address stay with the broker."""
    hasty = transport(mosquitto, "me", "right", timeout_s=0.3)
    post = partial(hasty.post, "/v1/reports", b"report", content_type="")
    until(lambda: "the shuffler does not answer" in reason_of(post))
    mosquitto.stop()
    kept = (tmp_path / "broker/mosquitto.db").read_bytes()
    assert b"report" not in kept
    assert b"3f2a90c1d45b6e78" not in kept


@pytest.mark.parametrize("asked_s", [10**400, -5])
def test_no_broker_makes_a_device_wait_for_ever(asked_s: int, mosquitto: Mosquitto) -> None:
    """That a device is not enrolled has no tag, so a broker could have written any number."""
    mine = transport(mosquitto, "me", "right")
    reply = Reply(403, "not-enrolled", asked_s)
    frame = answer_frame(report_id(b"report"), handle_of(CREDENTIAL), reply, None)
    session = BrokerSession(mosquitto.broker("me", "right"), "forger")
    session.start()
    assert session.wait_up(PATIENCE_S)
    answer = Topics("homes").answer(handle_of(CREDENTIAL))
    session.publish(answer, frame, is_retained=True).wait_for_publish(PATIENCE_S)
    session.stop()
    told = mine.post("/v1/reports", b"report", content_type="")
    assert told.status == 403
    assert told.retry_after_s == (3600 if asked_s > 0 else 0)


@pytest.mark.parametrize(
    "url", ["", "http://b", "mqtts://", "mqtts://b:x", "mqtts://b/path", "mqtts://b?x=1"]
)
def test_other_addresses_are_mistakes(url: str) -> None:
    """An address must be one of a broker."""
    with pytest.raises(ConfigurationError, match="a broker must be "):
        Broker(url=url)


def test_secrets_in_addresses_are_mistakes() -> None:
    """An address is shown in messages, so it may hold no password, and TLS is a must."""
    for url in ("mqtts://me:hush@b", "tcp://me:hush@b", "mqtts://me:hush@b/path"):
        with pytest.raises(ConfigurationError, match="must not hold a user or password") as refused:
            Broker(url=url)
        assert "hush" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="except on this machine"):
        Broker(url="mqtt://b.example")
    assert Broker(url="mqtt://b.example", insecure_mqtt=True).port == 1883


def test_a_session_comes_back_after_the_broker(mosquitto: Mosquitto) -> None:
    """A connection that is lost is made again; a wrong password is told, not raised."""
    changes: list[str | None] = []
    session = BrokerSession(mosquitto.broker("me", "right"), "one", on_change=changes.append)
    session.start()
    assert session.wait_up(PATIENCE_S)
    mosquitto.kill()
    until(lambda: not session.is_up)
    mosquitto.start()
    until(lambda: session.is_up)
    session.stop()
    assert changes[0] is None
    assert None in changes[2:]
    session = BrokerSession(mosquitto.broker("me", "wrong"), "one", on_change=changes.append)
    session.renew()
    session.start()
    until(lambda: "Not authorized" in changes)
    session.stop(session.publish("a", b"b"))
