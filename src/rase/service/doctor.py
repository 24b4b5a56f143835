"""What can be wrong with an installation: one finding for each check, with what to do about it.

Everything is only looked at: no file is made, no database brought to another form.
"""

import http.client
import shutil
import sqlite3
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from rase.clock import Clock
from rase.errors import ConfigurationError, StorageError
from rase.service.key_settings import read_opening_keys, read_signing_key
from rase.storage.address import PostgresAddress
from rase.storage.migrate import migrations_of
from rase.storage.opening import look_at
from rase.wire.keys import KeyConfig, KeyState, OpeningKey, Role, SigningKey

__all__ = [
    "Fetched",
    "Finding",
    "Level",
    "as_document",
    "check_clock",
    "check_configs",
    "check_database",
    "check_disk",
    "check_opening_keys",
    "check_peer",
    "check_pin",
    "check_server_database",
    "check_signing_key",
    "exit_code_of",
    "fetch",
    "findings_of",
]

_TIMEOUT_S: Final = 5.0
_MAX_BYTES: Final = 1 << 20
# Rounds go by each party's own clock; reports at the edge of the grace time are lost first.
_CLOCK_WARNING_S: Final = 5.0
_CLOCK_PROBLEM_S: Final = 60.0
_DISK_WARNING: Final = 1 << 30
_DISK_PROBLEM: Final = 100 << 20
_EXPIRY_WARNING_S: Final = 14 * 86400
_NAMES: Final[Mapping[str, str]] = {
    Role.SHUFFLER: "shuffler",
    Role.FUSION: "fusion centre",
    "registrar": "registrar",
}


class Level(StrEnum):
    """Say how bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        where: The folder or server that was looked at.
        check: What was checked, in a word.
        level: How bad it is.
        text: What was found and, if it is not well, what to do.
        is_network: Whether others than this machine's files are to blame.
    """

    where: str
    check: str
    level: Level
    text: str
    is_network: bool = False


class Fetched(NamedTuple):
    """What a server answered: status, body, and its Date header."""

    status: int
    body: bytes
    date: str | None


def exit_code_of(findings: Iterable[Finding]) -> int:
    """Return 3 if files or settings have a problem, else 4 if the network has, else 0."""
    problems = [finding for finding in findings if finding.level is Level.PROBLEM]
    if any(not finding.is_network for finding in problems):
        return 3
    return 4 if problems else 0


def findings_of(where: str, check: str, mistakes: Sequence[str], fine: str) -> list[Finding]:
    """Return one problem for each mistake, or that all is well."""
    if mistakes:
        return [Finding(where, check, Level.PROBLEM, mistake) for mistake in mistakes]
    return [Finding(where, check, Level.OK, fine)]


def check_signing_key(where: str, path: Path, role: Role) -> tuple[Finding, SigningKey | None]:
    """Check that a server's signing key can be read, by its owner only."""
    try:
        key = read_signing_key(path, role=role)
    except ConfigurationError as error:
        return Finding(where, "signing key", Level.PROBLEM, str(error)), None
    return Finding(where, "signing key", Level.OK, f"{path.name} is readable by you only."), key


def check_opening_keys(
    where: str, paths: Sequence[Path], configs: Sequence[KeyConfig], *, role: Role, now_s: float
) -> list[Finding]:
    """Check that all opening keys can be read and fit the published public keys.

    Args:
        where: The folder.
        paths: The private files that the settings name.
        configs: The public keys that were published for this server.
        role: The server.
        now_s: The time.
    """
    found: list[Finding] = []
    keys: dict[int, OpeningKey] = {}
    for path in paths:
        try:
            (key,) = read_opening_keys([path], role=role)
        except ConfigurationError as error:
            found.append(Finding(where, "opening key", Level.PROBLEM, str(error)))
            continue
        if key.id in keys:
            text = f"{path} has the number {key.id} of another key; remove one of them."
            found.append(Finding(where, "opening key", Level.PROBLEM, text))
        keys[key.id] = key
    for config in configs:
        if config.id not in keys:
            text = (
                f"key {config.id} is public, but no file of opening_key_files holds it; add it, "
                "or run rase keys rotate."
            )
            found.append(Finding(where, "opening key", Level.PROBLEM, text))
        elif _public_side(keys[config.id], config) != config.public_key:
            text = (
                f"key {config.id} is not the private side of what {where} publishes; put "
                "its file back, or run rase keys rotate."
            )
            found.append(Finding(where, "opening key", Level.PROBLEM, text))
        else:
            text = f"key {config.id} is readable by you only, {config.state(now_s)}."
            found.append(Finding(where, "opening key", Level.OK, text))
    return found


