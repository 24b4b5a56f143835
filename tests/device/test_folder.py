"""What lies on the device's disk."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.registering import certify
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, LedgerUnusable
from rase.device.enrolment import EnrolmentRefused, enrol
from rase.device.folder import DeviceFolder, FolderBusy
from rase.device.settings import settings_of
from rase.errors import ConfigurationError
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import MemoryTransport
from rase.wire.agreement import Agreement, Application, agree, is_proven
from rase.wire.frames import credential_key

KEY = "A" * 42 + "E"
SETTINGS = settings_of(
    {
        "device": {
            "shuffler": "http://localhost",
            "campaign": "power",
            "fusion_key": "A" * 43,
            "shuffler_key": KEY,
            "registrar": "https://registrar.example",
            "registrar_key": "B" * 42 + "E",
        },
        "owner": {"report_epsilon": 1, "span_epsilon": 24, "total_epsilon": 100},
        "source": {"kind": "stdin"},
    },
    {},
)


@pytest.fixture
def folder(tmp_path: Path) -> DeviceFolder:
    """A folder that was made."""
    made = DeviceFolder(tmp_path / "device")
    made.make()
    return made


TOKEN = "a1.words"  # noqa: S105 - of a test


class Server:
    """A shuffler that made a token, and answers as such."""

    def __init__(self, *before: Answer | Unreachable) -> None:
        self.told: list[Any] = []
        self._before = list(before)

    @property
    def transport(self) -> MemoryTransport:
        """The way to it."""
        return MemoryTransport(self._handle)

    def _handle(self, message: Any) -> Answer:
        self.told.append(json.loads(message.body))
        if self._before:
            answer = self._before.pop(0)
            if isinstance(answer, Unreachable):
                raise answer
            return answer
        told = dict(self.told[-1])
        assert len(told.pop("certificate")) == 86
        asked = Application(**told)
        token_key = credential_key("words")
        assert is_proven(asked, token_key)
        server_key, self.key = agree(asked, token_key)
        answered = Agreement.of("d-7", server_key=server_key, key=self.key)
        return Answer(201, json.dumps(answered._asdict()).encode())


def enrol_at(folder: DeviceFolder, token: str, transport: MemoryTransport) -> str:
    """Enrol a device that the registrar's operator approved."""
    registrar = MemoryTransport(certify)
    return enrol(folder, token, transport=transport, approval="b2.words", registrar=registrar)


def test_enrolment_makes_everything_for_the_owner_only(folder: DeviceFolder) -> None:
    """Key, credential, state and ledger have mode 600, the folder 700."""
    server = Server()
    assert enrol_at(folder, TOKEN, server.transport) == "d-7"
    assert next(iter(server.told[0].values())) == "a1"
    assert "words" not in str(server.told)
    assert (*server.told[0],) == ("token", "device_key", "proof", "certificate")
    assert len(server.told[0]["device_key"]) == 43
    assert folder.is_enrolled
    handle, _, secret = folder.credential().partition(".")
    assert (handle, credential_key(secret)) == ("d-7", server.key)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.path.iterdir()}
    assert modes == dict.fromkeys(["device.key", "credential", "state.json", "ledger.db"], 0o600)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigurationError, match="is enrolled already"):
        enrol_at(folder, TOKEN, server.transport)


def test_a_failed_enrolment_keeps_its_key(folder: DeviceFolder) -> None:
    """After silence the same key asks again, so that the shuffler knows it."""
    server = Server(Unreachable("gone."))
    with pytest.raises(Unreachable):
        enrol_at(folder, TOKEN, server.transport)
    assert not folder.is_enrolled
    enrol_at(folder, TOKEN, server.transport)
    assert server.told[0] == server.told[1]


def test_an_answer_by_who_has_no_token_is_not_believed(folder: DeviceFolder) -> None:
    """Whoever ends TLS can answer with a key of its own; the device keeps nothing of it."""
    of_proxy = Agreement.of("d-7", server_key=b"\x09" + bytes(31), key=bytes(32))
    server = Server(Answer(201, json.dumps(of_proxy._asdict()).encode()))
    with pytest.raises(EnrolmentRefused, match="nothing was kept"):
        enrol_at(folder, TOKEN, server.transport)
    assert not folder.is_enrolled


