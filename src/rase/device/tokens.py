"""The device's tokens: fetched ahead of their window, kept in the ledger, one put in each report.

The seed of a window's tokens is stored before the registrar is asked, so a device that dies asks
for the same bytes again. Without tokens a device does not report: nothing is drawn, nothing spent.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from rase.accounting.ledger import LedgerUnusable
from rase.clock import Clock, backoff_s
from rase.device.journal import Journal
from rase.errors import WireError
from rase.kernels.entropy import Entropy, checked_entropy
from rase.transport.interface import Answer, Transport, Unreachable
from rase.wire import cbor
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import (
    MODULUS_SIZE,
    TOKEN_KEYS_PATH,
    TOKENS_PATH,
    SignedTokenKey,
    TokenKey,
    requests_bytes,
    token_keys_from_bytes,
)

if TYPE_CHECKING:
    from rase.accounting.ledger.tokens import StoredWindow

__all__ = ["TokenFetcher", "TokenLedger"]

# The part of the time left for fetching over which devices spread; the rest is for retries.
_SPREAD: Final = 0.75
_LONGEST_PAUSE_S: Final = 300.0
_MAX_ANSWER: Final = 1 << 20
_STEPS: Final = 1 << 20
_OVER: Final = ("tokens-issued", "not-issuing", "bad-report")


class TokenLedger(Protocol):
    """What the fetcher asks of the ledger; `rase.accounting.ledger.Ledger` does it."""

    def token_windows(self) -> "list[StoredWindow]":
        """Return the windows that were begun, also those without tokens."""
        ...

    def begin_tokens(
        self, campaign: str, rounds: tuple[int, int], *, key: bytes, seed: bytes
    ) -> None:
        """Store the seed of a window's tokens, before they are asked for."""
        ...

    def keep_tokens(self, campaign: str, first_round: int, tokens: list[bytes]) -> None:
        """Store the tokens of a window, and erase their seed."""
        ...

    def drop_tokens(self, campaign: str, before: int) -> None:
        """Erase the tokens of windows that ended before a round."""
        ...


@dataclass(slots=True)
class _Due:
    key: TokenKey
    seed: bytes
    due_s: float
    attempts: int = 0


