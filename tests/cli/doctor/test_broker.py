"""``rase doctor`` at a real broker with the deployed files: rights, TLS, and what is kept there."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker import Mosquitto
from tests.cli.doctor.test_doctor import _campaign
from tests.patience import PATIENCE_S, until
from tests.shuffler.certificates import Authority

from rase.cli import main
from rase.device.folder import DeviceFolder
from rase.service.key_settings import read_signing_key
from rase.service.keyring import read_keyset
from rase.transport.session import BrokerSession
from rase.wire.frames import Policy, Topics, broker_password, credential_key, handle_of
from rase.wire.keys import Role
from rase.wire.signed import SignedCampaign, SignedKeyset, signature_of, versions_bytes

CREDENTIAL = "3f2a90c1d45b6e78.secret"
USERS = {
    "rase-shuffler": "hush",
    "rase-fusion": "hush",
    handle_of(CREDENTIAL): broker_password(credential_key("secret")),
}


@pytest.fixture(autouse=True)
def _at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for answers however long they take, and little where nothing may come."""
    for name, value in (("_RETAINED_S", 0.2), ("_RECONNECT_S", 0), ("_TIMEOUT_S", PATIENCE_S)):
        monkeypatch.setattr(f"rase.transport.probe.{name}", value)


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An installation without servers that run."""
    path = tmp_path / "installed"
    assert main(["init", str(path), "--range", "0", "1", "--epsilon", "1"]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """The broker as deploy/mosquitto has it, with a certificate of our own."""
    place = tmp_path / "broker"
    place.mkdir()
    certificate, _ = Authority(place, "ca").issue("server")
    certificate.rename(place / "server.crt")
    broker = Mosquitto(place, USERS, is_deployed=True)
    yield broker
    broker.kill()


def with_broker(folder: Path, role: str, mosquitto: Mosquitto, **changes: str) -> None:
    """Name the broker in a server's settings."""
    secret = folder / role / "broker-password"
    secret.touch(mode=0o600)
    secret.write_text("hush\n")
    values = {
        "url": mosquitto.broker().url,
        "user": f"rase-{role}",
        "password_file": "broker-password",
        "tls_ca_file": str(mosquitto.folder / "ca.pem"),
        **changes,
    }
    lines = [f'{key} = "{value}"' for key, value in values.items() if value]
    path = folder / role / "rase.toml"
    text = path.read_text().partition(f"[{role}.mqtt]")[0]
    path.write_text("\n".join([text, f"[{role}.mqtt]", *lines, ""]))


