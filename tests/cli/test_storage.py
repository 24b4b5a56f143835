"""``rase migrate`` and ``rase storage copy``: what they say, do and refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rase.cli import main
from rase.storage.migrate import migrate, migrations_of
from rase.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

Run = Callable[..., tuple[int, str, str]]
NEWEST = migrations_of("shuffler")[-1].number


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; return exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def config(tmp_path: Path, run: Run) -> Path:
    """Return the settings of a shuffler that has not run yet."""
    assert run("init", tmp_path / "i", "--range", 0, 10, "--epsilon", 1)[0] == 0
    return tmp_path / "i/shuffler/rase.toml"


def test_migrate_shows_then_applies(run: Run, config: Path) -> None:
    """A dry run changes nothing; the next run applies the steps; then there are none."""
    file = config.parent / "shuffler.db"
    code, out, _ = run("migrate", "--config", config, "--dry-run")
    assert (code, file.exists()) == (0, False)
    assert "version 0" in out
    assert "would apply 0001_initial.sql" in out
    database = SqliteDatabase(file)
    migrate(database, "shuffler", target=1)
    database.close()
    code, out, _ = run("migrate", "--config", config)
    assert (code, "version 1" in out, "applied 0002" in out) == (0, True, True)
    code, out, _ = run("migrate", "--config", config, "--json")
    (found,) = json.loads(out)["databases"]
    assert (found["version"], found["newest"], found["steps"]) == (NEWEST, NEWEST, [])
    assert "nothing to do" in run("migrate", "--config", config)[1]


def test_a_newer_database_is_refused(run: Run, config: Path) -> None:
    """Exit code 3, and what to do."""
    run("migrate", "--config", config)
    database = SqliteDatabase(config.parent / "shuffler.db")
    with database.transaction() as transaction:
        transaction.execute("UPDATE schema_version SET version = 999")
    database.close()
    code, _, err = run("migrate", "--config", config)
    assert (code, "Install the newer release" in err) == (3, True)


def test_settings_without_a_server_are_refused(run: Run, tmp_path: Path) -> None:
    """Missing, broken and foreign files are told in one line."""
    for text, words in [
        (None, "No such file"),
        ("a = [", "not TOML"),
        ("[device]", "[shuffler], [fusion] or [registrar]"),
    ]:
        path = tmp_path / "rase.toml"
        if text is not None:
            path.write_text(text)
        code, _, err = run("migrate", "--config", path)
        assert (code, words in err) == (3, True)


@pytest.mark.uncovered
def test_a_shuffler_moves_to_postgres(run: Run, config: Path, postgres: "PostgresServer") -> None:
    """Tokens made before are there after; the file is done with; doctor and migrate see both."""
    address = postgres.new_database()
    run("shuffler", "enrol", "--config", config, "--count", 3)
    secret = config.parent / "address"
    secret.write_text(f"{address.url}\n")
    code, out, err = run("storage", "copy", "--config", config, "--to-file", secret)
    assert (code, "shuffler enrolment_token: 3 rows" in out) == (0, True)
    password = address.url.split(":")[2].split("@")[0]
    assert password not in out + err
    code, _, err = run("shuffler", "devices", "--config", config)
    assert (code, "copied from here" in err) == (3, True)
    config.write_text(
        config.read_text().replace('database = "shuffler.db"', 'database_file = "address"')
    )
    code, out, _ = run("shuffler", "devices", "--config", config)
    assert (code, out) == (0, "")
    code, out, _ = run("migrate", "--config", config)
    assert (code, str(address) in out, password in out) == (0, True, False)
    code, out, err = run("doctor", config.parent)
    assert f"{address} answers, version {NEWEST}" in out + err
    copy = ("storage", "copy", "--config", config)
    code, _, err = run(*copy, "--to-file", config.parent / "address")
    assert (code, "must be a file" in err) == (3, True)


def test_copy_refuses_what_it_cannot_do(run: Run, config: Path) -> None:
    """No target, two targets, no PostgreSQL, and no file to copy."""
    copy = ("storage", "copy", "--config", config)
    assert run(*copy)[0] == 2
    assert run(*copy, "--to", "x", "--to-file", config)[0] == 2
    assert run(*copy, "--to", "mysql://h/d")[0] == 2
    code, _, err = run(*copy, "--to", "postgresql://h/d")
    assert (code, "a file that exists" in err) == (3, True)


def test_copy_in_json(run: Run, config: Path, postgres: "PostgresServer") -> None:
    """One document with a digest for each table."""
    run("migrate", "--config", config)
    target = postgres.new_database()
    named = config.parent / "target"
    named.write_text(target.url)
    code, out, _ = run("storage", "copy", "--config", config, "--to-file", named, "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "rase/storage-copy/1")
    assert document["target"] == str(target)
    assert {len(table["digest"]) for table in document["copied"][0]["tables"]} == {64}


def test_a_registrar_moves_to_postgres(
    run: Run, tmp_path: Path, postgres: "PostgresServer"
) -> None:
    """Migrate makes its tables; approvals made before are there after; its file is done with."""
    options = ("--range", 0, 10, "--epsilon", 1, "--registrar-url", "http://127.0.0.1:8704")
    assert run("init", tmp_path / "i", *options)[0] == 0
    config = tmp_path / "i/registrar/rase.toml"
    code, out, _ = run("migrate", "--config", config)
    assert (code, "registrar" in out, "applied 0001_first.sql" in out) == (0, True, True)
    run("registrar", "approve", "--config", config, "--count", 3)
    secret = config.parent / "address"
    secret.write_text(postgres.new_database().url)
    code, out, _ = run("storage", "copy", "--config", config, "--to-file", secret)
    assert (code, "registrar approval: 3 rows" in out) == (0, True)
    code, _, err = run("registrar", "devices", "--config", config)
    assert (code, "copied from here" in err) == (3, True)
    config.write_text(
        config.read_text().replace('database = "registrar.db"', 'database_file = "address"')
    )
    assert run("registrar", "devices", "--config", config)[0] == 0


def test_doctor_tells_of_a_database_that_does_not_answer(run: Run, config: Path) -> None:
    """A problem, with the address and without its password."""
    text = config.read_text().replace('"shuffler.db"', '"postgresql://u:p4ss@127.0.0.1:1/d"')
    config.write_text(text)
    code, out, err = run("doctor", config.parent)
    assert code != 0
    assert "postgresql://u@127.0.0.1:1/d does not answer" in out + err
    assert "p4ss" not in out + err
