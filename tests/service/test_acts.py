"""What operators did stands in a log that is only added to, and whose changes are noticed."""

import getpass
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.enrolling import enrol_fleet
from tests.shuffler.test_outbox_command import SETTINGS

from rase.cli import main
from rase.clock import FakeClock
from rase.errors import StorageUnusable
from rase.fusion.subscribers import add_subscriber, revoke_subscriber
from rase.registrar.devices import certify_list, make_approvals, revoke_devices
from rase.service.acts import AUTOMATIC, Act, check_export, list_acts, record_act
from rase.shuffler import enrolment
from rase.storage.opening import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rase.storage.interface import Database


@pytest.fixture(params=["shuffler", "fusion", "registrar"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Database]":
    """The empty database of each server."""
    found = open_database(tmp_path / "state.db", migrations=request.param)
    yield found
    found.close()


def record(database: "Database", *subjects: str) -> list[Act]:
    """Record an act on each subject."""
    for place, subject in enumerate(subjects):
        with database.transaction() as transaction:
            record_act(transaction, "revoke device", subject, now_s=1000.9 + place, by="anna")
    return list_acts(database)


def test_lines_are_chained(database: "Database") -> None:
    """Lines are numbered from one, and each hash depends on all lines before it."""
    found = record(database, "a", "b", "b")
    assert [(one.number, one.time_s, one.subject, one.by) for one in found] == [
        *((1, 1000, "a", "anna"), (2, 1001, "b", "anna"), (3, 1002, "b", "anna"))
    ]
    assert len({one.hash for one in found}) == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE act SET subject = 'c' WHERE number = 1",
        "UPDATE act SET time_s = time_s + 1 WHERE number = 2",
        "UPDATE act SET done_by = 'ben' WHERE number = 2",
        "DELETE FROM act WHERE number = 1",
        "DELETE FROM act WHERE number = 2",
    ],
)
def test_a_changed_line_is_noticed(database: "Database", change: str) -> None:
    """Whoever changes or takes a line out of the middle breaks the chain."""
    record(database, "a", "b", "c")
    with database.transaction() as transaction:
        transaction.execute(change)
    with pytest.raises(StorageUnusable, match="is not the one that was written"):
        list_acts(database)


def test_an_export_shows_a_log_that_was_cut_or_written_again(database: "Database") -> None:
    """The end of a log can be cut off without a trace in it; an earlier export still tells."""
    exported = [asdict(one) for one in record(database, "a", "b", "c")]
    assert check_export(record(database, "d"), exported) == 1
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM act WHERE number >= 3")
    assert len(list_acts(database)) == 2
    with pytest.raises(StorageUnusable, match="line 3 of the export"):
        check_export(list_acts(database), exported)
    rewritten = record(database, "x", "d")
    with pytest.raises(StorageUnusable, match="line 3 of the export"):
        check_export(rewritten, exported)
    with pytest.raises(ValueError, match="number and hash"):
        check_export(rewritten, ["a line"])


def test_an_act_that_failed_is_not_recorded(tmp_path: Path) -> None:
    """The line and the act are one transaction: neither is there without the other."""
    database = open_database(tmp_path / "state.db", migrations="shuffler")
    enrol_fleet(database, [bytes(32)])
    with pytest.raises(ValueError, match="none was enrolled"):
        enrol_fleet(database, [bytes(32), bytes(31) + b"1"])
    with pytest.raises(LookupError):
        enrolment.revoke_devices(database, ["0" * 16])
    assert [(one.act, one.subject) for one in list_acts(database)] == [("enrol devices", "1")]
    database.close()


def test_acts_of_each_server_are_recorded(tmp_path: Path) -> None:
    """Admitting, approving, certifying, revoking and adding leave a line, without any secret."""
    shuffler = open_database(tmp_path / "shuffler.db", migrations="shuffler")
    tokens = enrolment.make_tokens(shuffler, 2, expires_s=10, group="north", owner="an owner")
    (enrolled,) = enrol_fleet(shuffler, [bytes(32)])
    enrolment.revoke_devices(shuffler, [enrolled.device])
    registrar = open_database(tmp_path / "registrar.db", migrations="registrar")
    approvals = make_approvals(registrar, 3, expires_s=10)
    certify_list(registrar, [bytes(32)], secret=bytes(32))
    revoke_devices(registrar, ["00"])
    fusion = open_database(tmp_path / "fusion.db", migrations="fusion")
    token = add_subscriber(fusion, "grafana", made_s=7, by="operator")
    revoke_subscriber(fusion, FakeClock(8.0), name="grafana")
    lines = {
        role: [(one.act, one.subject) for one in list_acts(database)]
        for role, database in (("shuffler", shuffler), ("registrar", registrar), ("fusion", fusion))
    }
    assert lines == {
        "shuffler": [
            ("admit devices", "2 in group north"),
            ("enrol devices", "1"),
            ("revoke device", enrolled.device),
        ],
        "registrar": [
            ("approve devices", "3"),
            ("certify devices", "1"),
            ("revoke device", "00" * 32),
        ],
        "fusion": [
            ("add subscriber", "grafana (read:estimates)"),
            ("revoke subscriber", "grafana"),
        ],
    }
    first, _ = list_acts(fusion)
    assert (first.by, first.time_s) == ("operator", 7)
    written = json.dumps(
        [asdict(one) for found in (shuffler, registrar, fusion) for one in list_acts(found)]
    )
    secrets = [*tokens, *approvals, token, enrolled.credential]
    assert not [one for one in secrets if one in written or one.split(".")[-1] in written]
    assert "an owner" not in written
    for database in (shuffler, registrar, fusion):
        database.close()


def test_without_a_user_name(database: "Database", monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose user has no name the act is recorded all the same."""

    def fail() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", fail)
    with database.transaction() as transaction:
        record_act(transaction, "revoke device", "a")
    assert [one.by for one in list_acts(database)] == ["unknown user"]
    assert AUTOMATIC not in {"unknown user"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log is printed, exported and compared; a changed database ends with an error."""
    path = tmp_path / "state.db"
    config = tmp_path / "rase.toml"
    config.write_text(SETTINGS.format(database=path, fusion="00" * 32))
    at = ["--config", str(config)]
    assert main(["shuffler", "enrol", "--count", "2", *at]) == 0
    capsys.readouterr()
    assert main(["shuffler", "acts", *at]) == 0
    shown = capsys.readouterr()
    assert shown.out.rstrip().endswith("admit devices: 2")
    assert shown.err == "1 act.\n"
    export = tmp_path / "acts.json"
    assert main(["shuffler", "acts", "--json", *at]) == 0
    export.write_text(capsys.readouterr().out)
    assert main(["shuffler", "enrol", "--group", "north", *at]) == 0
    capsys.readouterr()
    assert main(["shuffler", "acts", "--since", str(export), *at]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 1
    assert "1 in group north" in shown.out
    assert "1 since acts.json, which is unchanged in it" in shown.err
    assert main(["shuffler", "acts", "--since", str(config), *at]) == 2
    assert "--json" in capsys.readouterr().err
    database = open_database(path, migrations="shuffler")
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM act")
    database.close()
    assert main(["shuffler", "acts", "--since", str(export), *at]) != 0
    assert "is not in the log any more" in capsys.readouterr().err
