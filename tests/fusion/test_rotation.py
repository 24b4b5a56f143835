"""Automatic rotation: due in time, one step after the other, whatever fails or dies in between."""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rase.cli import main
from rase.clock import FakeClock, SystemClock
from rase.errors import ConfigurationError, RaseError
from rase.fusion.rotation import KeyPublication
from rase.fusion.settings import FusionSettings
from rase.service.keyring import read_keyset, read_public_keys
from rase.service.rotation import KeyRotation
from rase.service.settings import load_settings
from rase.service.telemetry import Telemetry
from rase.shuffler.documents import lead_mistakes
from rase.wire.key_schedule import limit_mistakes
from rase.wire.keys import Keyset, Role

DAY_S = 86_400
NOW_S = 1_800_000_000


class Server:
    """A fusion centre's folder, its clock, and what was published."""

    def __init__(self, folder: Path, *, every_s: int = 30 * DAY_S) -> None:
        self.folder = folder
        self.clock = FakeClock(NOW_S)
        self.published: list[Keyset] = []
        self.agreed: list[tuple[Keyset, int | None]] = []
        self.refusal: Exception | None = None
        self.log = io.StringIO()
        self.every_s = every_s
        self.rotation = self.started()

    def started(self) -> KeyRotation:
        """Return the rotation of a process that starts."""
        telemetry = Telemetry("fusion", stream=self.log)
        return KeyRotation(
            self.folder,
            role=Role.FUSION,
            every_s=self.every_s,
            files=lambda: (
                load_settings(
                    FusionSettings, "fusion", path=self.folder / "rase.toml", environment={}
                ).opening_key_files
            ),
            published=lambda: self.published[-1] if self.published else None,
            offer=KeyPublication(
                folder=self.folder,
                check_held=self.check,
                publish=self.publish,
                telemetry=telemetry,
            ),
            clock=self.clock,
            telemetry=telemetry,
        )

    def check(self, keyset: Keyset) -> None:
        """Refuse as a process that has not read the key, if the test says so."""
        if self.refusal is not None:
            raise self.refusal

    def publish(self, keyset: Keyset) -> None:
        """Take a keyset as the shuffler does."""
        now_s = self.clock.now_s()
        assert limit_mistakes(keyset, now_s=now_s) == []
        assert lead_mistakes(keyset, self.agreed, now_s=now_s) == []
        self.agreed.insert(0, (keyset, int(now_s)))
        self.published.append(keyset)

    def pass_time(self, seconds: float, *, step_s: float = DAY_S / 4) -> None:
        """Let time pass, with a look now and then."""
        end_s = self.clock.now_s() + seconds
        while self.clock.now_s() < end_s:
            self.clock.advance(step_s)
            # A second look shortly afterwards, as a running server takes every ten seconds.
            for _ in range(2):
                self.rotation.step()
                self.clock.advance(11)


@pytest.fixture
def server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Server:
    """An installation, whose first keyset is published."""
    monkeypatch.setattr(SystemClock, "now_s", lambda clock: float(NOW_S))
    assert main(["init", str(tmp_path / "x"), "--range", "0", "1", "--epsilon", "1"]) == 0
    made = Server(tmp_path / "x/fusion")
    made.published = [read_keyset(made.folder / "keyset.json")]
    made.agreed = [(made.published[0], NOW_S)]
    return made


def test_a_year_of_keys(server: Server) -> None:
    """A key a month, agreed in time by the shuffler's rules, and one in use at every moment."""
    server.pass_time(400 * DAY_S)
    assert len(server.published) == 1 + 13
    begins = sorted(
        {
            config.not_before_s
            for keyset in server.published
            for config in keyset.configs
            if config.role is Role.FUSION
        }
    )
    assert all(abs(b - a - server.every_s) <= DAY_S for a, b in pairwise(begins[1:]))
    for day in range(400):
        moment_s = NOW_S + day * DAY_S
        known = [one for one, agreed_s in server.agreed if (agreed_s or 0) <= moment_s]
        assert known[0].active(Role.FUSION, now_s=float(moment_s)).not_before_s <= moment_s
    assert "rotation_failed" not in server.log.getvalue()


def test_nothing_is_published_that_is_not_held(server: Server) -> None:
    """It is tried again; a process that dies meanwhile goes on where it was."""
    server.refusal = RaseError("not held yet.")
    server.pass_time(29 * DAY_S)
    while "key_rotated" not in server.log.getvalue():
        server.pass_time(600, step_s=600)
    made = read_public_keys(server.folder / "public.json").configs
    assert len(server.published) == 1
    assert "rotation_failed" in server.log.getvalue()
    server.refusal = None
    server.rotation = server.started()
    server.pass_time(600, step_s=600)
    assert len(server.published) == 2
    assert set(made) <= set(server.published[-1].configs)


def test_a_key_that_waited_too_long_is_made_again(server: Server) -> None:
    """The shuffler refuses a key that begins too soon, so another takes its place."""
    server.refusal = RaseError("away.")
    server.pass_time(35 * DAY_S)
    server.refusal = None
    server.pass_time(DAY_S)
    assert len(server.published) == 2


def test_two_processes_do_not_rotate_at_once(server: Server, monkeypatch: Any) -> None:
    """One looks while the other is at it: nothing happens twice."""
    seen: list[int] = []
    step = KeyRotation._step

    def both(rotation: KeyRotation) -> None:
        other = server.started()
        seen.append(1)
        if len(seen) == 1:
            other.step()
        step(rotation)

    monkeypatch.setattr(KeyRotation, "_step", both)
    server.rotation.step()
    assert seen == [1]


def test_without_a_keyset_nothing_happens(server: Server) -> None:
    """The first keyset is the operator's to publish."""
    server.published = []
    server.pass_time(60 * DAY_S)
    assert read_keyset(server.folder / "keyset.json").version == 1


def test_a_folder_that_cannot_be_written_is_said(server: Server, monkeypatch: Any) -> None:
    """The server goes on, and its log says why no key was made."""

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("rase.service.rotation.rotate_opening_key", refuse)
    server.pass_time(40 * DAY_S)
    assert "Read-only file system" in server.log.getvalue()


def test_too_often_is_refused(server: Server) -> None:
    """A key lasts at least as long as it takes to change it."""
    with pytest.raises(ConfigurationError, match="three cache times, got 60"):
        Server(server.folder, every_s=60)