def check_configs(where: str, configs: Iterable[KeyConfig], *, role: Role, now_s: float) -> Finding:
    """Check that devices can seal for a server, now and for some time."""
    own = [config for config in configs if config.role is role]
    active = [config for config in own if config.state(now_s) is KeyState.ACTIVE]
    if not active:
        text = f"the {_NAMES[role]} has no active key; run rase keys rotate and publish the keyset."
        return Finding(where, "key expiry", Level.PROBLEM, text)
    # Keys that follow one another without a gap count together.
    end_s = max(config.not_after_s for config in active)
    for config in sorted(own, key=lambda config: config.not_before_s):
        if config.not_before_s <= end_s:
            end_s = max(end_s, config.not_after_s)
    days = (end_s - now_s) / 86400
    if end_s - now_s < _EXPIRY_WARNING_S:
        text = (
            f"the last key of the {_NAMES[role]} expires in {days:.1f} days; run rase keys rotate."
        )
        return Finding(where, "key expiry", Level.WARNING, text)
    return Finding(
        where, "key expiry", Level.OK, f"keys of the {_NAMES[role]} for {days:.0f} days."
    )


def check_pin(where: str, role: Role, pinned: bytes, actual: bytes) -> Finding:
    """Check that a pinned key is the one its server signs with."""
    if pinned == actual:
        return Finding(where, "pinned key", Level.OK, f"the pinned key is the {_NAMES[role]}'s.")
    text = (
        f"the pinned key is not the one the {_NAMES[role]} signs with; compare fingerprints with "
        "its operator, then run rase keys adopt."
    )
    return Finding(where, "pinned key", Level.PROBLEM, text)


def check_database(where: str, path: Path, *, role: str | None = None) -> Finding:
    """Check that a database opens, is whole, and of a form that this release knows.

    Args:
        where: The folder.
        path: The file.
        role: Whose migrations made it; None if it keeps no schema version.
    """
    if not path.exists():
        text = f"{path.name} is not there yet; the program makes it when it first runs."
        return Finding(where, "database", Level.WARNING, text)
    if path.stat().st_mode & 0o077:
        text = f"{path} must be for its owner only: chmod 600 {path}."
        return Finding(where, "database", Level.PROBLEM, text)
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_S)) as connection:
            state = connection.execute("PRAGMA quick_check(1)").fetchone()
            version = _schema_version(connection) if role is not None else None
    except sqlite3.Error as error:
        text = f"{path} cannot be read: {error}. Stop the server and restore the latest copy."
        return Finding(where, "database", Level.PROBLEM, text)
    if state != ("ok",):
        text = f"{path} is damaged. Stop the server and restore the latest copy."
        return Finding(where, "database", Level.PROBLEM, text)
    if role is not None:
        known = migrations_of(role)[-1].number
        return _of_version(where, path, version=version, role=role, known=known)
    return Finding(where, "database", Level.OK, f"{path.name} is whole.")


def check_server_database(where: str, address: PostgresAddress, *, role: str) -> Finding:
    """Check that a database of PostgreSQL opens, and is of a form that this release knows.

    Args:
        where: The folder.
        address: The database.
        role: Whose it is.
    """
    known = migrations_of(role)[-1].number
    try:
        version = look_at(address, role=role)
    except ModuleNotFoundError:
        text = 'psycopg is missing; install it with: pip install "rase-iot[postgres]".'
        return Finding(where, "database", Level.PROBLEM, text)
    except StorageError as error:
        return Finding(where, "database", Level.PROBLEM, str(error))
    if version > known:
        text = (
            f"{address} has version {version}, this release knows up to {known}; install the newer "
            "release again."
        )
        return Finding(where, "database", Level.PROBLEM, text)
    text = f"{address} answers, version {version}"
    if version < known:
        text += f"; the server brings it to {known} when it starts"
    return Finding(where, "database", Level.OK, f"{text}.")


