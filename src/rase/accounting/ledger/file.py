"""The ledger's file: one SQLite database that is whole after any crash, or else refuses.

Rollback journal and ``synchronous = EXTRA``: a commit is on the disk, the journal's removal too,
before it returns. (With FULL a power cut right after a commit may bring the journal back, which
would undo an entry whose report was already sent.) One file is all there is between commits.

The books are kept twice: ``state`` holds the sums of all entries, changed in the same transaction.
Sums that differ, a damaged page, a foreign or newer file: each is refused at opening.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rase.errors import PrivacyRefused

__all__ = ["LedgerFile", "LedgerUnusable", "create_ledger"]

_APPLICATION_ID = 0x52415345  # "RASE"
_SCHEMA_VERSION = 3

# `entry` has no time but the round's: rows show what was sent, not when the device was awake.
# The triggers keep what was spent from being changed or given back by a later mistake of ours.
_SCHEMA = """
CREATE TABLE campaign (
    name            TEXT PRIMARY KEY,
    round_s         INTEGER NOT NULL,
    window          INTEGER NOT NULL,
    window_epsilon  REAL NOT NULL,
    total_epsilon   REAL,
    digest          BLOB NOT NULL,
    pruned_reports  INTEGER NOT NULL DEFAULT 0,
    pruned_spent    INTEGER NOT NULL DEFAULT 0,
    pruned_round    INTEGER
) WITHOUT ROWID;
CREATE TABLE entry (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    campaign   TEXT NOT NULL REFERENCES campaign (name),
    round      INTEGER NOT NULL,
    start_s    INTEGER NOT NULL,
    charged    INTEGER NOT NULL CHECK (charged > 0),
    spent      INTEGER NOT NULL CHECK (spent IN (0, charged)),
    tag        BLOB,
    report     BLOB,
    envelope   BLOB,
    is_sent    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (campaign, round)
);
CREATE INDEX entry_by_start ON entry (start_s);
-- Nothing is written to memo and entry.tag: they stay as ledgers of earlier versions have them.
CREATE TABLE memo (
    campaign  TEXT NOT NULL REFERENCES campaign (name),
    tag       BLOB NOT NULL,
    charged   INTEGER NOT NULL,
    report    BLOB NOT NULL,
    PRIMARY KEY (campaign, tag, charged)
) WITHOUT ROWID;
CREATE TABLE state (
    id               INTEGER PRIMARY KEY CHECK (id = 1),
    reports          INTEGER NOT NULL,
    charged          INTEGER NOT NULL,
    spent            INTEGER NOT NULL,
    pruned_charged   INTEGER NOT NULL,
    pruned_start_s   INTEGER,
    closed_before_s  INTEGER NOT NULL
);
INSERT INTO state VALUES (1, 0, 0, 0, 0, NULL, 0);
CREATE TRIGGER entry_stays
BEFORE DELETE ON entry WHEN OLD.start_s >= (SELECT closed_before_s FROM state)
BEGIN SELECT RAISE(ABORT, 'an open round keeps its entry'); END;
CREATE TRIGGER spent_never_falls
BEFORE UPDATE ON state
WHEN NEW.spent < OLD.spent OR NEW.charged < OLD.charged OR NEW.reports < OLD.reports
    OR NEW.closed_before_s < OLD.closed_before_s
BEGIN SELECT RAISE(ABORT, 'what was spent never falls'); END;
"""

# What the second version adds: under which signed claims a report was made.
_CLAIMS = """
CREATE TABLE claim_table (
    id       INTEGER PRIMARY KEY,
    digest   BLOB NOT NULL UNIQUE,
    numbers  TEXT NOT NULL
);
ALTER TABLE entry ADD COLUMN claims INTEGER REFERENCES claim_table (id);
DROP TRIGGER IF EXISTS entry_is_final;
CREATE TRIGGER entry_is_final
BEFORE UPDATE OF campaign, round, start_s, charged, spent, tag, claims ON entry
BEGIN SELECT RAISE(ABORT, 'an entry never changes'); END;
"""

# What the third version adds: the registrar's tokens, each until a report holds it.
_TOKENS = """
CREATE TABLE token_window (
    campaign     TEXT NOT NULL,
    first_round  INTEGER NOT NULL,
    last_round   INTEGER NOT NULL,
    key          BLOB NOT NULL,
    seed         BLOB,
    PRIMARY KEY (campaign, first_round)
) WITHOUT ROWID;
CREATE TABLE token (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    campaign     TEXT NOT NULL,
    first_round  INTEGER NOT NULL,
    token        BLOB NOT NULL
);
"""
_STEPS = {1: _CLAIMS, 2: _TOKENS}

_BOOKS = """
SELECT state.reports, state.charged, state.spent,
    (SELECT count(*) FROM entry) + (SELECT coalesce(sum(pruned_reports), 0) FROM campaign),
    (SELECT coalesce(sum(charged), 0) FROM entry) + state.pruned_charged,
    (SELECT coalesce(sum(spent), 0) FROM entry)
        + (SELECT coalesce(sum(pruned_spent), 0) FROM campaign)
