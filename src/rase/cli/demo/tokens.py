"""The tokens of the demonstration's homes, fetched by their gateway window after window.

Each home blinds its own, and a request is signed by its own key; the gateway only carries them.
A window's tokens are fetched in pieces over the window before. A home whose turn falls before the
first round of the demonstration asks for none of that window; in life every home asks for all.
"""

from collections.abc import Iterable, Sequence
from os import urandom
from typing import Final

import httpx
import numpy as np
from numpy.typing import NDArray

from rase.errors import RaseError
from rase.wire import cbor
from rase.wire.issuing import raise_all
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import (
    TOKEN_KEYS_PATH,
    TOKENS_PATH,
    TokenKey,
    requests_bytes,
    token_keys_from_bytes,
)
from rase.wire.wallet import TokenBatch

__all__ = ["HomeTokens"]

_TOKENS_A_REQUEST: Final = 500


class HomeTokens:
    """Fetch tokens and hand them out.

    Args:
        client: The way to the registrar.
        secrets: The key of each home.
        turns: The round of each home in a window; None if all report in every round.
        window: How many rounds a window of turns has.
        last_round: The last round in which anybody reports.
        pinned: The public signing keys, the registrar's among them.
    """

    def __init__(
        self,
        client: httpx.Client,
        *,
        secrets: Sequence[bytes],
        turns: NDArray[np.int64] | None,
        window: int,
        last_round: int,
        pinned: PinnedKeys,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._turns = turns
        self._window = window
        self._last_round = last_round
        answer = client.get(TOKEN_KEYS_PATH)
        answer.raise_for_status()
        self._keys = [one.key for one in token_keys_from_bytes(answer.content, pinned)]
        self._tokens: dict[int, dict[int, list[bytes]]] = {}

    def token(self, home: int, round: int) -> bytes:
        """Return the token of a home for its report of a round."""
        key = next(key for key in self._keys if key.holds_in(round))
        return self._tokens[key.first_round][home].pop()

    def fetch_first(self) -> None:
        """Fetch the tokens of the first window."""
        self._fetch(self._keys[0], self._homes(self._keys[0]))

    def fetch_ahead(self, round: int) -> None:
        """Fetch a piece of the next window's tokens, all of them before the last round of this."""
        for key, following in zip(self._keys, self._keys[1:], strict=False):
            if key.holds_in(round):
                homes, pieces = self._homes(following), max(key.last_round - key.first_round, 1)
                at = round - key.first_round
                self._fetch(following, homes[at::pieces] if at < pieces else [])

    def _homes(self, key: TokenKey) -> list[int]:
        """Return the homes whose turn is in a window."""
        if self._turns is None:
            return list(range(len(self._secrets))) if key.first_round <= self._last_round else []
        begin = key.first_round - key.first_round % self._window
        rounds = begin + self._turns
        is_in = (rounds >= key.first_round) & (rounds <= key.last_round)
        found: list[int] = np.flatnonzero(is_in).tolist()
        return found

    def _fetch(self, key: TokenKey, homes: Sequence[int]) -> None:
        kept = self._tokens.setdefault(key.first_round, {})
        size = max(_TOKENS_A_REQUEST // key.reports, 1)
        for start in range(0, len(homes), size):
            piece = homes[start : start + size]
            batches = [
                TokenBatch(key, urandom(32), raise_all=raise_all(key.modulus)) for _ in piece
            ]
            asked = [
                batch.request(self._secrets[home])
                for batch, home in zip(batches, piece, strict=True)
            ]
            answer = self._client.post(
                TOKENS_PATH,
                content=requests_bytes(asked),
                headers={"Content-Type": "application/cbor"},
            )
            answer.raise_for_status()
            replies = cbor.decode(answer.content, max_size=1 << 24)
            kept.update(_open_replies(piece, batches, replies))


def _open_replies(
    homes: Sequence[int], batches: Sequence[TokenBatch], replies: Sequence[list[object]]
) -> Iterable[tuple[int, list[bytes]]]:
    for home, batch, (status, found) in zip(homes, batches, replies, strict=True):
        if status != 200 or not isinstance(found, list):
            raise RaseError(f"the registrar refuses tokens: {found}.")
        yield home, list(batch.open(found))
