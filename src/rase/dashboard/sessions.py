"""Who is logged in: sessions in memory, proofs that a form is ours, and limits on guessing."""

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from rase.clock import Clock

__all__ = ["IDLE_S", "LONGEST_S", "Session", "Sessions"]

IDLE_S: Final = 3600.0
LONGEST_S: Final = 12 * 3600.0
_ONCE_S: Final = 3600.0
_MOST_SESSIONS: Final = 10_000
_MOST_FAILURES: Final = 10
_FAILURES_S: Final = 60.0
_MOST_ADDRESSES: Final = 4096


@dataclass(slots=True, eq=False)
class Session:
    """Hold one login.

    Args:
        token: The token it was made with; never shown again.
        name: Whose token it is.
        scopes: What the token allows.
        begun_s: When it began, by a clock that only passes.
        seen_s: When it was last used.
    """

    token: str = field(repr=False)
    name: str
    scopes: frozenset[str]
    begun_s: float
    seen_s: float

    def allows(self, scope: str | None) -> bool:
        """Return whether it opens a page that needs a scope; None means that any login does."""
        return scope is None or scope in self.scopes


class Sessions:
    """Keep sessions in memory: a restart logs everybody out, and nothing is on the disk.

    Args:
        clock: Says when sessions end.
        idle_s: After how long without a request one ends.
        longest_s: After how long one ends in any case.
    """

    def __init__(self, clock: Clock, *, idle_s: float = IDLE_S, longest_s: float = LONGEST_S):
        self._clock = clock
        self._idle_s = idle_s
        self._longest_s = longest_s
        self._key = secrets.token_bytes(32)
        # By the hash of the id: whoever reads this table cannot use what is in it.
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._once: dict[bytes, tuple[float, str]] = {}
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def begin(self, token: str, *, name: str, scopes: frozenset[str]) -> str:
        """Begin a session and return its id, which only the cookie holds."""
        now = self._clock.monotonic_s()
        made = secrets.token_urlsafe(32)
        self._sessions[_hashed(made)] = Session(token, name, scopes, now, now)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return made

    def find(self, session_id: str | None, *, is_use: bool = True) -> Session | None:
        """Return the session of an id, unless it is over.

        Args:
            session_id: What the cookie said.
            is_use: Whether this counts as using it; a stream that only listens does not.
        """
        key = _hashed(session_id or "")
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._clock.monotonic_s()
        if now - session.seen_s >= self._idle_s or now - session.begun_s >= self._longest_s:
            del self._sessions[key]
            return None
        if is_use:
            session.seen_s = now
        return session

    def end(self, session_id: str | None) -> None:
        """End a session; one that is over already stays so."""
        self._sessions.pop(_hashed(session_id or ""), None)

    def offer_once(self, token: str) -> str:
        """Return a code that logs in with a token, once and soon."""
        code = secrets.token_urlsafe(24)
        self._once[_hashed(code)] = (self._clock.monotonic_s() + _ONCE_S, token)
        return code

    def take_once(self, code: str) -> str | None:
        """Return the token of a code, which then opens nothing more."""
        ends_s, token = self._once.pop(_hashed(code), (0.0, ""))
        return token if token and self._clock.monotonic_s() < ends_s else None

    def proof(self, visitor: str) -> str:
        """Return what a form of ours holds and a form of another site cannot."""
        return hmac.new(self._key, visitor.encode(), sha256).hexdigest()

    def is_proof(self, visitor: str, given: str) -> bool:
        """Return whether a form holds the proof of its visitor, in constant time."""
        return bool(visitor) and hmac.compare_digest(
            self.proof(visitor).encode(), given.encode("utf-8", "replace")
        )

    def may_try(self, address: str) -> bool:
        """Return whether an address may try another token now."""
        now = self._clock.monotonic_s()
        recent = [at for at in self._failures.get(address, []) if now - at < _FAILURES_S]
        if recent:
            self._failures[address] = recent
        else:
            self._failures.pop(address, None)
        return len(recent) < _MOST_FAILURES

    def count_failure(self, address: str) -> None:
        """Note that an address tried a wrong token."""
        self._failures.setdefault(address, []).append(self._clock.monotonic_s())
        self._failures.move_to_end(address)
        while len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)


def _hashed(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
