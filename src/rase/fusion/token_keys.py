"""Which registrar's key signs the tokens of a round, and which tokens were counted already.

Keys come from the shuffler, which countersigned them, when the first batch of a window arrives.
"""

from collections.abc import Callable, Sequence
from typing import Final

import httpx

from rase.clock import Clock
from rase.errors import RaseError, WireError
from rase.fusion.campaigns import current_campaign
from rase.service.clients import client
from rase.storage.interface import Database, Transaction
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import (
    TOKEN_KEYS_PATH,
    SignedTokenKey,
    TokenKey,
    key_in_round,
    token_keys_from_bytes,
)

__all__ = ["TokenKeys", "TokenKeysUnknown", "spend_tokens", "token_keys_at"]

# So long after a window its batches may still come: a forwarder may have been down for days.
_KEEP_S: Final = 30 * 86400
_TIMEOUT_S: Final = 10.0


class TokenKeysUnknown(WireError):
    """The key of a round's token window is not here yet; the batch must come again."""

    problem = "unavailable"


class TokenKeys:
    """Find the key of a token window.

    Args:
        database: The fusion centre's.
        clock: Says what is long past.
        pinned: The public signing keys, the registrar's among them.
        fetch: Gets the shuffler's document of token keys.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        pinned: PinnedKeys,
        fetch: Callable[[], bytes],
    ) -> None:
        self._database = database
        self._clock = clock
        self._pinned = pinned
        self._fetch = fetch
        self._known: dict[tuple[str, int], TokenKey] = {}

    def of_round(self, campaign: str, round: int) -> TokenKey:
        """Return the key whose tokens count in a round.

        Args:
            campaign: The campaign's id.
            round: The round that the reports name.

        Raises:
            WireError: If the shuffler does not answer now, or there is no such key: without one no
                report of the round can count.
        """
        key = key_in_round(self._known.values(), campaign, round)
        if key is None:
            self._take(self._read_signed(campaign, round))
            key = key_in_round(self._known.values(), campaign, round)
        if key is None:
            self._renew()
            key = key_in_round(self._known.values(), campaign, round)
        if key is None:
            raise WireError(
                f"no token of the registrar counts in round {round}: it published no key for it.",
                problem="bad-batch",
            )
        return key

    def _take(self, signed: Sequence[bytes]) -> None:
        for data in signed:
            key = SignedTokenKey.from_bytes(data, self._pinned).key
            self._known[key.campaign, key.first_round] = key

    def _read_signed(self, campaign: str, round: int) -> list[bytes]:
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT signed FROM window_key WHERE campaign = ? AND first_round <= ? "
                "AND last_round >= ?",
                (campaign, round, round),
            )
        return [bytes(signed) for (signed,) in rows]

    def _renew(self) -> None:
        """Keep what the shuffler publishes, and forget what is long past."""
        try:
            offered = token_keys_from_bytes(self._fetch(), self._pinned)
        except (RaseError, httpx.HTTPError) as error:
            raise TokenKeysUnknown(
                f"the shuffler's token keys cannot be read ({type(error).__name__}); try again."
            ) from None
        past_s = int(self._clock.now_s()) - _KEEP_S
        self._known.clear()
        with self._database.transaction() as transaction:
            for signed in offered:
                key = signed.key
                # The first key of a window stays: no later one replaces it.
                transaction.execute(
                    "INSERT INTO window_key (campaign, first_round, last_round, over_s, signed) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (
                        key.campaign,
                        key.first_round,
                        key.last_round,
                        _over_s(transaction, key),
                        signed.to_bytes(),
                    ),
                )
            old = transaction.execute(
                "DELETE FROM window_key WHERE over_s < ? RETURNING campaign, first_round", (past_s,)
            )
            transaction.execute_many(
                "DELETE FROM spent WHERE campaign = ? AND first_round = ?", old
            )
            rows = transaction.execute("SELECT signed FROM window_key")
        self._take([bytes(signed) for (signed,) in rows])


def spend_tokens(transaction: Transaction, key: TokenKey, tags: Sequence[bytes]) -> list[bool]:
    """Note tokens as counted, and return for each whether it was not before.

    Args:
        transaction: That in which their reports are kept.
        key: The key of their window.
        tags: What is kept of each, see `rase.wire.tokens.spent_tag`.
    """
    # In one order everywhere, so that two servers cannot wait for each other.
    order = sorted(range(len(tags)), key=tags.__getitem__)
    rows = [(key.campaign, key.first_round, tags[place]) for place in order]
    is_new = [False] * len(tags)
    columns = ("campaign", "first_round", "tag")
    for place, new in zip(
        order, transaction.insert_new("spent", columns, rows, key=3), strict=True
    ):
        is_new[place] = new
    return is_new


def token_keys_at(url: str) -> Callable[[], bytes]:
    """Return what gets the document of token keys from the shuffler."""
    root = url.rstrip("/")

    def fetch() -> bytes:
        with client(root, timeout=_TIMEOUT_S) as shuffler:
            answer = shuffler.get(root + TOKEN_KEYS_PATH)
        answer.raise_for_status()
        return answer.content

    return fetch


def _over_s(transaction: Transaction, key: TokenKey) -> int:
    found = current_campaign(transaction, key.campaign)
    return key.issue_until_s if found is None else found.campaign.closes_s(key.last_round)
