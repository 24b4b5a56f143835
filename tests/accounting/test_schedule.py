"""Schedules: whole budgets in turn, equal shares, and reports that are repeated."""

import hashlib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from tests.cases import each_case
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, Ledger, OwnerLimits, create_ledger
from rase.accounting.schedule import EveryRound, Rotate, Schedule, Split, Turns
from rase.errors import BudgetSpent

OWNER = OwnerLimits(report_epsilon=10, span_epsilon=1000, total_epsilon=10_000)


def secret(number: int) -> bytes:
    """Return the secret of a device."""
    return hashlib.sha256(f"device {number}".encode()).digest()


@each_case("window", range(1, 13))
def test_any_window_holds_exactly_one_turn(window: int) -> None:
    """For every turn there is, and every window of consecutive rounds: one report, never two."""
    seen: set[int] = set()
    number = 0
    while len(seen) < window:
        rotate = Rotate(1.0, window, secret=secret(number), campaign="power")
        number += 1
        if rotate.turn in seen:
            continue
        seen.add(rotate.turn)
        turns = [rotate.epsilon_at(round) is not None for round in range(5 * window)]
        for begin in range(4 * window):
            assert sum(turns[begin : begin + window]) == 1


def test_a_fresh_turn_in_each_block_would_break_the_window() -> None:
    """The tempting way, a new turn for each block of rounds, puts two reports into one window."""
    window = 24
    rounds = [
        block * window + Rotate(1.0, window, secret=secret(1), campaign=f"power block {block}").turn
        for block in range(50)
    ]
    assert min(later - earlier for earlier, later in pairwise(rounds)) < window


def test_turns_are_spread_evenly_over_a_fleet() -> None:
    """Chi-square of 24,000 turns: fails one correct fleet in 10^9, and catches 30 % too many."""
    window, devices = 24, 24_000
    counts = [0] * window
    for number in range(devices):
        counts[Rotate(1.0, window, secret=secret(number), campaign="power").turn] += 1
    limit = chi2.isf(1e-9, window - 1)

    def distance(found: list[int]) -> float:
        mean = sum(found) / window
        return sum((count - mean) ** 2 for count in found) / mean

    assert distance(counts) < limit
    assert distance([round(1.3 * counts[0]), *counts[1:]]) > limit


def test_turns_differ_between_campaigns_and_windows() -> None:
    """Knowing a device's turn in one campaign tells nothing of another."""
    for campaign, window in (("heat", 24), ("power", 25)):
        others = [
            Rotate(1.0, window, secret=secret(number), campaign=campaign).turn
            for number in range(100)
        ]
        turns = [
            Rotate(1.0, 24, secret=secret(number), campaign="power").turn for number in range(100)
        ]
        assert sum(a == b for a, b in zip(turns, others, strict=True)) < 25


@given(st.floats(1e-6, 100), st.integers(1, 200))
def test_shares_fill_a_window_and_never_overfill_it(budget: float, window: int) -> None:
    """The shares of a window add up to its budget, but for less than a billionth each."""
    share = Split(budget, window).epsilon_at(0)
    spent = round(share * 10**9) * window
    limits = CampaignLimits("power", 3600, window=window, window_epsilon=budget)
    assert limits.window_nano - window < spent <= limits.window_nano


@pytest.mark.parametrize(
    ("schedule", "reports"),
    [
        (Split(1.0, 7), 30),
        (Rotate(1.0, 7, secret=bytes(16), campaign="power"), 4),
        (EveryRound(0.3), 14),
    ],
    ids=["split", "rotate", "every round"],
)
def test_the_ledger_lets_a_schedule_through(
    schedule: Schedule, reports: int, tmp_path: Path
) -> None:
    """Split and rotate are never refused; reporting every round is, until budget is back."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    made = refused = 0
    with Ledger(path, OWNER) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=7, window_epsilon=1.0))
        for round in range(30):
            epsilon = schedule.epsilon_at(round)
            if epsilon is None:
                continue
            try:
                spend(ledger, "power", round, epsilon=epsilon, draw=b"")
                made += 1
            except BudgetSpent:
                refused += 1
    assert made == reports
    assert bool(refused) == isinstance(schedule, EveryRound)


def test_secrets_are_not_shown() -> None:
    """No repr holds a secret."""
    hidden = b"sixteen letters!"
    assert "sixteen" not in repr(Rotate(1.0, 24, secret=hidden, campaign="power"))


@each_case("window", [0, -1])
def test_windows_below_one_are_refused(window: int) -> None:
    """A window has a round."""
    with pytest.raises(ValueError, match="window must be at least 1, got"):
        Split(1.0, window)
    with pytest.raises(ValueError, match="window must be at least 1, got"):
        Rotate(1.0, window, secret=bytes(16), campaign="power")


@each_case("window", [1.5, True])
def test_windows_that_are_not_whole_are_refused(window: Any) -> None:
    """Half a round is none."""
    with pytest.raises(TypeError, match="window must be a whole number, got"):
        Split(1.0, window)


@each_case("epsilon", [0, -1, float("nan"), float("inf")])
def test_budgets_that_are_none_are_refused(epsilon: float) -> None:
    """Only a positive number is a budget."""
    with pytest.raises(ValueError, match="window_epsilon must be greater than 0"):
        Split(epsilon, 24)
    with pytest.raises(ValueError, match="window_epsilon must be greater than 0"):
        Rotate(epsilon, 24, secret=bytes(16), campaign="power")
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        EveryRound(epsilon)


def test_a_budget_too_small_to_split_is_refused() -> None:
    """A share of nothing would be no report."""
    with pytest.raises(ValueError, match="window must leave at least 1e-09 for each round, got 24"):
        Split(1e-9, 24)


def test_short_secrets_are_refused() -> None:
    """A secret that can be guessed is none."""
    with pytest.raises(ValueError, match="secret must have at least 16 bytes, got 3"):
        Rotate(1.0, 24, secret=b"abc", campaign="power")


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 5), min_size=1),
    st.integers(1, 5000),
    st.binary(min_size=16, max_size=32),
    st.integers(0, 2**32),
)
def test_each_turn_is_of_one_quantity_and_each_cycle_fair(
    shares: dict[str, int], turn_s: int, secret: bytes, second: int
) -> None:
    """Any cycle has exactly the stated turns of each; within a turn nothing changes."""
    turns, length = Turns(shares, turn_s, secret=secret), sum(shares.values())
    cycle = second // turn_s // length
    starts = [(cycle * length + place) * turn_s for place in range(length)]
    assert Counter(turns.campaign_at(one) for one in starts) == shares
    start_s = second // turn_s * turn_s
    assert turns.campaign_at(second) == turns.campaign_at(start_s)


def test_devices_take_their_turns_in_orders_of_their_own() -> None:
    """Of 400 devices about half report power at any moment: 3.3 standard deviations at most."""
    for turn in range(6):
        found = sum(
            Turns({"power": 1, "heat": 1}, 60, secret=device.to_bytes(16, "big")).campaign_at(
                60 * turn
            )
            == "power"
            for device in range(400)
        )
        assert 167 <= found <= 233


@each_case(
    ("shares", "turn_s", "words"),
    [({}, 1, "shares must"), ({"a": 0}, 1, "turns must"), ({"a": 1}, 0, "turn_s must")],
)
def test_turns_that_mean_nothing_are_refused(
    shares: dict[str, int], turn_s: int, words: str
) -> None:
    """By name."""
    with pytest.raises(ValueError, match=words):
        Turns(shares, turn_s, secret=bytes(16))