def test_what_is_no_token_is_not_sent(folder: DeviceFolder) -> None:
    """Half a token could be the secret half."""
    server = Server()
    with pytest.raises(ConfigurationError, match="rase shuffler enrol prints"):
        enrol_at(folder, "words", server.transport)
    assert server.told == []


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            Answer(403, b'{"type":"urn:rase:problem:not-enrolled"}'),
            EnrolmentRefused,
            "not-enrolled",
        ),
        (
            Answer(403, b'{"type":"urn:rase:problem:not-enrolled","detail":"ask for another."}'),
            EnrolmentRefused,
            r"refuses to enrol: ask for another \(not-enrolled\)",
        ),
        (
            Answer(403, b'{"type":"urn:rase:problem:not-enrolled","detail":"\\u001b[2J"}'),
            EnrolmentRefused,
            r"refuses to enrol: The sender is not enrolled \(not-enrolled\)",
        ),
        (Answer(500, b"oops"), EnrolmentRefused, "status 500"),
        (Answer(201, b"{}"), Unreachable, "cannot be read"),
        (Answer(201, b"["), Unreachable, "cannot be read"),
        (
            Answer(201, b'{"device":"d","server_key":"a b","proof":"x"}'),
            Unreachable,
            "cannot be read",
        ),
        (
            Answer(201, b'{"device":"d","server_key":"a\\nb","proof":"x"}'),
            Unreachable,
            "cannot be read",
        ),
        (Answer(201, b'{"device":1,"server_key":"ab","proof":"x"}'), Unreachable, "cannot be read"),
    ],
)
def test_refusals_and_nonsense_enrol_nobody(
    folder: DeviceFolder, answer: Answer, error: type[Exception], words: str
) -> None:
    """What the shuffler said is told by its name; nothing is kept but the key."""
    with pytest.raises(error, match=words):
        enrol_at(folder, TOKEN, Server(answer).transport)
    assert [path.name for path in folder.path.iterdir()] == ["device.key"]


def test_a_ledger_goes_on_counting_after_a_new_enrolment(folder: DeviceFolder) -> None:
    """Forgetting erases values, key and credential; the entry stays in the ledger."""
    enrol_at(folder, TOKEN, Server().transport)
    with folder.ledger(SETTINGS) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=24, window_epsilon=24))
        spend(ledger, "power", 7, epsilon=0.5, draw=b"noisy-value-4321")
    folder.pause()
    assert folder.is_paused
    folder.forget(SETTINGS)
    assert sorted(path.name for path in folder.path.iterdir()) == ["ledger.db", "lock"]
    assert b"noisy-value" not in folder.ledger_file.read_bytes()
    enrol_at(folder, TOKEN, Server().transport)
    # A lost credential alone: state and ledger stay as they are.
    folder.credential_file.unlink()
    enrol_at(folder, TOKEN, Server().transport)
    with folder.ledger(SETTINGS) as ledger:
        assert ledger.status(0).total_spent == 0.5
    folder.forget(SETTINGS)


def test_forgetting_before_enrolment_is_harmless(folder: DeviceFolder) -> None:
    """There is nothing to erase, and with an empty ledger nothing to close."""
    folder.forget(SETTINGS)
    folder.keep_enrolment("bearer")
    folder.forget(SETTINGS)
    assert not folder.credential_file.exists()


def test_sharing_is_what_the_owner_said(folder: DeviceFolder) -> None:
    """It is on unless said; what cannot be read is no yes; ending a pause switches nothing on."""
    assert not folder.is_off
    folder.keep_off_unless_said()
    assert folder.is_off
    folder.pause()
    folder.resume()
    assert folder.is_off
    folder.switch(is_on=True)
    folder.keep_off_unless_said()
    assert not folder.is_off
    assert folder.sharing_file.stat().st_mode & 0o077 == 0
    folder.sharing_file.write_bytes(b"\xff")
    assert folder.is_off


def test_one_agent_at_a_time(folder: DeviceFolder) -> None:
    """A second agent, or forgetting while one runs, is refused."""
    with folder.lock():
        with pytest.raises(FolderBusy, match="another agent works"), folder.lock():
            pass
        with pytest.raises(FolderBusy):
            folder.forget(SETTINGS)
    with folder.lock():
        pass


def test_pause_and_resume(folder: DeviceFolder) -> None:
    """Both may be said twice."""
    folder.pause()
    folder.pause()
    assert folder.is_paused
    folder.resume()
    folder.resume()
    assert not folder.is_paused


def test_files_that_are_damaged_or_open_are_refused(folder: DeviceFolder, tmp_path: Path) -> None:
    """The message names the file and the way out."""
    with pytest.raises(ConfigurationError, match="is not enrolled"):
        folder.credential()
    folder.keep_enrolment("bearer")
    folder.credential_file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        folder.credential()
    folder.key_file.write_text("short")
    folder.key_file.chmod(0o600)
    with pytest.raises(ConfigurationError, match=r"device.key is damaged"):
        folder.device_secret()
    folder.key_file.write_text("not base64 at all!=")
    with pytest.raises(ConfigurationError, match=r"device.key is damaged"):
        folder.device_secret()
    folder.ledger_file.write_bytes(b"nonsense" * 1000)
    with pytest.raises(LedgerUnusable):
        folder.ledger(SETTINGS)
    folder.path.chmod(0o755)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        folder.make()
    with pytest.raises(ConfigurationError, match="File exists"):
        DeviceFolder(folder.key_file).make()
