"""The page of tasks: each is one command or two, and they do what it says."""

import re
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.registering import REGISTRAR_SECRET

from rase.cli import main
from rase.registrar.devices import certify_list, known_devices
from rase.service.keyring import read_public_keys
from rase.shuffler.enrolment import enrolled_devices
from rase.storage.opening import open_database
from rase.storage.sqlite import open_sqlite

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

PAGE = (Path(__file__).parents[2] / "docs/guides/tasks.md").read_text("utf-8")
TASKS = {
    title: [line.strip() for line in text.splitlines() if line.startswith("    ")]
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |^Next)", PAGE, re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What rase init makes, in the folder in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "ours", "--range", "0", "10", "--epsilon", "1"]) == 0
    return tmp_path / "ours"


def typed(line: str, **changes: str) -> int:
    """Run a line of the page."""
    for old, new in changes.items():
        assert old in line
        line = line.replace(old, new)
    return main(shlex.split(line)[1:])


def test_each_task_is_one_command_or_two() -> None:
    """These tasks, with no step that is not a command."""
    assert list(TASKS) == [
        "Rotate all keys",
        "Revoke a stolen device",
        "Retry what was stuck",
        "Restore a server",
        "Move to PostgreSQL",
        "Add an intake",
    ]
    assert all(1 <= len(lines) <= 2 for lines in TASKS.values())


def test_keys_are_rotated_and_batches_retried(
    ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second key is there; publishing reaches for the shuffler; an empty outbox is no error."""
    rotate, publish = TASKS["Rotate all keys"]
    assert typed(rotate) == 0
    assert len(read_public_keys(ours / "fusion/public.json").configs) == 2
    # No server runs here: tests/live/test_rotation.py runs the same two commands with both.
    assert typed(publish) != 0
    assert "does not answer" in capsys.readouterr().err
    (retry,) = TASKS["Retry what was stuck"]
    assert typed(retry) == 0
    assert "0 sent again." in capsys.readouterr().err


def test_a_stolen_device_is_revoked_at_both(ours: Path) -> None:
    """It sends no more, and gets no more tokens."""
    shuffler, registrar = TASKS["Revoke a stolen device"]
    key = bytes.fromhex("00112233") + bytes(28)
    with closing(open_sqlite(ours / "shuffler/shuffler.db", migrations="shuffler")) as database:
        with database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO device (id, digest, device_key, group_name) VALUES (?, ?, ?, '')",
                (int("3f2a90c1d45b6e78", 16), b"digest", key),
            )
        assert typed(shuffler) == 0
        assert enrolled_devices(database) == []
    with closing(open_sqlite(ours / "registrar/registrar.db", migrations="registrar")) as database:
        certify_list(database, [key], secret=REGISTRAR_SECRET)
        assert typed(registrar) == 0
        assert [one.is_revoked for one in known_devices(database)] == [True]


def test_a_copy_is_put_back(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor finds the database in order."""
    copy, doctor = TASKS["Restore a server"]
    config = ours / "fusion/rase.toml"
    open_sqlite(ours / "fusion/fusion.db", migrations="fusion").close()
    assert main(["storage", "backup", "--config", str(config), "fusion-copy.db"]) == 0
    for file in ours.glob("fusion/fusion.db*"):
        file.unlink()
    _, source, target = shlex.split(copy)
    shutil.copy(source, target)
    typed(doctor)
    (line,) = [
        one
        for one in capsys.readouterr().out.splitlines()
        if "fusion: database:" in one and "shuffler" not in one
    ]
    assert line.startswith("ok")


def test_a_server_moves(ours: Path, postgres: "PostgresServer") -> None:
    """All tables are there."""
    (move,) = TASKS["Move to PostgreSQL"]
    open_sqlite(ours / "fusion/fusion.db", migrations="fusion").close()
    address = postgres.new_database()
    (ours / "address").write_text(address.url)
    changes = {"--to postgresql://rase_fusion@db.example/rase_fusion": "--to-file ours/address"}
    assert typed(move, **changes) == 0
    with (
        closing(open_database(address, migrations="fusion")) as database,
        database.snapshot() as transaction,
    ):
        assert transaction.execute("SELECT COUNT(*) FROM answers") == [(0,)]


def test_an_intake_is_added(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs by the same settings without the folder of private keys, at its own port."""
    (run,) = TASKS["Add an intake"]
    shutil.rmtree(ours / "shuffler/keys")
    ran: list[int] = []
    monkeypatch.setattr("rase.shuffler.program.serve", lambda *_, port, **__: ran.append(port))
    assert typed(run) == 0
    assert ran == [8711]
