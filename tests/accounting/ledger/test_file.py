"""The ledger's file: private, whole, and refused in plain words when it is not."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cases import each_case
from tests.spending import spend

from rase.accounting.ledger import (
    CampaignLimits,
    Ledger,
    LedgerStatus,
    LedgerUnusable,
    OwnerLimits,
    create_ledger,
)

OWNER = OwnerLimits(report_epsilon=1, span_epsilon=5, total_epsilon=100)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with twenty reports, some of them pruned."""
    path = tmp_path_factory.mktemp("model") / "ledger.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=3, window_epsilon=1.0))
        for round in range(0, 60, 3):
            spend(ledger, "power", round, epsilon=0.6, draw=bytes(143))
        assert ledger.close_rounds(40 * 3600) > 0
    return path


@pytest.fixture
def path(model: Path, tmp_path: Path) -> Path:
    """A copy of that ledger."""
    return Path(shutil.copy(model, tmp_path))


def status(path: Path) -> LedgerStatus:
    """Open a ledger and look at its sums."""
    with Ledger(path, OWNER) as ledger:
        return ledger.status(59 * 3600)


def pay(ledger: Ledger, round: int, *, size: int = 8) -> None:
    """Spend on a report of some size."""
    spend(ledger, "power", round, epsilon=0.5, draw=bytes(size))


def test_a_ledger_is_made_once(path: Path) -> None:
    """Making it again is refused, and leaves it as it was."""
    before = path.read_bytes()
    with pytest.raises(LedgerUnusable, match="exists already; a ledger is made only once"):
        create_ledger(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]


def test_a_ledger_needs_a_folder(tmp_path: Path) -> None:
    """A folder that is not there is named."""
    with pytest.raises(LedgerUnusable, match=r"cannot be made: .*No such file"):
        create_ledger(tmp_path / "nowhere" / "ledger.db")


def test_a_ledger_that_cannot_be_written_is_not_left_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure while it is made leaves nothing behind."""

    def fail(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", fail)
        with pytest.raises(LedgerUnusable, match="disk is full"):
            create_ledger(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_ledger_is_never_made_by_opening(tmp_path: Path) -> None:
    """A lost ledger is noticed: an empty one would allow everything anew."""
    with pytest.raises(LedgerUnusable, match=r"there is no ledger at .* Enrolment makes it"):
        Ledger(tmp_path / "ledger.db", OWNER)
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_can_read_it(path: Path) -> None:
    """File and journal have mode 600."""
    modes: dict[str, int] = {}

    def look(statement: str) -> None:
        modes.update(
            (file.name, stat.S_IMODE(file.stat().st_mode)) for file in path.parent.iterdir()
        )

    with Ledger(path, OWNER) as ledger:
        ledger._file._connection.set_trace_callback(look)
        spend(ledger, "power", 90, epsilon=0.5, draw=bytes(9))
    assert modes == {"ledger.db": 0o600, "ledger.db-journal": 0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_open_to_others_is_refused(path: Path) -> None:
    """The way out is in the message."""
    path.chmod(0o640)
    with pytest.raises(LedgerUnusable, match=r"got mode 640. Run chmod 600 "):
        Ledger(path, OWNER)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    """Only a plain file is opened."""
    with pytest.raises(LedgerUnusable, match="must be a file"):
        Ledger(tmp_path, OWNER)


def test_another_version_is_refused_by_name(path: Path) -> None:
    """A newer schema is not guessed at."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(LedgerUnusable, match="has schema version 7, this program reads version 3"):
        Ledger(path, OWNER)


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    """A database of another program, or an empty file, is no ledger."""
    foreign = tmp_path / "other.db"
    foreign.touch(0o600)
    with pytest.raises(LedgerUnusable, match="is not a ledger of RASE"):
        Ledger(foreign, OWNER)


