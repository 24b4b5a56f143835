"""The page on backups is followed word by word, under the umask of most machines."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.programs import find

from rase.cli import main
from rase.registrar.devices import certify_list, known_devices
from rase.shuffler.enrolment import enrolled_devices, make_tokens
from rase.storage.opening import open_database
from rase.storage.sqlite import open_sqlite

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

PRIVATE = b"the private key of a window" * 60
PAGE = Path(__file__).parents[2] / "docs/guides/backup.md"


def test_the_copy_of_the_page_is_for_its_owner_only(tmp_path: Path) -> None:
    """Its command copies a database that is open; nobody else can read a file it leaves."""
    assert main(["init", str(tmp_path / "ours"), "--range", "0", "10", "--epsilon", "1"]) == 0
    fusion = tmp_path / "ours/fusion"
    with closing(open_sqlite(fusion / "fusion.db", migrations="fusion")) as database:
        with database.transaction():
            pass
        folder = followed(tmp_path, "fusion-copy.db\n", {"/etc/rase/fusion": str(fusion)})
    made = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert made == {"fusion-copy.db": 0o600}
    with closing(sqlite3.connect(folder / "fusion-copy.db")) as copied:
        tables = {name for (name,) in copied.execute("SELECT name FROM sqlite_master")}
    assert {"answers", "subscribers"} <= tables


def test_a_registrars_copy_is_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    """It knows the certified devices and no key of a window, and a registrar goes on with it."""
    own = tmp_path / "ours/registrar"
    options = ("--range", "0", "10", "--epsilon", "1")
    assert main(["init", str(tmp_path / "ours"), *options]) == 0
    with closing(open_sqlite(own / "registrar.db", migrations="registrar")) as database:
        certify_list(database, [bytes(32)], secret=bytes(32))
        with database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO token_key (campaign, first_round, last_round, issue_until_s, over_s, "
                "body, private) VALUES ('fleet', 1, 2, 3, 4, ?, ?)",
                (b"body", PRIVATE),
            )
        folder = followed(tmp_path, "registrar-copy.db", {"/etc/rase/registrar": str(own)})
    made = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert made == {"registrar-copy.db": 0o600}
    with closing(open_sqlite(folder / "registrar-copy.db", migrations="registrar")) as copied:
        assert [one.device_key for one in known_devices(copied)] == ["00" * 32]
        with copied.snapshot() as transaction:
            assert transaction.execute("SELECT body, private FROM token_key") == [(b"body", None)]
    assert PRIVATE in b"".join(path.read_bytes() for path in own.glob("registrar.db*"))
    assert PRIVATE not in (folder / "registrar-copy.db").read_bytes()


def test_settings_of_two_servers_are_not_guessed_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of the two is meant must be said; nothing is copied."""
    options = ("--range", "0", "10", "--epsilon", "1")
    assert main(["init", str(tmp_path / "ours"), *options]) == 0
    settings = tmp_path / "ours/fusion/rase.toml"
    own = (tmp_path / "ours/registrar/rase.toml").read_text("utf-8")
    settings.write_text(settings.read_text("utf-8") + own, "utf-8")
    assert main(["storage", "backup", "--config", str(settings), str(tmp_path / "x")]) == 3
    assert (
        "must have one of [fusion], [shuffler] and [registrar], got [fusion] and [registrar]"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.needs("pg_dump")
def test_the_dump_of_the_page_is_for_its_owner_only(
    postgres: "PostgresServer", tmp_path: Path
) -> None:
    """pg_dump writes a file of the same mode."""
    address = postgres.new_database()
    with closing(open_database(address, migrations="fusion")):
        pass
    changes = {"postgresql://rase_fusion@db.example/rase_fusion": f"'{address.url}'"}
    folder = followed(tmp_path, "pg_dump", changes)
    made = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert made == {"fusion-copy.dump": 0o600}


def test_a_shufflers_copy_says_who_may_send_and_not_who_sent(tmp_path: Path) -> None:
    """Devices are in it; reports, which name their senders, and enrolment tokens are not."""
    own = tmp_path / "ours/shuffler"
    assert main(["init", str(tmp_path / "ours"), "--range", "0", "10", "--epsilon", "1"]) == 0
    wire = b"a sealed report and its sender" * 9
    with closing(open_sqlite(own / "shuffler.db", migrations="shuffler")) as database:
        make_tokens(database, 3, expires_s=2**35)
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO report VALUES (1, 2, 3, ?)", (wire,))
            transaction.execute(
                "INSERT INTO device (id, digest, device_key, group_name) VALUES (2, ?, ?, '')",
                (b"digest", b"key"),
            )
        folder = followed(tmp_path, "shuffler-copy.db", {"/etc/rase/shuffler": str(own)})
    made = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert made == {"shuffler-copy.db": 0o600}
    with closing(open_sqlite(folder / "shuffler-copy.db", migrations="shuffler")) as copied:
        assert [one.device for one in enrolled_devices(copied)] == [f"{2:016x}"]
        with copied.snapshot() as transaction:
            assert transaction.execute("SELECT COUNT(*) FROM report") == [(0,)]
            assert transaction.execute("SELECT COUNT(*) FROM enrolment_token") == [(0,)]
    assert wire in b"".join(path.read_bytes() for path in own.glob("shuffler.db*"))
    assert wire not in (folder / "shuffler-copy.db").read_bytes()


def test_postgresql_has_a_tool_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command names it, and makes nothing."""
    assert main(["init", str(tmp_path / "ours"), "--range", "0", "10", "--epsilon", "1"]) == 0
    settings = tmp_path / "ours/fusion/rase.toml"
    text = settings.read_text("utf-8")
    settings.write_text(re.sub(r"(?m)^database = .*$", 'database = "postgresql://u@h/d"', text))
    assert main(["storage", "backup", "--config", str(settings), str(tmp_path / "x")]) == 3
    assert "use pg_dump" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def followed(tmp_path: Path, word: str, changes: dict[str, str]) -> Path:
    """Run the block of the page that has this word, in a folder of its own; return the folder."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (script,) = (block for block in blocks if word in block)
    for old, new in changes.items():
        assert old in script
        script = script.replace(old, new)
    folder = tmp_path / "copies"
    folder.mkdir()
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    if found := find("pg_dump"):
        places.append(str(Path(found).parent))
    subprocess.run(
        ["/bin/bash", "-e", "-c", f"umask 022\n{script}"],
        cwd=folder,
        env={**os.environ, "PATH": ":".join(places)},
        check=True,
    )
    return folder
