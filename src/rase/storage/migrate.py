"""Numbered migrations: bring a database of any earlier release to the form of this one."""

import re
from importlib.resources import files
from typing import Final, NamedTuple

from rase.errors import StorageBusy, StorageError, StorageUnusable
from rase.storage.interface import Database, Row, Transaction

__all__ = ["MOVED", "Migration", "migrate", "migrations_of", "version_of"]

MOVED: Final = " moved"
"""What stands behind the role in a database whose state lives elsewhere now."""

_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


class Migration(NamedTuple):
    """One step: its number, the statements that make it, and the name of its file."""

    number: int
    statements: tuple[str, ...]
    name: str = ""


def migrate(database: Database, role: str, *, target: int | None = None) -> int:
    """Apply all steps that a database has not seen yet, each in a transaction of its own.

    Args:
        database: The database; an empty one becomes one of ``role``.
        role: Whose migrations: the name of a folder next to this module.
        target: Stop after this step; for tests of earlier forms.

    Returns:
        The number of the last step that the database has now.

    Raises:
        StorageUnusable: If the database belongs to another role or a newer release.
    """
    steps = migrations_of(role)
    with database.transaction() as transaction:
        version = _version(transaction, role)
    if version > steps[-1].number:
        raise StorageUnusable(
            f"the database of the {role} has version {version}; this release knows up to "
            f"{steps[-1].number}. Install the newer release again."
        )
    for step in steps:
        if version < step.number and (target is None or step.number <= target):
            with database.transaction() as transaction:
                # Another process may have been faster.
                if _version(transaction, role) < step.number:
                    for statement in step.statements:
                        transaction.execute(statement)
                    transaction.execute("UPDATE schema_version SET version = ?", (step.number,))
            version = step.number
    return version


def version_of(database: Database, role: str) -> int:
    """Return the number of the last step that a database has, without changing it; 0 for none.

    Raises:
        StorageUnusable: If the database belongs to another role, or was moved elsewhere.
        StorageBusy: If the database cannot be used now.
    """
    try:
        with database.snapshot() as transaction:
            rows = transaction.execute("SELECT role, version FROM schema_version")
    except (StorageBusy, StorageUnusable):
        raise
    except StorageError:
        return 0
    return _version_in(rows[0], role) if rows else 0


def migrations_of(role: str) -> tuple[Migration, ...]:
    """Return the steps of a role in order.

    Raises:
        ValueError: If there are none, or their numbers have a gap.
    """
    folder = files("rase.storage") / "migrations" / role
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    steps = tuple(
        Migration(int(match[1]), _statements((folder / name).read_text("utf-8")), name)
        for name in names
        if (match := _NAME.fullmatch(name))
    )
    if not steps or [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise ValueError(f"migrations of {role!r} must be numbered 0001, 0002, …")
    return steps


def _version(transaction: Transaction, role: str) -> int:
    transaction.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL)"
    )
    rows = transaction.execute("SELECT role, version FROM schema_version")
    if not rows:
        transaction.execute("INSERT INTO schema_version (role, version) VALUES (?, 0)", (role,))
        return 0
    return _version_in(rows[0], role)


def _version_in(row: Row, role: str) -> int:
    found, version = row
    if found == f"{role}{MOVED}":
        raise StorageUnusable(
            f"the state of the {role} was copied from here to another database. Name that one in "
            f"{role}.database."
        )
    if found != role:
        raise StorageUnusable(f"the database is one of the {found}, not of the {role}.")
    return int(version)


def _statements(text: str) -> tuple[str, ...]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return tuple(part.strip() for part in "\n".join(lines).split(";") if part.strip())
