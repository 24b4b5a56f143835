"""One SQL for both engines: what is written once, and how it is translated for each.

Statements have ``?`` for each parameter, and may end with a lock on the rows they read. SQLite lets
one writer in at a time, so it needs no such lock; PostgreSQL has other marks for parameters, and no
``WITHOUT ROWID``.
"""

from functools import lru_cache

__all__ = ["to_postgres", "to_sqlite"]

_LOCKS = (" FOR UPDATE SKIP LOCKED", " FOR UPDATE", " FOR SHARE")


@lru_cache(maxsize=1024)
def to_sqlite(sql: str) -> str:
    """Return a statement as SQLite takes it.

    Example:
        >>> to_sqlite("SELECT id FROM thing WHERE id = ? FOR UPDATE SKIP LOCKED")
        'SELECT id FROM thing WHERE id = ?'
    """
    for lock in _LOCKS:
        sql = sql.removesuffix(lock)
    return sql


@lru_cache(maxsize=1024)
def to_postgres(sql: str) -> str:
    """Return a statement as psycopg takes it.

    No statement of ours has a question mark or a percent sign inside a text.

    Example:
        >>> to_postgres("SELECT id FROM thing WHERE id = ? FOR SHARE")
        'SELECT id FROM thing WHERE id = %s FOR SHARE'
    """
    return sql.replace("?", "%s").replace(") WITHOUT ROWID", ")")
