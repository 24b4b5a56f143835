"""Where a server keeps its state: a file of SQLite, or a database of PostgreSQL."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["DatabaseAddress", "PostgresAddress", "parse_address"]

_SCHEMES = ("postgresql", "postgres")
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Name a database of PostgreSQL; printed, it shows no password and none of its options.

    Args:
        url: As libpq takes it: ``postgresql://user@host:port/database?sslmode=verify-full``. What
            it leaves out comes from libpq's own variables and files: PGPASSWORD, PGPASSFILE,
            PGSERVICE and so on.

    Raises:
        ValueError: If the text is not an address of PostgreSQL.

    Example:
        >>> print(PostgresAddress("postgresql://rase:secret@db.example/rase?sslmode=require"))
        postgresql://rase@db.example/rase
    """

    url: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check the address once, without quoting it: it may hold a password."""
        problem = _problem(self.url)
        if problem:
            raise ValueError(
                f"a database of PostgreSQL must be given as postgresql://user@host:port/database; "
                f"{problem}."
            )

    @property
    def has_password(self) -> bool:
        """Whether a password stands in the address itself."""
        return urlsplit(self.url).password is not None or any(
            name == "password" for name, _ in parse_qsl(urlsplit(self.url).query)
        )

    @property
    def name(self) -> str:
        """The database's name; empty if libpq decides."""
        return unquote(urlsplit(self.url).path.removeprefix("/"))

    def __str__(self) -> str:
        """Return user, host and database only."""
        parts = urlsplit(self.url)
        user = f"{parts.username}@" if parts.username else ""
        host = parts.netloc.rpartition("@")[2]
        return unquote(f"postgresql://{user}{host}{parts.path}")


DatabaseAddress: TypeAlias = Path | PostgresAddress


def parse_address(text: str | Path, *, folder: Path = Path()) -> DatabaseAddress:
    """Return where a database is.

    Args:
        text: A path, or an address that begins with ``postgresql://``.
        folder: Where a relative path starts.

    Raises:
        ValueError: If the address cannot be used.

    Example:
        >>> parse_address("shuffler.db", folder=Path("/srv"))
        PosixPath('/srv/shuffler.db')
    """
    if isinstance(text, str) and text.partition(":")[0] in _SCHEMES and "://" in text:
        return PostgresAddress(text)
    return folder / text


def _problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or port cannot be read"
    if parts.scheme not in _SCHEMES or not url.startswith(f"{parts.scheme}://"):
        return "it begins otherwise"
    if port is not None and not 1 <= port <= _MAX_PORT:
        return f"its port must be 1 to {_MAX_PORT}, got {port}"
    if "@" in parts.path:
        # Behind a stray slash a password would be taken for a database, and shown as one.
        return "a / in its user or password must be written %2F"
    if any(character.isspace() or not character.isprintable() for character in url):
        return "it has a blank"
    return ""
