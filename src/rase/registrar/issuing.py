"""The keys of token windows, and signing what devices ask for: each device once in a window.

Signing the same blinded bytes again gives the same answer, so a request that is repeated after a
crash needs no stored answer, only the hash of what was asked first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rase.clock import Clock
from rase.errors import RaseError, WireError
from rase.registrar.devices import NotApproved
from rase.storage.interface import Database, Transaction
from rase.wire.issuing import Issuer
from rase.wire.signed import PinnedKeys
from rase.wire.tokens import SignedTokenKey, TokenKey, TokenRequest, token_keys_bytes

__all__ = ["MAX_BLINDED", "WITHOUT_KEYS", "Issuance", "WindowRow", "window_rows"]

# What one request may ask for: a second of the processor, more or less.
MAX_BLINDED: Final = 4096
# Of a copy that is to be put back one day: it does not know who fetched after it was made, and with
# the keys of these windows it would sign a second set for them.
WITHOUT_KEYS: Final = "UPDATE token_key SET private = NULL"


@dataclass(frozen=True, slots=True)
class _Window:
    key: TokenKey
    issuer: Issuer


class Issuance:
    """Give devices their tokens.

    Args:
        database: The registrar's.
        clock: Issuing ends before a window begins.
        pinned: The public signing keys, the registrar's own among them.
    """

    def __init__(self, database: Database, clock: Clock, *, pinned: PinnedKeys) -> None:
        self._database = database
        self._clock = clock
        self._pinned = pinned
        self._windows: dict[tuple[str, int], _Window] = {}

    def keys_document(self) -> bytes:
        """Return the document of the keys that both signed and whose window is not over."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT signed FROM token_key WHERE signed IS NOT NULL AND over_s > ? "
                "ORDER BY campaign, first_round",
                (int(self._clock.now_s()),),
            )
        return token_keys_bytes(bytes(signed) for (signed,) in rows)

    def issue(self, requests: Sequence[TokenRequest]) -> list[list[bytes] | RaseError]:
        """Return the signatures that each request asked for, or why there are none.

        Args:
            requests: Of one device, or of those a gateway speaks for.
        """
        if sum(len(one.blinded) for one in requests) > MAX_BLINDED:
            refusal = WireError(
                f"a request must ask for at most {MAX_BLINDED} signatures.", problem="bad-report"
            )
            return [refusal for _ in requests]
        windows = [self._check_request(one) for one in requests]
        rows = [
            (one.campaign, one.first_round, one.device_key, one.digest)
            for one, window in zip(requests, windows, strict=True)
            if isinstance(window, _Window)
        ]
        with self._database.transaction() as transaction:
            known = _known(transaction, [row[2] for row in rows])
            rows = [row for row in rows if row[2] in known]
            columns = ("campaign", "first_round", "device_key", "digest")
            is_new = transaction.insert_new("issued", columns, rows, key=3)
            first = {
                row[:3]: row[3] if new else _asked_first(transaction, row)
                for row, new in zip(rows, is_new, strict=True)
            }
        return list(self._answers(requests, windows, first))

    def _answers(
        self,
        requests: Sequence[TokenRequest],
        windows: Sequence["_Window | RaseError"],
        first: dict[Any, bytes],
    ) -> Iterator[list[bytes] | RaseError]:
        for one, window in zip(requests, windows, strict=True):
            if not isinstance(window, _Window):
                yield window
                continue
            asked = first.get((one.campaign, one.first_round, one.device_key))
            if asked is None:
                yield NotApproved("the device is not certified here, or was revoked.")
            elif asked != one.digest:
                yield WireError(
                    "the device has its tokens of this window; others are refused.",
                    problem="tokens-issued",
                )
            else:
                try:
                    yield [window.issuer.sign(blinded) for blinded in one.blinded]
                except RaseError as error:
                    yield error

    def _check_request(self, request: TokenRequest) -> "_Window | RaseError":
        window = self._window(request.campaign, request.first_round)
        if window is None or self._clock.now_s() >= window.key.issue_until_s:
            return WireError(
                "no tokens are issued for this window now: issuing ends before it begins.",
                problem="not-issuing",
            )
        if len(request.blinded) != window.key.reports:
            return WireError(
                f"a device must ask for all {window.key.reports} tokens of a window at once.",
                problem="bad-report",
            )
        if not request.is_signed():
            return NotApproved("the request must be signed by the device's key; it is not.")
        return window

    def _window(self, campaign: str, first_round: int) -> _Window | None:
        found = self._windows.get((campaign, first_round))
        if found is not None:
            return found
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT private, signed FROM token_key WHERE campaign = ? AND first_round = ? "
                "AND private IS NOT NULL AND signed IS NOT NULL",
                (campaign, first_round),
            )
        if not rows:
            return None
        private, signed = (bytes(part) for part in rows[0])
        if len(self._windows) > 64:
            self._windows.clear()
        key = SignedTokenKey.from_bytes(signed, self._pinned).key
        self._windows[campaign, first_round] = _Window(key, Issuer.from_der(private))
        return self._windows[campaign, first_round]


class WindowRow(NamedTuple):
    """Say how a token window stands.

    Args:
        campaign: The campaign's id.
        first_round: Its first round.
        last_round: Its last one.
        is_signed: Whether the shuffler signed its key.
        devices: How many devices fetched tokens.
    """

    campaign: str
    first_round: int
    last_round: int
    is_signed: bool
    devices: int


def window_rows(database: Database) -> list[WindowRow]:
    """Return the token windows that are kept, ascending."""
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT campaign, first_round, last_round, signed IS NOT NULL, (SELECT count(*) "
            "FROM issued WHERE issued.campaign = token_key.campaign AND "
            "issued.first_round = token_key.first_round) FROM token_key "
            "ORDER BY campaign, first_round"
        )
    return [WindowRow(name, a, b, bool(signed), count) for name, a, b, signed, count in rows]


def _known(transaction: Transaction, device_keys: Sequence[bytes]) -> set[bytes]:
    known: set[bytes] = set()
    for key in device_keys:
        rows = transaction.execute(
            "SELECT 1 FROM device WHERE device_key = ? AND is_revoked = 0", (key,)
        )
        if rows:
            known.add(key)
    return known


def _asked_first(transaction: Transaction, row: tuple[str, int, bytes, bytes]) -> bytes:
    ((digest,),) = transaction.execute(
        "SELECT digest FROM issued WHERE campaign = ? AND first_round = ? AND device_key = ?",
        row[:3],
    )
    return bytes(digest)
