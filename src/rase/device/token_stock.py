"""What tokens a device has, in words for its owner: without one it sends no report."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rase.accounting.ledger.tokens import StoredWindow

__all__ = ["TokenStock", "stock_of"]

# The last second that has a date here.
_LAST_S: Final = 253_402_300_799


@dataclass(frozen=True, slots=True)
class TokenStock:
    """Say how many tokens there are, for now and for later.

    Args:
        left: How many are left of the present window.
        until_s: When that window ends; None if there is none.
        next_s: When the next window begins of which there are tokens; None if there is none.
        is_waiting: Whether the registrar was asked for tokens, or is about to be.
    """

    left: int
    until_s: int | None
    next_s: int | None
    is_waiting: bool

    @property
    def words(self) -> str:
        """One sentence or two."""
        if self.left and self.until_s is not None:
            return f"{self.left} left until {_time(self.until_s)}."
        why = "none left" if self.until_s is not None else "none yet"
        if self.next_s is not None:
            return f"{why}: no report is made before {_time(self.next_s)}, when the next begin."
        if self.is_waiting:
            return f"{why}: the registrar is asked, and no report is made before it has answered."
        return (
            f"{why}: no report is made before the registrar gives some. It gives those of a time "
            "before that time begins, so a new device waits for the next; if this lasts, ask its "
            "operator."
        )


def stock_of(
    windows: "Iterable[StoredWindow]", campaign: str, *, round_s: int, now_s: float
) -> TokenStock:
    """Return what a ledger holds for a campaign.

    Args:
        windows: The ledger's token windows.
        campaign: The campaign's id.
        round_s: How long its rounds are.
        now_s: The time.
    """
    # The round that ends next is reported with a token of its own window.
    present = int(now_s // round_s)
    ours = [one for one in windows if one.campaign == campaign]
    now = [one for one in ours if one.first_round <= present <= one.last_round]
    later = [one for one in ours if one.first_round > present]
    filled = [one for one in later if one.left]
    return TokenStock(
        left=sum(one.left for one in now),
        until_s=(max(one.last_round for one in now) + 1) * round_s if now else None,
        next_s=min(one.first_round for one in filled) * round_s if filled else None,
        is_waiting=any(one.seed is not None for one in later),
    )


def _time(time_s: int) -> str:
    return f"{datetime.fromtimestamp(min(time_s, _LAST_S), UTC):%Y-%m-%d %H:%M:%S} UTC"
