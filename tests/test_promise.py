"""Claims: rows of numbers that are signed, and the sentences that follow from them."""

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.cases import each_case

from rase.promise import Claim, claim_for, reports_within

ROUND = Claim(1, 0.986, 1e-6, 0.543, 0.645, 0.807, 3.3)
DAY = Claim(24, 5.0, 1e-6, 0.7, 3.0, 4.0, 79.2)


@each_case(
    "change",
    [
        {"reports": 0},
        {"reports": True},
        {"reports": 1.0},
        {"epsilon": -0.1},
        {"epsilon": math.inf},
        {"epsilon": 3.4},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"guess": 0.49},
        {"guess": math.nan},
        {"loss_in_100": 0.9},
        {"loss_in_1000": 3.4},
        {"local_epsilon": True},
    ],
)
def test_what_cannot_be_a_claim_is_refused(change: dict[str, Any]) -> None:
    """Numbers out of bounds or out of order never make a claim."""
    with pytest.raises(ValueError, match=f"{next(iter(change))}|ascend"):
        replace(ROUND, **change)


def test_a_claim_is_read_as_it_was_written() -> None:
    """Numbers come back as they were signed; others are refused."""
    assert Claim.from_numbers(ROUND.to_numbers()) == ROUND
    with pytest.raises(ValueError, match="7 numbers, got 6"):
        Claim.from_numbers(ROUND.to_numbers()[1:])
    with pytest.raises(ValueError, match="whole number"):
        Claim.from_numbers((1.5, *ROUND.to_numbers()[1:]))


def test_the_sentence_states_both_promises_rounded_up() -> None:
    """The price stands in the same sentence, and no percentage is rounded down."""
    words = ROUND.sentence()
    assert "at most 54.3 % of the time" in words
    assert f"more than {math.ceil(1000 / (1 + math.exp(-0.807))) / 10:g} % sure" in words
    assert "If both servers work together: up to 96.5 %." in words
    assert "1 round of 1,000" in words
    assert ROUND.summary == (
        "towards the fusion centre: (0.986, 1e-06)-DP; if both servers work together: epsilon 3.3"
    )


def test_hardly_any_protection_is_called_so() -> None:
    """A day whose local epsilon is large is not presented as protected from both servers."""
    assert DAY.sentence("day").endswith("up to 100 %, which is hardly any protection.")
    assert "two series of values" in DAY.sentence("day")
    bare = replace(ROUND, guess=0.995, epsilon=3.0)
    assert "100 %" not in bare.sentence().split("(")[0]
    assert "which is hardly any protection. In at most" in bare.sentence()
    assert "In at most" not in replace(DAY, loss_in_1000=9.0).sentence("day")


def test_certainties_are_those_of_the_losses() -> None:
    """Log-odds become certainties; only the two levels stored are known."""
    assert ROUND.surer(100) == pytest.approx(0.6559, abs=1e-4)
    assert ROUND.surer() == pytest.approx(0.6915, abs=1e-4)
    with pytest.raises(ValueError, match="one_in must be 100 or 1000, got 10"):
        ROUND.surer(10)


def test_the_next_larger_row_covers_what_lies_between() -> None:
    """A number of reports without a row has the claim of more reports, and none beyond the end."""
    table = [ROUND, DAY]
    assert claim_for(table, 1) is ROUND
    assert claim_for(table, 2) is DAY
    assert claim_for(table, 25) is None


def test_both_caps_limit_the_reports() -> None:
    """The most reports for which neither number is passed; none if the first passes one."""
    table = [ROUND, replace(ROUND, reports=2, epsilon=1.4, local_epsilon=6.6), DAY]
    assert reports_within(table) == 24
    assert reports_within(table, shuffled_epsilon=1.4) == 2
    assert reports_within(table, local_epsilon=6.5) == 1
    assert reports_within(table, shuffled_epsilon=0.9, local_epsilon=100) == 0
