"""A database whose process dies: tests of crash safety name the step at which it happens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rase.storage.interface import Database, Parameters, Row, Transaction

__all__ = ["FaultyDatabase", "SimulatedDeath"]


class SimulatedDeath(BaseException):
    """The process ended here; no handler of ordinary errors may catch it."""


class FaultyDatabase:
    """Count every write and commit of a database, and die before or after one of them.

    A write counts two points, one before and one after it; so does a commit. What is not committed
    when death comes is lost, as in a real crash.

    Args:
        database: The real one; it survives, as a disk does.
        fail_at: The point at which to die, counted from 0; None to count only.
    """

    def __init__(self, database: Database, fail_at: int | None = None) -> None:
        self._database = database
        self._fail_at = fail_at
        self.points = 0

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write, and die at the point chosen."""
        with self._dying(self._database.transaction) as transaction:
            yield transaction

    @contextmanager
    def share(self) -> Iterator[Transaction]:
        """Write beside others, and die at the point chosen."""
        with self._dying(self._database.share) as transaction:
            yield transaction

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        """Read; nothing dies by reading."""
        self._point(0)
        with self._database.snapshot() as transaction:
            yield transaction

    def scrub(self) -> bool:
        """Overwrite the logs, and die before or after it."""
        self._point()
        is_clean = self._database.scrub()
        self._point()
        return is_clean

    def close(self) -> None:
        """Leave the real database open: it belongs to whoever made it."""

    @contextmanager
    def _dying(
        self, begin: Callable[[], AbstractContextManager[Transaction]]
    ) -> Iterator[Transaction]:
        self._point(0)
        with begin() as transaction:
            yield _FaultyTransaction(transaction, self)
            self._point()
        self._point()

    def _point(self, count: int = 1) -> None:
        # A dead process stays dead, whatever its code tries afterwards.
        if self._fail_at is not None and self._fail_at < self.points + count:
            self.points = self._fail_at + 1
            raise SimulatedDeath
        self.points += count


class _FaultyTransaction:
    """Run statements, counting those that write."""

    __slots__ = ("_owner", "_transaction")

    def __init__(self, transaction: Transaction, owner: FaultyDatabase) -> None:
        self._transaction = transaction
        self._owner = owner

    def execute(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        if sql.lstrip().upper().startswith("SELECT"):
            return self._transaction.execute(sql, parameters)
        self._owner._point()
        rows = self._transaction.execute(sql, parameters)
        self._owner._point()
        return rows

    def insert_new(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Parameters],
        *,
        key: int,
    ) -> list[bool]:
        self._owner._point()
        is_new = self._transaction.insert_new(table, columns, rows, key=key)
        self._owner._point()
        return is_new

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        self._owner._point()
        changed = self._transaction.execute_many(sql, rows)
        self._owner._point()
        return changed
