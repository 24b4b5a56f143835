"""Make the keys of token windows ahead, have the shuffler countersign them, erase them in time."""

from collections.abc import Iterator
from typing import Protocol

from rase.campaign import Campaign
from rase.clock import Clock, round_number, round_start_s
from rase.errors import RaseError
from rase.service.acts import AUTOMATIC, record_act
from rase.service.telemetry import Telemetry
from rase.storage.interface import Database, Transaction
from rase.wire.issuing import Issuer
from rase.wire.signed import PinnedKeys, SignedCampaign, sign_with, versions_from_bytes
from rase.wire.tokens import MAX_TOKEN_REPORTS, SignedTokenKey, TokenKey

__all__ = ["KeyRefused", "Peer", "Upkeep", "windows_ahead"]

# After a window's last round is closed, its row is of no use to anybody.
_KEEP_S = 86_400


class KeyRefused(RaseError):
    """The shuffler answered that it does not sign a key, and will not."""

    exit_code = 4


class Peer(Protocol):
    """The shuffler, as the registrar asks it; HTTP in life, a function in tests."""

    def versions(self, campaign: str) -> bytes | None:
        """Return the published versions of a campaign; None if there is none yet."""
        ...

    def sign(self, key: TokenKey, registrar_signature: bytes) -> bytes:
        """Return the shuffler's signature of a key.

        Raises:
            KeyRefused: If the shuffler will never sign this key.
            RaseError: If the shuffler does not answer now.
        """
        ...


class Upkeep:
    """Do what is due, again and again; every step can be repeated.

    Args:
        database: The registrar's.
        clock: The time.
        secret: The registrar's signing key.
        pinned: The public signing keys.
        peer: The shuffler.
        campaigns: The ids of the campaigns whose devices get tokens.
        window_rounds: How long a token window is; 0 for the campaign's own window.
        lead_s: How long before a window its tokens can be fetched at least; 0 for a round.
        windows: How many windows are ahead at least.
        telemetry: Logs what happens.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        secret: bytes,
        pinned: PinnedKeys,
        peer: Peer,
        campaigns: list[str],
        window_rounds: int = 0,
        lead_s: int = 0,
        windows: int = 2,
        telemetry: Telemetry,
    ) -> None:
        self._database = database
        self._clock = clock
        self._secret = secret
        self._pinned = pinned
        self._peer = peer
        self._campaigns = campaigns
        self._window_rounds = window_rounds
        self._lead_s = lead_s
        self._ahead = windows
        self._telemetry = telemetry

    def step(self) -> None:
        """Make the keys that are due, have them signed, and erase what is over.

        Raises:
            RaseError: If the shuffler or the database cannot be used; nothing is lost by that.
        """
        self._erase()
        for name in self._campaigns:
            campaign = self._campaign(name)
            if campaign is not None:
                self._make(campaign)
        self._sign()

    def _campaign(self, name: str) -> Campaign | None:
        data = self._peer.versions(name)
        if data is None:
            return None
        versions = [
            SignedCampaign.from_bytes(one, self._pinned).campaign
            for one in versions_from_bytes(data)
        ]
        return versions[-1]

    def _make(self, campaign: Campaign) -> None:
        with self._database.snapshot() as transaction:
            last = _last_round(transaction, campaign.id)
        for first, until in windows_ahead(
            campaign,
            last_round=last,
            now_s=self._clock.now_s(),
            window_rounds=self._window_rounds,
            lead_s=self._lead_s,
            windows=self._ahead,
        ):
            issuer = Issuer.generate()
            key = TokenKey(
                campaign=campaign.id,
                first_round=first,
                last_round=until,
                reports=min(campaign.most_reports(until - first + 1), MAX_TOKEN_REPORTS),
                issue_until_s=round_start_s(first, campaign.round_s),
                modulus=issuer.modulus.to_bytes(256, "big"),
            )
            with self._database.transaction() as transaction:
                # Another process may have been faster.
                if _last_round(transaction, campaign.id) != last:
                    return
                transaction.execute(
                    "INSERT INTO token_key (campaign, first_round, last_round, issue_until_s, "
                    "over_s, body, private) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        key.campaign,
                        first,
                        until,
                        key.issue_until_s,
                        campaign.closes_s(until) + _KEEP_S,
                        key.to_bytes(),
                        issuer.to_der(),
                    ),
                )
                record_act(
                    transaction,
                    "make token key",
                    f"{key.campaign} rounds {first} to {until}",
                    now_s=self._clock.now_s(),
                    by=AUTOMATIC,
                )
            last = until

    def _sign(self) -> None:
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT body FROM token_key WHERE signed IS NULL AND private IS NOT NULL "
                "ORDER BY first_round"
            )
        for (body,) in rows:
            key = TokenKey.from_bytes(bytes(body))
            own = sign_with(self._secret, key.signing_input("registrar"))
            try:
                signed = SignedTokenKey(key, own, self._peer.sign(key, own))
            except KeyRefused as error:
                # As after an older backup was put back: the shuffler signed another key for these
                # rounds, whose private side is lost. The windows after them are not.
                self._give_up(key)
                self._telemetry.event("token_key_refused", campaign=key.campaign, error=str(error))
                continue
            SignedTokenKey.from_bytes(signed.to_bytes(), self._pinned)
            with self._database.transaction() as transaction:
                transaction.execute(
                    "UPDATE token_key SET signed = ? WHERE campaign = ? AND first_round = ?",
                    (signed.to_bytes(), key.campaign, key.first_round),
                )
            self._telemetry.count("token_keys")
            self._telemetry.event(
                "token_key", campaign=key.campaign, round=key.first_round, count=key.reports
            )

    def _give_up(self, key: TokenKey) -> None:
        """Keep a window as one that has no key here, until it is over."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE token_key SET private = NULL WHERE campaign = ? AND first_round = ?",
                (key.campaign, key.first_round),
            )

    def _erase(self) -> None:
        """Erase private keys when issuing is over, and all else of a window when it is."""
        now_s = int(self._clock.now_s())
        with self._database.snapshot() as transaction:
            due = transaction.execute(
                "SELECT 1 FROM token_key WHERE over_s <= ? OR (private IS NOT NULL AND "
                "issue_until_s <= ?) LIMIT 1",
                (now_s, now_s),
            )
        if not due:
            return
        with self._database.transaction() as transaction:
            # What was not signed in time never was a key; a later window may have its rounds.
            gone = transaction.execute(
                "DELETE FROM token_key WHERE over_s <= ? OR (signed IS NULL AND "
                "private IS NOT NULL AND issue_until_s <= ?) RETURNING campaign, first_round",
                (now_s, now_s),
            )
            transaction.execute(
                "UPDATE token_key SET private = NULL WHERE issue_until_s <= ?", (now_s,)
            )
            transaction.execute_many(
                "DELETE FROM issued WHERE campaign = ? AND first_round = ?", gone
            )
        self._database.scrub()


