"""The registrar's tokens in the ledger: which windows were begun, and what is left of each.

A token leaves the ledger in the transaction that stores the report it is in, so that no crash uses
one twice or loses one.
"""

from dataclasses import dataclass, field

from rase.accounting.ledger.file import LedgerFile

__all__ = ["StoredWindow", "TokenStock"]


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """What is stored of a token window.

    Args:
        campaign: The campaign's id.
        first_round: Its first round.
        last_round: Its last one.
        key: Its signed key, as it was published.
        seed: What its tokens follow from; None once they are here.
        left: How many tokens are left.
    """

    campaign: str
    first_round: int
    last_round: int
    key: bytes = field(repr=False)
    seed: bytes | None = field(repr=False)
    left: int


class TokenStock:
    """Read and write the tokens of a ledger's file.

    Args:
        file: The open ledger.
    """

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def windows(self) -> list[StoredWindow]:
        """Return the windows that were begun."""
        with self._file.reading():
            rows = self._file.rows(
                "SELECT campaign, first_round, last_round, key, seed, (SELECT count(*) FROM token "
                "WHERE token.campaign = token_window.campaign AND "
                "token.first_round = token_window.first_round) FROM token_window "
                "ORDER BY campaign, first_round"
            )
        return [StoredWindow(*row) for row in rows]

    def begin(self, campaign: str, rounds: tuple[int, int], *, key: bytes, seed: bytes) -> None:
        """Store a window's seed, unless the window was begun before."""
        with self._file.writing():
            self._file.rows(
                "INSERT INTO token_window (campaign, first_round, last_round, key, seed) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                campaign,
                *rounds,
                key,
                seed,
            )

    def keep(self, campaign: str, first_round: int, tokens: list[bytes]) -> None:
        """Store a window's tokens and erase their seed, in one transaction and once."""
        with self._file.writing():
            begun = self._file.rows(
                "UPDATE token_window SET seed = NULL WHERE campaign = ? AND first_round = ? "
                "AND seed IS NOT NULL RETURNING first_round",
                campaign,
                first_round,
            )
            for token in tokens if begun else ():
                self._file.rows(
                    "INSERT INTO token (campaign, first_round, token) VALUES (?, ?, ?)",
                    campaign,
                    first_round,
                    token,
                )

    def take(self, campaign: str, round: int) -> bytes | None:
        """Return a token of a round's window and remove it; inside a transaction that writes."""
        rows = self._file.rows(
            "DELETE FROM token WHERE id = (SELECT min(token.id) FROM token JOIN token_window "
            "USING (campaign, first_round) WHERE campaign = ? AND first_round <= ? "
            "AND last_round >= ?) RETURNING token",
            campaign,
            round,
            round,
        )
        return bytes(rows[0][0]) if rows else None

    def drop(self, campaign: str, before: int) -> None:
        """Erase windows that ended before a round, with what is left of them."""
        gone = "campaign = ? AND last_round < ?"
        with self._file.writing():
            self._file.rows(
                f"DELETE FROM token WHERE campaign = ? AND first_round IN "  # noqa: S608 - fixed words
                f"(SELECT first_round FROM token_window WHERE {gone})",
                campaign,
                campaign,
                before,
            )
            self._file.rows(
                f"DELETE FROM token_window WHERE {gone}",  # noqa: S608 - fixed words
                campaign,
                before,
            )