FROM state
"""

_LOST = (
    "Nothing is reported, because what was spent is not known. Restore the latest copy of the "
    "file only if no report was made after it; otherwise keep the file and enrol as a new device"
)


class LedgerUnusable(PrivacyRefused):
    """The ledger cannot be read or written, so nothing may be reported; says what to do."""


def create_ledger(path: Path) -> None:
    """Make an empty ledger, once, when a device is enrolled; readable by its owner alone.

    The file appears whole or not at all. Opening never makes one: a lost ledger must be noticed,
    because an empty one would allow everything again.

    Args:
        path: Where; the folder must exist.

    Raises:
        LedgerUnusable: If there is a file already, or it cannot be written.
    """
    # Made once in a device's life; agents that only open it start quicker without.
    import tempfile

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".new")
        os.close(handle)
        try:
            with closing(sqlite3.connect(name, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.executescript(f"BEGIN;{_SCHEMA}{_CLAIMS}{_TOKENS}COMMIT;")
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            # Unlike a rename, a link never replaces a ledger that is there.
            os.link(name, path)
        finally:
            Path(name).unlink()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise LedgerUnusable(f"{path} exists already; a ledger is made only once.") from None
    except (OSError, sqlite3.Error) as error:
        raise LedgerUnusable(
            f"the ledger {path} cannot be made: {error}. Name a folder that exists, can be written "
            f"and has space."
        ) from error


class LedgerFile:
    """One open ledger; every mishap becomes `LedgerUnusable`.

    A handle belongs to one thread of one process. Any number of processes may hold one each.

    Args:
        path: An existing ledger.
        busy_s: How long to wait for another process that writes.

    Raises:
        LedgerUnusable: If the file is missing, damaged, of another version, or open to others.
    """

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self.path = path
        self.busy_s = busy_s
        self._process = os.getpid()
        self._check_mode()
        self._connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw", uri=True, timeout=busy_s, isolation_level=None
        )
        try:
            self._check_version()
            self._set_up()
            with self.reading():
                self._check_books()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; a transaction that is under way is undone."""
        self._connection.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a block as one durable transaction: all of it, or nothing if it raises."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run a block that sees one state of the file."""
        with self._transaction("BEGIN"):
            yield

    def rows(self, sql: str, *values: object) -> list[Any]:
        """Run one statement and return its rows."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.ProgrammingError:
            # A closed handle or another thread: a mistake in the program, not in the file.
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise LedgerUnusable(self._explain(error)) from error

    def damage_error(self, detail: str) -> LedgerUnusable:
        """Return the refusal for content that cannot be what was written."""
        return LedgerUnusable(f"the ledger {self.path} is damaged ({detail}). {_LOST}.")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        if os.getpid() != self._process:
            raise RuntimeError("a ledger must be opened by the process that uses it, after a fork.")
        if self._connection.in_transaction:
            raise RuntimeError("a ledger must end one transaction before it begins the next.")
        self.rows(begin)
        try:
            yield
            self.rows("COMMIT")
        except BaseException:
            # A failed commit may have rolled back already; closing would undo it, too.
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def _check_mode(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except OSError as error:
            raise LedgerUnusable(
                f"there is no ledger at {self.path}: {error.strerror}. Enrolment makes it. If it "
                f"was there before: {_LOST}."
            ) from error
        if not stat.S_ISREG(mode):
            raise LedgerUnusable(f"the ledger {self.path} must be a file. Name another path.")
        if mode & 0o077:
            raise LedgerUnusable(
                f"the ledger {self.path} must be closed to others, got mode {mode & 0o777:o}. "
                f"Run chmod 600 {self.path}."
            )

    def _check_version(self) -> None:
        application = self.rows("PRAGMA application_id")[0][0]
        version = self.rows("PRAGMA user_version")[0][0]
        if application != _APPLICATION_ID:
            raise LedgerUnusable(f"{self.path} is not a ledger of RASE. Name another path.")
        if version in _STEPS:
            self._bring_up_to_date()
        elif version != _SCHEMA_VERSION:
            raise LedgerUnusable(
                f"the ledger {self.path} has schema version {version}, this program reads version "
                f"{_SCHEMA_VERSION}. Use the program that wrote it, or a newer one."
            )

    def _bring_up_to_date(self) -> None:
        """Bring a ledger of an earlier version up to date, all of it or nothing."""
        self.rows("PRAGMA synchronous = EXTRA")
        with self.writing():
            # Another process may have been faster.
            version = self.rows("PRAGMA user_version")[0][0]
            for step in range(version, _SCHEMA_VERSION):
                for statement in _statements(_STEPS[step]):
                    self.rows(statement)
            self.rows(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _set_up(self) -> None:
        self.rows("PRAGMA journal_mode = DELETE")
        self.rows("PRAGMA synchronous = EXTRA")
        self.rows("PRAGMA foreign_keys = ON")
        # What is erased is overwritten, so that closed rounds leave no reports behind.
        self.rows("PRAGMA secure_delete = ON")

    def _check_books(self) -> None:
        is_whole = self.rows("PRAGMA integrity_check(1)") == [("ok",)]
        strays = self.rows("PRAGMA foreign_key_check")
        books = self.rows(_BOOKS)
        if not is_whole or strays or len(books) != 1 or books[0][:3] != books[0][3:]:
            raise self.damage_error("its books do not agree")

    def _explain(self, error: Exception) -> str:
        # SQLite's message about a damaged name may itself be no text.
        is_text = not isinstance(error, UnicodeDecodeError)
        name = getattr(error, "sqlite_errorname", "") if is_text else "SQLITE_CORRUPT"
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"the ledger {self.path} was in use by another process for more than "
                f"{self.busy_s:g} s; nothing was spent. Try again."
            )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return str(self.damage_error(str(error) if is_text else "its text is unreadable"))
        return (
            f"the ledger {self.path} cannot be read or written ({error}); nothing is reported. "
            f"See that the disk has space and that file and folder can be written."
        )


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; those of a trigger stay together."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