def test_garbage_and_truncation_are_refused(path: Path) -> None:
    """A damaged file stops all reports and says what to do."""
    whole = path.read_bytes()
    for damaged in (b"garbage " * 1000, whole[: len(whole) // 2], whole[:5000]):
        path.write_bytes(damaged)
        with pytest.raises(LedgerUnusable, match=r"is damaged.*enrol as a new device"):
            Ledger(path, OWNER)


def test_books_that_differ_are_refused(path: Path) -> None:
    """An entry that vanished behind the ledger's back is noticed."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "DROP TRIGGER entry_stays; DELETE FROM entry WHERE round = (SELECT max(round) FROM entry);"
    )
    connection.close()
    with pytest.raises(LedgerUnusable, match="is damaged"):
        Ledger(path, OWNER)


def test_garbled_text_is_refused(path: Path) -> None:
    """A name that is no text any more makes the ledger damaged, not the program fail."""
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE campaign", b"CRE\xc1TE TABLE campaign")
    )
    with pytest.raises(LedgerUnusable, match=r"is damaged \(its text is unreadable\)"):
        Ledger(path, OWNER)


def test_garbled_limits_are_refused(path: Path) -> None:
    """Limits that are not those joined with are never applied."""
    connection = sqlite3.connect(path)
    connection.execute("UPDATE campaign SET window_epsilon = 9")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerUnusable, match="limits of a campaign changed"):
        status(path)


@pytest.mark.parametrize("stride", [211, pytest.param(7, marks=pytest.mark.slow)])
def test_flipped_bits_never_give_budget_back(path: Path, stride: int) -> None:
    """Whatever byte of the file flips: it is refused, or no sum is smaller than before."""
    whole = path.read_bytes()
    before = status(path)
    refused = 0
    for place in range(0, len(whole), stride):
        flipped = bytearray(whole)
        flipped[place] ^= 0x80 if place % 2 else 0x05
        path.write_bytes(flipped)
        try:
            after = status(path)
        except LedgerUnusable:
            refused += 1
            continue
        assert after.total_spent >= before.total_spent
        assert after.span_spent >= before.span_spent
        assert after.campaigns[0].window_spent >= before.campaigns[0].window_spent
    assert refused > 5


@each_case(
    "statement",
    [
        "UPDATE entry SET charged = 1, spent = 0",
        "DELETE FROM entry WHERE round > 50",
        "UPDATE state SET spent = spent - 1",
        "UPDATE state SET closed_before_s = 0",
    ],
)
def test_the_file_itself_refuses_to_give_back(path: Path, statement: str) -> None:
    """Even a mistake in later code cannot change or remove what was spent."""
    before = status(path)
    message = r"cannot be read or written \((an|what) "
    with Ledger(path, OWNER) as ledger, pytest.raises(LedgerUnusable, match=message):
        ledger._file.rows(statement)
    assert status(path) == before


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, more or less."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def test_a_busy_ledger_refuses_after_a_while(path: Path, other: sqlite3.Connection) -> None:
    """Somebody who holds the file too long costs a report, not privacy."""
    with Ledger(path, OWNER, busy_s=0.01) as ledger:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnusable, match=r"more than 0.01 s; nothing was spent. Try again"):
            pay(ledger, 70)
        other.execute("ROLLBACK")
        pay(ledger, 70)


def test_a_commit_that_is_blocked_spends_nothing(path: Path, other: sqlite3.Connection) -> None:
    """A reader that never ends makes the commit fail; all is undone and can be tried again."""
    before = status(path)
    with Ledger(path, OWNER, busy_s=0.01) as ledger:
        other.execute("BEGIN")
        other.execute("SELECT * FROM state").fetchall()
        with pytest.raises(LedgerUnusable, match="in use by another process"):
            pay(ledger, 70)
        other.execute("ROLLBACK")
        assert ledger.status(59 * 3600) == before
        pay(ledger, 70)


def test_a_full_disk_spends_nothing(path: Path) -> None:
    """Where the report does not fit, nothing is spent; where it does, work goes on."""
    before = status(path)
    with Ledger(path, OWNER) as ledger:
        pages = ledger._file.rows("PRAGMA page_count")[0][0]
        ledger._file.rows(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerUnusable, match=r"\(database or disk is full\); nothing is rep"):
            pay(ledger, 70, size=100_000)
        assert ledger.status(59 * 3600) == before
        ledger._file.rows("PRAGMA max_page_count = 100000")
        pay(ledger, 70, size=100_000)


def test_a_read_only_disk_spends_nothing(path: Path) -> None:
    """A ledger that cannot be written refuses before anything is drawn."""
    with Ledger(path, OWNER) as ledger:
        ledger._file.rows("PRAGMA query_only = ON")
        with pytest.raises(LedgerUnusable, match=r"readonly database\).*can be written"):
            pay(ledger, 70)


def test_a_handle_does_not_survive_a_fork(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child must open its own: shared handles lose their locks."""
    with Ledger(path, OWNER) as ledger:
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(RuntimeError, match="opened by the process that uses it"):
            pay(ledger, 70)


def test_a_closed_ledger_says_so(path: Path) -> None:
    """A mistake of the program is not reported as a damaged file."""
    ledger = Ledger(path, OWNER)
    ledger.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        ledger.status(0)


def test_a_handle_belongs_to_one_thread(path: Path) -> None:
    """Another thread is told so, and spends nothing."""
    before = status(path)
    with Ledger(path, OWNER) as ledger, ThreadPoolExecutor(1) as thread:
        outcome = thread.submit(pay, ledger, 70)
        with pytest.raises(sqlite3.ProgrammingError, match="thread"):
            outcome.result()
    assert status(path) == before


def test_closed_rounds_leave_no_report_in_the_file(tmp_path: Path) -> None:
    """What is erased is overwritten."""
    path = tmp_path / "erased.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=3, window_epsilon=1.0))
        spend(ledger, "power", 1, epsilon=0.5, draw=b"a noisy report", seal=lambda _: b"env")
        assert b"a noisy report" in path.read_bytes()
        ledger.close_rounds(2 * 3600)
        assert b"a noisy report" not in path.read_bytes()