def check_disk(where: str, folder: Path) -> Finding:
    """Check that there is space for rounds to come."""
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GiB free"
    if free < _DISK_PROBLEM:
        text += "; make space now, reports are refused when the disk is full."
        return Finding(where, "disk", Level.PROBLEM, text)
    if free < _DISK_WARNING:
        return Finding(where, "disk", Level.WARNING, f"{text}; make space soon.")
    return Finding(where, "disk", Level.OK, f"{text}.")


def check_peer(
    where: str, role: str, url: str, *, clock: Clock, tls: ssl.SSLContext | None = None
) -> list[Finding]:
    """Check that a server answers, and that its clock goes as ours does."""
    try:
        answer = fetch(url, "/healthz", tls=tls)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        text = f"the {_NAMES[role]} at {url} does not answer ({reason}); does it run, and there?"
        return [Finding(where, "peer", Level.PROBLEM, text, is_network=True)]
    if answer.status != 200:
        text = f"{url}/healthz answers {answer.status}; is that the {_NAMES[role]}'s address?"
        return [Finding(where, "peer", Level.PROBLEM, text, is_network=True)]
    return [
        Finding(where, "peer", Level.OK, f"the {_NAMES[role]} answers at {url}.", is_network=True),
        check_clock(where, role, answer.date, now_s=clock.now_s()),
    ]


def check_clock(where: str, role: str, date: str | None, *, now_s: float) -> Finding:
    """Check our clock against the Date header of a server, which knows whole seconds only."""
    try:
        theirs_s = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        text = f"the {_NAMES[role]} does not send its time; compare the clocks yourself."
        return Finding(where, "clock", Level.WARNING, text, is_network=True)
    off_s = now_s - theirs_s
    # The header was cut to whole seconds, which is no fault of either clock.
    off_s = off_s - 1 if off_s > 1 else min(off_s, 0.0)
    text = f"this clock and the {_NAMES[role]}'s differ by {abs(off_s):.0f} s"
    if abs(off_s) <= _CLOCK_WARNING_S:
        return Finding(where, "clock", Level.OK, f"{text} or less.", is_network=True)
    level = Level.WARNING if abs(off_s) <= _CLOCK_PROBLEM_S else Level.PROBLEM
    text += "; set both by NTP, or reports come too early or too late."
    return Finding(where, "clock", level, text, is_network=True)


def fetch(url: str, path: str, *, tls: ssl.SSLContext | None = None) -> Fetched:
    """Ask a server for a document, past any proxy of the environment.

    Raises:
        OSError: If the server does not answer.
        http.client.HTTPException: If it does not speak HTTP, or the address is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise http.client.InvalidURL("no address") from None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname or "",
            port,
            timeout=_TIMEOUT_S,
            context=tls or ssl.create_default_context(),
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=_TIMEOUT_S)
    with closing(connection):
        connection.request("GET", parts.path.rstrip("/") + path)
        answer = connection.getresponse()
        return Fetched(answer.status, answer.read(_MAX_BYTES), answer.getheader("Date"))


def as_document(findings: Iterable[Finding]) -> list[Mapping[str, Any]]:
    """Return findings as plain values."""
    return [
        {"where": one.where, "check": one.check, "level": one.level, "text": one.text}
        for one in findings
    ]


def _of_version(
    where: str, path: Path, *, version: tuple[str, int] | None, role: str, known: int
) -> Finding:
    if version is None or version[0] != role:
        text = f"{path} is not a database of the {role}; name another in the settings."
        return Finding(where, "database", Level.PROBLEM, text)
    if version[1] > known:
        text = (
            f"{path} has version {version[1]}, this release knows up to {known}; install the newer "
            "release again."
        )
        return Finding(where, "database", Level.PROBLEM, text)
    text = f"{path.name} is whole, version {version[1]}"
    if version[1] < known:
        text += f"; the server brings it to {known} when it starts"
    return Finding(where, "database", Level.OK, f"{text}.")


def _schema_version(connection: sqlite3.Connection) -> tuple[str, int] | None:
    try:
        row = connection.execute("SELECT role, version FROM schema_version").fetchone()
    except sqlite3.OperationalError:
        return None
    if row is None or not isinstance(row[1], int):
        return None
    return str(row[0]), row[1]


def _public_side(key: OpeningKey, config: KeyConfig) -> bytes:
    return key.config(not_before_s=config.not_before_s, not_after_s=config.not_after_s).public_key
