"""Sessions that outlive the server: sealed in its database, with keys that only cookies hold.

A row's name is the hash of the session's id, its contents are sealed with a key that follows from
the id by HKDF (RFC 5869). Whoever reads the database finds neither a token nor anything that logs
in.
"""

import json
import secrets
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rase.clock import Clock
from rase.dashboard.sessions import Kept
from rase.storage.interface import Database

__all__ = ["SessionStore"]

_MOST: Final = 10_000
_NONCE_BYTES: Final = 12
_INFO: Final = b"rase dashboard session 1"


@dataclass(frozen=True, slots=True)
class SessionStore:
    """Keep sessions in a fusion centre's database.

    Args:
        database: The database.
        clock: The time of day: a clock that only passes begins again with each process.
        longest_s: After how long a session is of no use; such rows are removed.
    """

    database: Database
    clock: Clock
    longest_s: float

    def keep(self, name: bytes, session_id: str, kept: Kept) -> None:
        """Write a session down, and forget those that are over or too many."""
        now = int(self.clock.now_s())
        text = json.dumps([kept.token, kept.name, sorted(kept.scopes)])
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + _cipher(session_id).encrypt(nonce, text.encode("utf-8"), name)
        with self.database.transaction() as transaction:
            transaction.execute(
                "DELETE FROM dashboard_sessions WHERE begun_s <= ?", (now - int(self.longest_s),)
            )
            transaction.execute(
                "DELETE FROM dashboard_sessions WHERE begun_s < (SELECT begun_s FROM "
                "dashboard_sessions ORDER BY begun_s DESC LIMIT 1 OFFSET ?)",
                (_MOST - 2,),
            )
            transaction.execute(
                "INSERT INTO dashboard_sessions (session, sealed, begun_s, seen_s) "
                "VALUES (?, ?, ?, ?)",
                (name, sealed, now, now),
            )

    def find(self, name: bytes, session_id: str) -> Kept | None:
        """Return a session with its age; None if there is none of this id."""
        with self.database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT sealed, begun_s, seen_s FROM dashboard_sessions WHERE session = ?", (name,)
            )
        if not rows:
            return None
        sealed, begun_s, seen_s = rows[0]
        try:
            text = _cipher(session_id).decrypt(
                bytes(sealed[:_NONCE_BYTES]), bytes(sealed[_NONCE_BYTES:]), name
            )
        except InvalidTag:
            return None
        token, who, scopes = json.loads(text)
        now = self.clock.now_s()
        return Kept(
            token=token,
            name=who,
            scopes=frozenset(scopes),
            age_s=max(now - begun_s, 0.0),
            idle_s=max(now - seen_s, 0.0),
        )

    def touch(self, name: bytes) -> bool:
        """Note that a session was used; return whether it is still there."""
        with self.database.transaction() as transaction:
            rows = transaction.execute(
                "UPDATE dashboard_sessions SET seen_s = ? WHERE session = ? RETURNING session",
                (int(self.clock.now_s()), name),
            )
        return bool(rows)

    def forget(self, name: bytes) -> None:
        """Remove a session."""
        with self.database.transaction() as transaction:
            transaction.execute("DELETE FROM dashboard_sessions WHERE session = ?", (name,))


def _cipher(session_id: str) -> ChaCha20Poly1305:
    derived = HKDF(SHA256(), 32, salt=None, info=_INFO).derive(session_id.encode("utf-8"))
    return ChaCha20Poly1305(derived)