def windows_ahead(
    campaign: Campaign,
    *,
    last_round: int | None,
    now_s: float,
    window_rounds: int,
    lead_s: int,
    windows: int,
) -> Iterator[tuple[int, int]]:
    """Yield the first and last round of each token window that must be made now.

    Windows end at multiples of their length. The first one, and the first after the registrar was
    away, begins as soon as its tokens can still be fetched in time.

    Args:
        campaign: The campaign.
        last_round: The last round that has a key; None for none.
        now_s: The time.
        window_rounds: The length; 0 for the campaign's window. Whole blocks are taken.
        lead_s: How long tokens can be fetched at least; 0 for a round.
        windows: How many windows are ahead at least.
    """
    block = campaign.carry_rounds + 1
    length = window_rounds or campaign.window
    length = -(-length // block) * block
    lead_s = lead_s or campaign.round_s
    # The first round whose beginning is far enough away, at a block's first.
    soonest = round_number(int(now_s) + lead_s, campaign.round_s) + 1
    soonest = -(-max(soonest, campaign.not_before) // block) * block
    first = soonest if last_round is None else max(soonest, last_round + 1)
    until_s = now_s + lead_s + windows * length * campaign.round_s
    while first <= campaign.not_after and round_start_s(first, campaign.round_s) < until_s:
        until = (first // length + 1) * length - 1
        yield first, until
        first = until + 1


def _last_round(transaction: Transaction, campaign: str) -> int | None:
    ((last,),) = transaction.execute(
        "SELECT max(last_round) FROM token_key WHERE campaign = ?", (campaign,)
    )
    return None if last is None else int(last)