class TokenFetcher:
    """Fetch a device's tokens, each window's at a random moment.

    Args:
        ledger: Where seeds and tokens are.
        registrar: The way to the registrar.
        secret: The device's key, which signs requests.
        campaign: The campaign's id.
        pinned: The public signing keys, the registrar's among them.
        clock: The time.
        entropy: Where seeds and moments come from.
        journal: Takes notes.
        study: For simulations, which may repeat their secrets.
    """

    def __init__(
        self,
        ledger: TokenLedger,
        registrar: Transport,
        *,
        secret: bytes,
        campaign: str,
        pinned: PinnedKeys,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        study: bool = False,
    ) -> None:
        self._ledger = ledger
        self._registrar = registrar
        self._secret = secret
        self._campaign = campaign
        self._pinned = pinned
        self._clock = clock
        self._entropy = checked_entropy(entropy, study=study)
        self._journal = journal
        self._due: dict[int, _Due] = {}
        self._known: set[int] = set()
        self._newest: TokenKey | None = None
        for window in ledger.token_windows():
            if window.campaign == campaign:
                self._known.add(window.first_round)
                if window.seed is not None:
                    # Whoever ran before asked, or was about to: the same bytes again.
                    key = SignedTokenKey.from_bytes(window.key, pinned).key
                    self._plan(key, window.seed)

    @property
    def next_due_s(self) -> float | None:
        """The monotonic second at which there is something to do; None if nothing waits."""
        return min((one.due_s for one in self._due.values()), default=None)

    def look_for_keys(self) -> None:
        """Ask which windows there are.

        Raises:
            Unreachable: If the registrar does not answer.
        """
        answer = self._registrar.get(TOKEN_KEYS_PATH)
        if answer.status != 200:
            raise Unreachable(f"{TOKEN_KEYS_PATH} is answered with {answer.status}.")
        try:
            offered = token_keys_from_bytes(answer.body, self._pinned)
        except WireError as error:
            raise Unreachable(f"{TOKEN_KEYS_PATH} cannot be read: {error}") from None
        for signed in offered:
            key = signed.key
            if key.campaign == self._campaign and (
                self._newest is None or key.first_round > self._newest.first_round
            ):
                self._newest = key
            is_ours = key.campaign == self._campaign and key.first_round not in self._known
            if is_ours and self._clock.now_s() < key.issue_until_s:
                seed = b"".join(self._entropy.word().to_bytes(8, "big") for _ in range(4))
                rounds = key.first_round, key.last_round
                self._ledger.begin_tokens(key.campaign, rounds, key=signed.to_bytes(), seed=seed)
                self._known.add(key.first_round)
                self._plan(key, seed)

    def lasts_s(self, round_s: int) -> float | None:
        """Return after how long new windows are to be looked for; None if none is ahead.

        Somewhere in the half window before the newest known one begins: those after it are made by
        then, and not all devices look at once.
        """
        if self._newest is None or self._clock.now_s() >= self._newest.first_round * round_s:
            return None
        length_s = (self._newest.last_round - self._newest.first_round + 1) * round_s
        share = (self._entropy.word() % _STEPS) / _STEPS
        due_s = self._newest.first_round * round_s - share * length_s / 2
        return max(due_s - self._clock.now_s(), 0.0)

    def step(self) -> None:
        """Fetch what is due."""
        for first, one in list(self._due.items()):
            if self._clock.now_s() >= one.key.issue_until_s:
                # What is stored stays until the window is over: nobody asks for it twice.
                self._give_up(first, "not-issued-in-time")
            elif self._clock.monotonic_s() >= one.due_s:
                self._fetch(first, one)

    def forget_before(self, round: int) -> None:
        """Erase tokens of windows that ended before a round."""
        self._ledger.drop_tokens(self._campaign, round)

    def _plan(self, key: TokenKey, seed: bytes) -> None:
        left_s = max(key.issue_until_s - self._clock.now_s(), 0.0)
        share = (self._entropy.word() % _STEPS) / _STEPS
        due_s = self._clock.monotonic_s() + share * _SPREAD * left_s
        self._due[key.first_round] = _Due(key, seed, due_s)

    def _fetch(self, first: int, one: _Due) -> None:
        # Big numbers are needed once a window, not for starting.
        from rase.wire.wallet import TokenBatch

        batch = TokenBatch(one.key, one.seed)
        one.attempts += 1
        try:
            answer = self._registrar.post(
                TOKENS_PATH,
                requests_bytes([batch.request(self._secret)]),
                content_type="application/cbor",
            )
            found = _read_reply(answer)
        except Unreachable:
            self._pause(one)
            return
        if isinstance(found, str):
            if found in _OVER:
                self._give_up(first, found)
            else:
                self._pause(one, at_least_s=answer.retry_after_s or 0.0)
            return
        try:
            opened = batch.open(found)
        except ValueError:
            self._give_up(first, "bad-signature")
            return
        try:
            self._ledger.keep_tokens(one.key.campaign, first, opened)
        except LedgerUnusable:
            # Asked again later, the registrar gives the same answer.
            self._pause(one)
            raise
        del self._due[first]
        self._journal.note("tokens-fetched", round=first, count=len(opened))

    def _pause(self, one: _Due, *, at_least_s: float = 0.0) -> None:
        share = (self._entropy.word() % _STEPS) / _STEPS
        left_s = max(one.key.issue_until_s - self._clock.now_s(), 1.0)
        most_s = min(_LONGEST_PAUSE_S, max(left_s / 8, 1.0))
        wait_s = max(backoff_s(one.attempts, share=share, most_s=most_s), at_least_s)
        one.due_s = self._clock.monotonic_s() + wait_s
        self._journal.note("tokens-not-fetched", round=one.key.first_round, wait_s=wait_s)

    def _give_up(self, first: int, reason: str) -> None:
        del self._due[first]
        self._journal.note("no-tokens", round=first, reason=reason)


def _read_reply(answer: Answer) -> list[bytes] | str:
    """Return the signatures, or the name of the problem."""
    if answer.status != 200:
        return f"status-{answer.status}"
    try:
        reply = cbor.decode(answer.body, max_size=_MAX_ANSWER)
        ((status, found),) = reply
    except (WireError, ValueError, TypeError):
        return "unreadable"
    if status != 200:
        return found if isinstance(found, str) else "unreadable"
    is_whole = isinstance(found, list) and all(
        isinstance(one, bytes) and len(one) == MODULUS_SIZE for one in found
    )
    return found if is_whole else "unreadable"