def broker_checks(place: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Return level and text of each check of a broker."""
    main(["doctor", str(place), "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return [(one["level"], one["text"]) for one in checks if "broker" in one["check"]]


def publish_policy(folder: Path, mosquitto: Mosquitto, *, is_forged: bool = False) -> None:
    """Keep the campaign at the broker, as the shuffler does."""
    keys = {role: read_signing_key(folder / role / "keys/signing.key", role=role) for role in Role}
    signers = [keys[Role.FUSION], keys[Role.FUSION if is_forged else Role.SHUFFLER]]
    campaign, keyset = _campaign(folder), read_keyset(folder / "fusion/keyset.json")
    version = SignedCampaign(campaign, *(signature_of(campaign, key) for key in signers))
    signed = SignedKeyset(keyset, *(signature_of(keyset, key) for key in signers))
    policy = Policy(versions_bytes([version.to_bytes()]), signed.to_bytes())
    session = BrokerSession(mosquitto.broker("rase-shuffler", "hush"), "shuffler")
    session.start()
    assert session.wait_up(PATIENCE_S)
    sent = session.publish(Topics(campaign.id).policy, policy.to_bytes(), is_retained=True)
    session.stop(sent)


def test_without_a_broker_nothing_is_said_of_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who reports over HTTP hears nothing of brokers."""
    assert broker_checks(folder, capsys) == []


def test_the_deployed_broker_is_well(
    folder: Path, mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both servers get in over TLS, may write what they must, and see the campaign once it is."""
    for role in ("shuffler", "fusion"):
        with_broker(folder, role, mosquitto)
    url = mosquitto.broker().url
    for role in ("shuffler", "fusion"):
        reached, rights, kept = broker_checks(folder / role, capsys)
        assert reached == ("ok", f"{url} lets us in as rase-{role} over TLS.")
        assert rights == ("ok", "it lets us write what we must, and no report.")
        assert kept[0] == "warning"
        assert "keeps no campaign" in kept[1]
    publish_policy(folder, mosquitto)

    def kept_at(role: str) -> tuple[str, str]:
        return broker_checks(folder / role, capsys)[2]

    # On a busy machine what is kept may come after the doctor has stopped waiting for it.
    signed = ("ok", "it keeps fleet, signed by both servers.")
    until(lambda: kept_at("shuffler") == signed)
    until(lambda: kept_at("fusion") == signed)
    publish_policy(folder, mosquitto, is_forged=True)
    until(lambda: kept_at("fusion")[0] == "problem")
    until(lambda: "rase/fleet/policy is not what both pinned keys signed" in kept_at("fusion")[1])


def test_rights_that_are_missing_or_too_many_are_told(
    folder: Path, mosquitto: Mosquitto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another server's user may not write our topics; an open broker lets anybody write reports."""
    with_broker(folder, "shuffler", mosquitto, user="rase-fusion")
    level, text = broker_checks(folder / "shuffler", capsys)[1]
    assert level == "problem"
    assert "does not let us write rase/+/shuffler/status, rase/+/policy, rase/+/answer/+;" in text
    free = Mosquitto(tmp_path / "open")
    try:
        nothing = dict.fromkeys(("user", "password_file", "tls_ca_file"), "")
        with_broker(folder, "fusion", free, **nothing)
        reached, (level, text), _ = broker_checks(folder / "fusion", capsys)
        assert reached == ("ok", f"{free.broker().url} lets us in, without TLS.")
        assert level == "warning"
        assert "lets us write rase/+/report/+, rase/+/policy, which is for others alone" in text
        nothing["tls_ca_file"] = str(mosquitto.folder / "ca.pem")
        url = free.broker().url.replace("mqtt:", "mqtts:")
        with_broker(folder, "fusion", free, url=url, **nothing)
        ((level, text),) = broker_checks(folder / "fusion", capsys)
        assert (level, "does not speak TLS as we do" in text) == ("problem", True)
    finally:
        free.kill()


def test_who_is_not_let_in_is_told_why(
    folder: Path,
    mosquitto: Mosquitto,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unknown user, a foreign certificate, no TLS, a broker that is away, a missing file."""
    port = mosquitto.port
    cases = {
        "refuses the user: Not authorized": {"user": "rase-nobody"},
        "certificate of mqtts://127.0.0.1": {"tls_ca_file": ""},
        "does not answer": {"url": "mqtts://127.0.0.1:1"},
        "none.pem: No such file": {"tls_ca_file": "none.pem"},
        "password_file": {"password_file": "none"},
        "as a broker with MQTT 5 does": {"url": f"mqtt://127.0.0.1:{port}", "tls_ca_file": ""},
        "must begin with mqtts://": {"url": "mqtt://broker.example"},
    }
    for words, changes in cases.items():
        with_broker(folder, "fusion", mosquitto, **changes)
        with monkeypatch.context() as patch:
            if "MQTT 5" in words:
                # No answer will ever come.
                patch.setattr("rase.transport.probe._TIMEOUT_S", 0.5)
            ((level, text),) = broker_checks(folder / "fusion", capsys)
        assert level == "problem"
        assert words in text, text
        assert "hush" not in text


def test_a_device_looks_for_its_campaign(
    folder: Path, mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once enrolled, it must get in with its own password and find what both servers signed."""
    place = folder / "device"
    path = place / "device.toml"
    broker = (
        f'[device]\nbroker = "{mosquitto.broker().url}"\ntimeout_s = 1\n'
        f'tls_ca_file = "{mosquitto.folder / "ca.pem"}"\n'
    )
    path.write_text(path.read_text().replace("[device]\n", broker))
    assert broker_checks(place, capsys) == []
    DeviceFolder(place).keep_enrolment(CREDENTIAL)

    def is_seen() -> bool:
        ((level, text),) = broker_checks(place, capsys)
        assert level == "problem"
        return "no campaign is published" in text

    # On a busy machine a second may be over before the broker has answered at all.
    until(is_seen)
    path.write_text(path.read_text().replace("timeout_s = 1", f"timeout_s = {PATIENCE_S}"))
    publish_policy(folder, mosquitto)
    ((level, text),) = broker_checks(place, capsys)
    assert (level, "keeps fleet, signed by both" in text) == ("ok", True)
    publish_policy(folder, mosquitto, is_forged=True)
    ((level, text),) = broker_checks(place, capsys)
    assert (level, "not signed by both pinned keys" in text) == ("problem", True)
    DeviceFolder(place).keep_enrolment("3f2a90c1d45b6e78.other")
    ((level, text),) = broker_checks(place, capsys)
    assert (level, "Not authorized" in text) == ("problem", True)
    path.write_text(path.read_text().replace("ca.pem", "none.pem"))
    ((level, text),) = broker_checks(place, capsys)
    assert (level, "none.pem" in text) == ("problem", True)


def test_the_broker_at_home_is_tried(
    folder: Path,
    mosquitto: Mosquitto,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is reached or not; a missing file or package is told, too."""
    path = folder / "device/device.toml"
    text = path.read_text()
    authority = f'tls_ca_file = "{mosquitto.folder / "ca.pem"}"\n'
    secret = folder / "device/home-password"
    secret.touch(mode=0o600)
    secret.write_text("hush\n")
    home = (
        f'\n[home]\nbroker = "{mosquitto.broker().url}"\nuser = "rase-fusion"\n'
        f'password_file = "home-password"\n{authority}'
    )
    path.write_text(text + home)
    ((level, found),) = broker_checks(folder / "device", capsys)
    assert (level, "lets us in as rase-fusion over TLS" in found) == ("ok", True)
    path.write_text(text + home.replace("rase-fusion", "nobody"))
    assert broker_checks(folder / "device", capsys)[0][0] == "problem"
    path.write_text(text + home.replace("home-password", "none"))
    assert "none" in broker_checks(folder / "device", capsys)[0][1]
    path.write_text(text + home)
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    ((level, found),) = broker_checks(folder / "device", capsys)
    assert (level, 'pip install "rase-iot[mqtt]"' in found) == ("problem", True)
    with_broker(folder, "fusion", mosquitto)
    assert "rase-iot[mqtt]" in broker_checks(folder / "fusion", capsys)[0][1]
