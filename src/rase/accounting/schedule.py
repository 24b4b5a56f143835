"""When a device reports and with how much: every round, a little each round, or all at its turn.

A schedule proposes, the ledger disposes: whatever a schedule says, `Ledger.spend` holds the window
budget. Pure Python without NumPy, because the device agent imports it.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rase.accounting.ledger.nano import nano_from_limit, nano_from_spending, nano_to_epsilon

__all__ = ["EveryRound", "Rotate", "Schedule", "Split", "Turns"]

_SECRET_BYTES = 16
_MOST_TURNS = 64


class Schedule(Protocol):
    """Say for each round whether to report, and with which budget."""

    def epsilon_at(self, round: int) -> float | None:
        """Return the epsilon to report with, or None to stay silent (or send a cover report)."""
        ...


@dataclass(frozen=True, slots=True)
class EveryRound:
    """Report in every round with the same epsilon, until the ledger refuses.

    Args:
        epsilon: The budget of one report.

    Example:
        >>> EveryRound(0.5).epsilon_at(7)
        0.5
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Check the number once."""
        nano_from_spending("epsilon", self.epsilon)

    def epsilon_at(self, round: int) -> float:
        """Return the same epsilon for every round."""
        return self.epsilon


@dataclass(frozen=True, slots=True)
class Split:
    """Report in every round with an equal share of the window's budget.

    The share is cut to whole billionths, so that ``window`` of them fit exactly.

    Args:
        window_epsilon: The budget of any window.
        window: How many rounds share it.

    Raises:
        ValueError: If the window is below 1 or the share would be 0.

    Example:
        >>> Split(1.0, 24).epsilon_at(7)
        0.041666666
    """

    window_epsilon: float
    window: int

    def __post_init__(self) -> None:
        """Check both numbers once."""
        nano = _checked_budget(self.window_epsilon, self.window)
        if nano < self.window:
            raise ValueError(
                f"window must leave at least 1e-09 for each round, got {self.window} rounds for "
                f"epsilon {self.window_epsilon}."
            )

    def epsilon_at(self, round: int) -> float:
        """Return the share of one round."""
        nano = nano_from_limit("window_epsilon", self.window_epsilon)
        return nano_to_epsilon(nano // self.window)


@dataclass(frozen=True, slots=True)
class Rotate:
    """Report once in every window with its whole budget, at the device's own turn.

    The turn is ``HMAC-SHA-256(secret, campaign, window) mod window``, the same in every window: the
    device reports in the rounds r with ``r mod window = turn``.

    Why it keeps w-event privacy: two of those rounds differ by a multiple of the window, so any
    ``window`` consecutive rounds contain exactly one of them, and spend exactly the budget. A fresh
    turn for each block of rounds would not do: the last round of one block and the first of the
    next are neighbours, and two whole budgets would fall into one window.

    Why it is even: to whoever lacks the secrets the turns are independent and uniform, so n devices
    give each round a binomial number of reports around n / window.

    What to know: if the window is a day, a device reports at the same time each day, and the
    estimate of 15:00 always comes from the same devices. A window that shares no factor with the
    rounds of a day, such as 25 hours, takes each device through all hours.

    Args:
        window_epsilon: The budget of any window.
        window: How many rounds share it.
        secret: The device's secret, at least 16 bytes; never leaves the device.
        campaign: The campaign's name, so that turns differ between campaigns.

    Raises:
        ValueError: If an argument is out of bounds.

    Example:
        >>> turns = Rotate(1.0, 24, secret=bytes(16), campaign="power")
        >>> [r for r in range(72) if turns.epsilon_at(r)]
        [21, 45, 69]
    """

    window_epsilon: float
    window: int
    secret: bytes = field(repr=False, kw_only=True)
    campaign: str = field(kw_only=True)

    def __post_init__(self) -> None:
        """Check the arguments once."""
        _checked_budget(self.window_epsilon, self.window)
        _check_secret(self.secret)

    @property
    def turn(self) -> int:
        """The device's round within each window."""
        digest = _keyed_hash(self.secret, b"rotate", self.campaign, self.window.to_bytes(8, "big"))
        return int.from_bytes(digest, "big") % self.window

    def epsilon_at(self, round: int) -> float | None:
        """Return the whole budget in the device's turn, otherwise None."""
        if round % self.window != self.turn:
            return None
        return nano_to_epsilon(nano_from_limit("window_epsilon", self.window_epsilon))


@dataclass(frozen=True, slots=True)
class Turns:
    """Say which of several quantities of a device is reported when, under one budget.

    Time is cut into turns, and turns into cycles in which each quantity has its number of turns, in
    an order of the cycle's own: by ``HMAC-SHA-256(secret, quantity, cycle and number)``.

    Guarantee: each turn is of exactly one quantity and each cycle has exactly the stated turns of
    each, whatever the readings are; to whoever lacks the secrets, devices have independent orders.
    It is no budget: the ledger holds every limit over all quantities. Tested in
    tests/accounting/test_schedule.py.

    Args:
        shares: How many turns of a cycle each quantity has, by its campaign.
        turn_s: The length of a turn in seconds; a multiple of the rounds' lengths lets no turn end
            within a round.
        secret: The device's secret, at least 16 bytes; never leaves the device.

    Raises:
        ValueError: If an argument is out of bounds.

    Example:
        >>> turns = Turns({"power": 2, "heat": 1}, 3600, secret=bytes(16))
        >>> [turns.campaign_at(3600 * turn) for turn in range(6)]
        ['heat', 'power', 'power', 'power', 'power', 'heat']
    """

    shares: Mapping[str, int]
    turn_s: int
    secret: bytes = field(repr=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check the arguments once."""
        _check_secret(self.secret)
        if self.turn_s < 1:
            raise ValueError(f"turn_s must be at least 1, got {self.turn_s}.")
        for name, turns in self.shares.items():
            if not 1 <= turns <= _MOST_TURNS:
                raise ValueError(
                    f"turns must be from 1 to {_MOST_TURNS}, got {turns} for campaign {name!r}."
                )
        if not self.shares:
            raise ValueError("shares must name at least one campaign, got none.")

    def campaign_at(self, second: int) -> str:
        """Return whose turn it is at a second since 1970."""
        cycle, place = divmod(second // self.turn_s, sum(self.shares.values()))
        slots = [
            (_keyed_hash(self.secret, b"turns", name, struct.pack(">QQ", cycle, number)), name)
            for name, turns in self.shares.items()
            for number in range(turns)
        ]
        return sorted(slots)[place][1]


def _checked_budget(window_epsilon: float, window: int) -> int:
    nano = nano_from_limit("window_epsilon", window_epsilon)
    if isinstance(window, bool) or not isinstance(window, int):
        raise TypeError(f"window must be a whole number, got {window!r}.")
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}.")
    return nano


def _check_secret(secret: bytes) -> None:
    if len(secret) < _SECRET_BYTES:
        raise ValueError(f"secret must have at least {_SECRET_BYTES} bytes, got {len(secret)}.")


def _keyed_hash(secret: bytes, purpose: bytes, campaign: str, detail: bytes) -> bytes:
    """Return a keyed hash; the length of the name keeps two different inputs apart."""
    name = campaign.encode()
    message = b"rase 1 " + purpose + len(name).to_bytes(4, "big") + name + detail
    return hmac.new(secret, message, hashlib.sha256).digest()
