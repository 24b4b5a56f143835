"""Mistakes: each check lets good values pass and names bad ones, and all are told at once."""

import pytest
from tests.cases import each_case

from rase.validation import CampaignInvalid, Mistakes, quote_value


def test_good_values_leave_no_mistake() -> None:
    """Values at the ends of what is allowed pass, and nothing is raised."""
    mistakes = Mistakes()
    for whole in (1, 9):
        mistakes.whole("count", whole, low=1, high=9)
    for number in (0, 0.5, 1.0):
        mistakes.number("share", number, low=0.0, high=1.0)
    mistakes.budgets("epsilon", [0.5, 2], most=2, low=0.5, high=2.0)
    mistakes.identifier("id", "a-1")
    mistakes.text("unit", "", least=0)
    mistakes.choice("kem", "x25519", ("x25519", "x-wing"))
    assert mistakes.names("groups", ("a", "b"), most=2)
    mistakes.raise_if_any()
    assert mistakes.found == []


@each_case("value", [0, 10, 1.0, True, "1", None])
def test_what_is_no_whole_number_between_the_ends_is_named(value: object) -> None:
    """Beyond an end, a fraction, a truth value and a text are none."""
    mistakes = Mistakes()
    mistakes.whole("count", value, low=1, high=9)
    assert mistakes.found == [f"count must be a whole number from 1 to 9, got {value!r}."]


@each_case("value", [[], [1.0, 1.0, 1.0], 1.0, [9.0], [True]])
def test_what_is_no_list_of_budgets_is_named(value: object) -> None:
    """None, too many, one outside the list, and budgets beyond an end are refused."""
    mistakes = Mistakes()
    mistakes.budgets("epsilon", value, most=2, low=0.5, high=2.0)
    assert len(mistakes.found) == 1
    assert mistakes.found[0].startswith("epsilon must be ")


def test_all_mistakes_are_raised_together() -> None:
    """The refusal holds each sentence, in the order of the checks."""
    mistakes = Mistakes()
    mistakes.identifier("id", "A b")
    mistakes.text("unit", " W", least=0)
    assert not mistakes.names("groups", ["a", "a"], most=4)
    with pytest.raises(CampaignInvalid) as refused:
        mistakes.raise_if_any()
    assert [text.split(" ")[0] for text in refused.value.mistakes] == ["id", "unit", "groups"]


def test_long_values_are_cut() -> None:
    """What is quoted has at most 80 characters."""
    assert len(quote_value("x" * 5000)) == 80
