"""What the servers ask of a database: short transactions of plain SQL, and nothing else.

The SQL uses ``?`` for parameters, BIGINT, TEXT and BYTEA, ``INSERT … ON CONFLICT`` and
``RETURNING``: what SQLite and PostgreSQL both have. Row numbers are never made by the database,
because a serial number reveals the order of arrival.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

__all__ = ["Database", "Parameters", "Row", "Transaction"]

Parameters: TypeAlias = Sequence[int | float | str | bytes | None]
Row: TypeAlias = tuple[Any, ...]


class Transaction(Protocol):
    """Run statements that happen together or not at all."""

    def execute(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Run one statement and return its rows.

        Raises:
            StorageError: Named; the transaction is then lost as a whole.
        """
        ...

    def insert_new(
        self,
        table: str,
        columns: Sequence[str],
        rows: Sequence[Parameters],
        *,
        key: int,
    ) -> list[bool]:
        """Insert rows whose key is not there yet; of two rows with one key the first counts.

        Args:
            table: The table.
            columns: All its columns that are given, those of its key first.
            rows: A value for each column, none of them None.
            key: How many columns make up the key.

        Returns:
            Whether each row is new.

        Raises:
            StorageError: Named; the transaction is then lost as a whole.
        """
        ...

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        """Run one statement for each row of parameters; return how many rows it changed.

        Raises:
            StorageError: Named; the transaction is then lost as a whole.
        """
        ...


class Database(Protocol):
    """Keep the state of one server; may be used by several threads."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Write alone: commit to the disk at the end of the block, roll back if it raises.

        Only one writer is inside at a time, in all processes: no thought is needed of others. What
        happens often has `share`.
        """
        ...

    def share(self) -> AbstractContextManager[Transaction]:
        """Write at the same time as others who share; otherwise as `transaction`.

        What is read to decide what is written must be read with ``FOR SHARE`` or ``FOR UPDATE``,
        in the same order everywhere; each statement sees what was committed before it.
        """
        ...

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Read: everything seen inside the block is the state of one moment; writing is refused."""
        ...

    def scrub(self) -> bool:
        """Overwrite what was deleted in the database's own logs too, as far as it can be done now.

        SQLite leaves nothing in its files. PostgreSQL makes the space free to be used again, which
        is all it can; see docs/guides/postgresql.md.

        Returns:
            Whether nothing is left; try again later if not.
        """
        ...

    def close(self) -> None:
        """Give everything back; the database is not used afterwards."""
        ...
