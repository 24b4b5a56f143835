"""Each check tells one thing, how bad it is, and what to do."""

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rase.clock import FakeClock
from rase.service import doctor
from rase.service.doctor import Finding, Level
from rase.storage.sqlite import open_sqlite
from rase.wire.keys import KeyConfig, OpeningKey, Role, SigningKey
from rase.wire.private_files import write_private

NOW_S = 1_800_000_000
DAY_S = 86_400
KEY = OpeningKey.generate(Role.FUSION, 1)


class Disk(NamedTuple):
    """What shutil tells of a disk."""

    total: int
    used: int
    free: int


@pytest.fixture
def server() -> Iterator[str]:
    """A server that is well and lives at NOW_S, two seconds ahead."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200 if self.path == "/root/healthz" else 404)
            self.send_header("Date", formatdate(NOW_S + 2, usegmt=True))
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"ok\n")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def config(begin_s: int, end_s: int, key: OpeningKey = KEY) -> KeyConfig:
    """Return the public side of a key, used from and until some seconds from now."""
    return key.config(not_before_s=NOW_S + begin_s, not_after_s=NOW_S + end_s)


@pytest.mark.parametrize(
    ("off_s", "level"),
    [
        (0, Level.OK),
        (1, Level.OK),
        (-5, Level.OK),
        (6, Level.OK),
        (7, Level.WARNING),
        (-6, Level.WARNING),
        (-60, Level.WARNING),
        (62, Level.PROBLEM),
        (-3600, Level.PROBLEM),
    ],
)
def test_clocks_are_compared(off_s: int, level: Level) -> None:
    """Seconds are well, a minute is a warning, more a problem of the network's kind."""
    date = formatdate(NOW_S, usegmt=True)
    found = doctor.check_clock("here", Role.FUSION, date, now_s=NOW_S + off_s)
    assert found.level is level
    assert found.is_network
    assert level is Level.OK or "NTP" in found.text


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_server_without_time_is_told(date: str | None) -> None:
    """No Date header, or none that can be read, is a warning."""
    found = doctor.check_clock("here", Role.FUSION, date, now_s=NOW_S)
    assert found.level is Level.WARNING


def test_a_peer_that_answers_is_well(server: str) -> None:
    """Health and clock are told in two findings; a path before the root is kept."""
    found = doctor.check_peer("here", Role.SHUFFLER, f"{server}/root/", clock=FakeClock(NOW_S))
    assert [one.level for one in found] == [Level.OK, Level.OK]
    (found_elsewhere,) = doctor.check_peer("here", Role.SHUFFLER, server, clock=FakeClock(NOW_S))
    assert found_elsewhere.level is Level.PROBLEM
    assert "answers 404" in found_elsewhere.text


def test_a_peer_that_does_not_answer_is_a_network_problem(server: str) -> None:
    """Nobody there, somebody who speaks no TLS, and what is no address: told as it was typed."""
    tls = server.replace("http://", "https://")
    for url in ("http://127.0.0.1:1", tls, "http://[no-address", "http://host:port"):
        (found,) = doctor.check_peer("here", Role.SHUFFLER, url, clock=FakeClock(NOW_S))
        assert (found.level, found.is_network) == (Level.PROBLEM, True)
        assert url in found.text


def test_signing_keys_are_checked(tmp_path: Path) -> None:
    """Missing, open to others, of the other server: each a problem without a key."""
    path = tmp_path / "signing.key"
    assert doctor.check_signing_key("here", path, Role.FUSION)[1] is None
    key = SigningKey.generate(Role.FUSION)
    write_private(path, key.to_text())
    assert doctor.check_signing_key("here", path, Role.FUSION) == (
        Finding("here", "signing key", Level.OK, "signing.key is readable by you only."),
        key,
    )
    assert "of the fusion" in doctor.check_signing_key("here", path, Role.SHUFFLER)[0].text
    path.chmod(0o644)
    found, none = doctor.check_signing_key("here", path, Role.FUSION)
    assert none is None
    assert "chmod 600" in found.text
    assert key.to_text().split()[1] not in found.text


def test_opening_keys_fit_what_was_told(tmp_path: Path) -> None:
    """Every public key needs its private side; every private file must be one."""
    paths = [tmp_path / name for name in ("one", "again", "broken")]
    for path, text in zip(paths, (KEY.to_text(), KEY.to_text(), "x"), strict=True):
        write_private(path, text)
    told = [
        config(0, DAY_S),
        config(0, DAY_S, OpeningKey.generate(Role.FUSION, 2)),
    ]
    found = doctor.check_opening_keys("here", paths, told, role=Role.FUSION, now_s=NOW_S)
    assert [one.level for one in found] == [
        Level.PROBLEM,
        Level.PROBLEM,
        Level.OK,
        Level.PROBLEM,
    ]
    assert "of another key" in found[0].text
    assert "key 2 is public, but" in found[3].text
    other = config(0, DAY_S, OpeningKey.generate(Role.FUSION, 1))
    (wrong,) = doctor.check_opening_keys("here", paths[:1], [other], role=Role.FUSION, now_s=NOW_S)
    assert "not the private side" in wrong.text


