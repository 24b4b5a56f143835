"""The guide to budgets runs as it is printed."""

import doctest
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "budget.md"


def test_every_example_of_the_guide_runs() -> None:
    """The code blocks give what stands below them."""
    flags = doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(GUIDE), module_relative=False, optionflags=flags)
    assert found.attempted > 20
    assert found.failed == 0
