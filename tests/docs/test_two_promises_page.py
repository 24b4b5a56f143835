"""The page on two promises holds what is computed today."""

import pytest
from scripts.optimal_ladder import RUNGS
from scripts.two_promises_page import PAGE, main, page_with_tables

from rase.laws.ladder import rungs


def test_the_tables_are_as_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """Every table of the page is printed again, digit by digit; a page without one is refused."""
    text = PAGE.read_text(encoding="utf-8")
    assert main([]) == 0
    assert capsys.readouterr().out == text
    with pytest.raises(ValueError, match="the page must hold one table one round, got 0"):
        page_with_tables("")


def test_the_ladder_can_be_solved_again() -> None:
    """The script that solves the shipped channels knows all their budgets."""
    assert sorted(RUNGS) == list(rungs())