@pytest.mark.parametrize(
    ("times", "level"),
    [
        ([(-DAY_S, 100 * DAY_S)], Level.OK),
        ([(-DAY_S, 3 * DAY_S)], Level.WARNING),
        ([(-DAY_S, 3 * DAY_S), (2 * DAY_S, 100 * DAY_S)], Level.OK),
        ([(-DAY_S, 3 * DAY_S), (4 * DAY_S, 100 * DAY_S)], Level.WARNING),
        ([(-DAY_S, -1)], Level.PROBLEM),
        ([(1, DAY_S)], Level.PROBLEM),
        ([], Level.PROBLEM),
    ],
)
def test_keys_must_not_run_out(times: list[tuple[int, int]], level: Level) -> None:
    """Keys that follow one another count together; a gap, an end soon, or none is told."""
    configs = [config(begin_s, end_s) for begin_s, end_s in times]
    found = doctor.check_configs("here", configs, role=Role.FUSION, now_s=NOW_S)
    assert found.level is level


def test_pins_are_compared() -> None:
    """Another key than the pinned one is a problem."""
    assert doctor.check_pin("here", Role.FUSION, b"a", b"a").level is Level.OK
    assert doctor.check_pin("here", Role.FUSION, b"a", b"b").level is Level.PROBLEM


def test_databases_are_checked_without_touching_them(tmp_path: Path) -> None:
    """A missing one is not made, a whole one is named with its version."""
    path = tmp_path / "fusion.db"
    assert doctor.check_database("here", path, role="fusion").level is Level.WARNING
    assert not path.exists()
    open_sqlite(path, migrations="fusion").close()
    found = doctor.check_database("here", path, role="fusion")
    assert found.level is Level.OK
    assert "version" in found.text
    assert (
        "not a database of the shuffler"
        in doctor.check_database("here", path, role="shuffler").text
    )
    assert doctor.check_database("here", path).text == "fusion.db is whole."
    path.chmod(0o644)
    assert "chmod 600" in doctor.check_database("here", path, role="fusion").text


@pytest.mark.parametrize(
    ("version", "level", "text"),
    [(0, Level.OK, "the server brings it to"), (999, Level.PROBLEM, "install the newer")],
)
def test_forms_of_other_releases_are_told(
    version: int, level: Level, text: str, tmp_path: Path
) -> None:
    """An older form is brought forward by the server, a newer one needs the newer release."""
    path = tmp_path / "fusion.db"
    open_sqlite(path, migrations="fusion").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE schema_version SET version = ?", (version,))
    found = doctor.check_database("here", path, role="fusion")
    assert found.level is level
    assert text in found.text


def test_damaged_databases_are_told(tmp_path: Path) -> None:
    """A foreign file, one with damaged pages and an empty one are problems."""
    path = tmp_path / "fusion.db"
    path.touch(0o600)
    assert "not a database" in doctor.check_database("here", path, role="fusion").text
    path.write_bytes(b"this is something else, and rather long" * 100)
    assert "cannot be read" in doctor.check_database("here", path, role="fusion").text
    path.unlink()
    open_sqlite(path, migrations="fusion").close()
    data = bytearray(path.read_bytes())
    data[5000 : len(data) - 4096] = b"\x99" * (len(data) - 4096 - 5000)
    path.write_bytes(data)
    assert doctor.check_database("here", path, role="fusion").level is Level.PROBLEM


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 20, Level.PROBLEM), (1 << 29, Level.WARNING), (1 << 40, Level.OK)]
)
def test_disk_space_is_told(
    free: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little space is a warning, almost none a problem."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(1 << 41, 0, free))
    assert doctor.check_disk("here", tmp_path).level is level


def test_exit_codes_say_whose_problem_it_is() -> None:
    """Files go before the network; warnings are no problem."""
    warning = Finding("here", "disk", Level.WARNING, "soon")
    network = Finding("here", "peer", Level.PROBLEM, "away", is_network=True)
    settings = Finding("here", "settings", Level.PROBLEM, "wrong")
    assert doctor.exit_code_of([warning]) == 0
    assert doctor.exit_code_of([warning, network]) == 4
    assert doctor.exit_code_of([network, settings]) == 3
