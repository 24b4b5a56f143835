"""Who is logged in: sessions, proofs that a form is ours, and limits on guessing."""

import hmac
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

from starlette.concurrency import run_in_threadpool

from rase.clock import Clock
from rase.errors import StorageError

__all__ = ["IDLE_S", "LONGEST_S", "Kept", "Session", "Sessions", "Store"]

IDLE_S: Final = 3600.0
LONGEST_S: Final = 12 * 3600.0
_ONCE_S: Final = 3600.0
_MOST_SESSIONS: Final = 10_000
_MOST_FAILURES: Final = 10
_FAILURES_S: Final = 60.0
_MOST_ADDRESSES: Final = 4096
_NOTED_S: Final = 60.0
_ID_LETTERS: Final = 43


@dataclass(slots=True, eq=False)
class Session:
    """One login.

    Args:
        token: The token it was made with; never shown again.
        name: Whose token it is.
        scopes: What the token allows.
        begun_s: When it began, by a clock that only passes.
        seen_s: When it was last used.
        noted_s: When the store was last updated.
    """

    token: str = field(repr=False)
    name: str
    scopes: frozenset[str]
    begun_s: float
    seen_s: float
    noted_s: float

    def allows(self, scope: str | None) -> bool:
        """Return whether it opens a page that needs a scope; None means that any login does."""
        return scope is None or scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A session as a store gives it back.

    Args:
        token: The token it was made with.
        name: Whose token it is.
        scopes: What the token allows.
        age_s: How long ago it began.
        idle_s: How long ago it was last used, about.
    """

    token: str = field(repr=False)
    name: str
    scopes: frozenset[str]
    age_s: float = 0.0
    idle_s: float = 0.0


class Store(Protocol):
    """Keep sessions where a restart does not end them; may wait for a disk."""

    def keep(self, name: bytes, session_id: str, kept: Kept) -> None:
        """Write a session down."""
        ...

    def find(self, name: bytes, session_id: str) -> Kept | None:
        """Return a session; None if there is none."""
        ...

    def touch(self, name: bytes) -> bool:
        """Note that a session was used; return whether it is still there."""
        ...

    def forget(self, name: bytes) -> None:
        """Remove a session."""
        ...


class Sessions:
    """Keep sessions in memory, and in a store if there is one: without, a restart logs out.

    What waits for the store is a coroutine and runs in a thread. A store that does not answer costs
    a new login after a restart, and nothing else.

    Args:
        clock: Says when sessions end.
        idle_s: After how long without a request one ends.
        longest_s: After how long one ends in any case.
        store: Where they outlive the server, and whence other processes know them.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        idle_s: float = IDLE_S,
        longest_s: float = LONGEST_S,
        store: Store | None = None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._idle_s = idle_s
        self._longest_s = longest_s
        # By the hash of the id: whoever reads this table cannot use what is in it.
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._once: dict[bytes, tuple[float, str]] = {}
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    async def begin(self, token: str, *, name: str, scopes: frozenset[str]) -> str:
        """Begin a session and return its id, which only the cookie holds."""
        now = self._clock.monotonic_s()
        made = secrets.token_urlsafe(32)
        self._remember(
            _hash_text(made),
            Session(token, name, scopes, begun_s=now, seen_s=now, noted_s=now),
        )
        if self._store is not None:
            kept = Kept(token=token, name=name, scopes=scopes)
            with suppress(StorageError):
                await run_in_threadpool(self._store.keep, _hash_text(made), made, kept)
        return made

    async def recall(self, session_id: str | None) -> Session | None:
        """Return the session of an id and count this as its use; look for it in the store, too."""
        session = self.find(session_id)
        # Ids that are none of ours are not worth a question to the disk.
        if self._store is None or session_id is None or len(session_id) != _ID_LETTERS:
            return session
        try:
            if session is None:
                return await self._fetch_session(self._store, session_id)
            return await self._note_use(self._store, session_id, session)
        except StorageError:
            return session

    async def _fetch_session(self, store: Store, session_id: str) -> Session | None:
        key = _hash_text(session_id)
        kept = await run_in_threadpool(store.find, key, session_id)
        if kept is None:
            return None
        now = self._clock.monotonic_s()
        # Noted long ago: this use is noted at the next one.
        self._remember(
            key,
            Session(
                token=kept.token,
                name=kept.name,
                scopes=kept.scopes,
                begun_s=now - kept.age_s,
                seen_s=now - kept.idle_s,
                noted_s=now - _NOTED_S,
            ),
        )
        return self.find(session_id)

    async def _note_use(self, store: Store, session_id: str, session: Session) -> Session | None:
        now = self._clock.monotonic_s()
        if now - session.noted_s < _NOTED_S:
            return session
        session.noted_s = now
        if await run_in_threadpool(store.touch, _hash_text(session_id)):
            return session
        # Another process has ended it.
        self._sessions.pop(_hash_text(session_id), None)
        return None

    def find(self, session_id: str | None, *, is_use: bool = True) -> Session | None:
        """Return the session of an id, unless it is over.

        Args:
            session_id: What the cookie said.
            is_use: Whether this counts as using it; a stream that only listens does not.
        """
        key = _hash_text(session_id or "")
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

    async def end(self, session_id: str | None) -> None:
        """End a session everywhere; one that is over already stays so."""
        if session_id is None:
            return
        self._sessions.pop(_hash_text(session_id), None)
        if self._store is not None:
            with suppress(StorageError):
                await run_in_threadpool(self._store.forget, _hash_text(session_id))

    def offer_once(self, token: str) -> str:
        """Return a code that logs in with a token, once and soon."""
        code = secrets.token_urlsafe(24)
        self._once[_hash_text(code)] = (self._clock.monotonic_s() + _ONCE_S, token)
        return code

    def take_once(self, code: str) -> str | None:
        """Return the token of a code, which then opens nothing more."""
        ends_s, token = self._once.pop(_hash_text(code), (0.0, ""))
        return token if token and self._clock.monotonic_s() < ends_s else None

    def proof(self, visitor: str) -> str:
        """Return what a form of ours holds and a form of another site cannot.

        It follows from the visitor's cookie alone, which no other site and no script can read: so a
        form is still ours after a restart, and in every process.
        """
        return hmac.new(visitor.encode(), b"rase dashboard form 1", sha256).hexdigest()

    def is_proof(self, visitor: str, given: str) -> bool:
        """Return whether a form holds the proof of its visitor, in constant time."""
        return bool(visitor) and hmac.compare_digest(
            self.proof(visitor).encode(), given.encode("utf-8", "replace")
        )

    def _remember(self, key: bytes, session: Session) -> None:
        self._sessions[key] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)

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


def _hash_text(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
