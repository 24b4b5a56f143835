"""Limits that check themselves, and epsilon in whole billionths."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.accounting.ledger.limits import CampaignLimits, OwnerLimits
from rase.accounting.ledger.nano import nano_from_limit, nano_from_spending, nano_to_epsilon


@given(st.floats(1e-9, 1e6))
def test_spending_rounds_up_and_limits_round_down(epsilon: float) -> None:
    """The decimal a user typed lies between the two, which differ by one at most."""
    typed = Fraction(repr(epsilon)) * 10**9
    down, up = nano_from_limit("limit", epsilon), nano_from_spending("epsilon", epsilon)
    assert down <= typed <= up
    assert up - down <= 1


@given(st.integers(1, 10**15))
def test_billionths_survive_the_way_through_a_float(nano: int) -> None:
    """What a schedule offers as a float is spent as exactly the same billionths."""
    assert nano_from_spending("epsilon", nano_to_epsilon(nano)) == nano
    assert nano_from_limit("limit", nano_to_epsilon(nano)) == nano


def test_numbers_of_other_kinds_are_taken() -> None:
    """A NumPy float and a whole number are numbers."""
    assert nano_from_spending("epsilon", np.float64(0.1)) == 100_000_000
    assert nano_from_limit("limit", 2) == 2_000_000_000


@each_case("wrong", ["1", None, True, b"2"])
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    """Texts and truth values are no epsilon."""
    with pytest.raises(TypeError, match="epsilon must be a number, got"):
        nano_from_spending("epsilon", wrong)


def test_a_limit_below_a_billionth_is_refused() -> None:
    """A limit that rounds to nothing is a mistake, not a ban."""
    with pytest.raises(ValueError, match="span_epsilon must be at least 1e-09, got 1e-10"):
        OwnerLimits(report_epsilon=1, span_epsilon=1e-10, total_epsilon=1)


@each_case(
    ("changes", "message"),
    [
        ({"campaign": ""}, "campaign must be a name, got ''"),
        ({"round_s": 0}, "round_s must be between 1 and 3155760000, got 0"),
        ({"window": 0}, "window must be between 1 and 876600, got 0"),
        ({"window": 10**6}, "window must be between 1 and 876600, got 1000000"),
        ({"window_epsilon": 0}, "window_epsilon must be greater than 0"),
        ({"window_epsilon": float("nan")}, "window_epsilon must be greater than 0"),
        ({"total_epsilon": -1}, "total_epsilon must be greater than 0"),
    ],
)
def test_campaign_limits_check_themselves(changes: dict[str, Any], message: str) -> None:
    """Each number out of bounds is named."""
    good = {"campaign": "power", "round_s": 3600, "window": 24, "window_epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        CampaignLimits(**{**good, **changes})


@each_case("wrong", [1.5, True, "24"])
def test_windows_are_whole_numbers(wrong: Any) -> None:
    """Half a round is none."""
    with pytest.raises(TypeError, match="window must be a whole number, got"):
        CampaignLimits("power", 3600, window=wrong, window_epsilon=1)


def test_owner_limits_check_themselves() -> None:
    """Each number out of bounds is named."""
    for name in ("report_epsilon", "span_epsilon", "total_epsilon"):
        with pytest.raises(ValueError, match=f"{name} must be greater than 0"):
            OwnerLimits(**{"report_epsilon": 1, "span_epsilon": 1, "total_epsilon": 1, name: 0})
    with pytest.raises(ValueError, match="span_s must be between 1 and"):
        OwnerLimits(report_epsilon=1, span_epsilon=1, total_epsilon=1, span_s=0)


@pytest.mark.parametrize("most_delta", [0.0, 1.0, float("nan")])
def test_a_delta_is_a_probability(most_delta: float) -> None:
    """The largest delta of claims lies between 0 and 1."""
    with pytest.raises(ValueError, match="most_delta must be between 0 and 1"):
        OwnerLimits(1.0, 1.0, 1.0, most_delta=most_delta)


def test_limits_towards_the_fusion_centre_check_themselves() -> None:
    """Each is a number that a ledger can count, or there is none."""
    with pytest.raises(ValueError, match=r"^shuffled_epsilon must be greater than 0"):
        OwnerLimits(1.0, 1.0, 1.0, shuffled_epsilon=0.0)
    with pytest.raises(ValueError, match=r"^span_shuffled_epsilon must be greater than 0"):
        OwnerLimits(1.0, 1.0, 1.0, span_shuffled_epsilon=0.0)
    assert OwnerLimits(1.0, 1.0, 1.0).shuffled_nano is None
    assert OwnerLimits(1.0, 1.0, 1.0, span_shuffled_epsilon=0.5).span_shuffled_nano == 5 * 10**8
