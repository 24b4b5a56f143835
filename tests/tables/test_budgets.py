"""Files of what owners allow."""

from pathlib import Path

import pytest

from rase.errors import DataError
from rase.tables.budgets import BudgetClasses, read_budgets


def test_budgets_are_read_and_lower_the_common_one(tmp_path: Path) -> None:
    """A heading and empty lines are left out; who is not named has the common budget."""
    file = tmp_path / "owners.csv"
    file.write_text("device,epsilon\n\nkettle, 0.5\nfridge,9\n")
    allowed = read_budgets(file)
    assert allowed == {"kettle": 0.5, "fridge": 9.0}
    classes = BudgetClasses(allowed, 2.0)
    assert classes.of(["oven", "kettle", "fridge"]).tolist() == [2.0, 0.5, 2.0]
    assert classes.budgets == (0.5, 2.0)
    assert classes.counted(["oven", "kettle", "fridge"]) == {2.0: 2, 0.5: 1}


@pytest.mark.parametrize(
    "text", ["kettle", "kettle,x", "kettle,0", "kettle,-1", "kettle,inf", ",1", "a,1\na,2", "a,1,2"]
)
def test_lines_that_say_no_budget_are_refused(tmp_path: Path, text: str) -> None:
    """A device once, and a number above 0."""
    file = tmp_path / "owners.csv"
    file.write_text(text)
    with pytest.raises(DataError, match="must hold a device that no other line names"):
        read_budgets(file)


@pytest.mark.parametrize("text", ["", "\n\n", "device,epsilon\n"])
def test_a_file_without_limits_is_a_mistake(tmp_path: Path, text: str) -> None:
    """Whoever names a file means limits; none at all would leave every owner without."""
    file = tmp_path / "owners.csv"
    file.write_text(text)
    with pytest.raises(DataError, match="names no device"):
        read_budgets(file)


def test_limits_for_other_names_are_a_mistake() -> None:
    """If no device of the table is named, the limits would hold for nobody."""
    with pytest.raises(DataError, match=r"such as 'Kettle', is in the\s+table"):
        BudgetClasses({"Kettle": 0.5, "oven ": 1.0}, 2.0).counted(["kettle", "oven"])


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    """A missing file and a folder are one line each."""
    with pytest.raises(DataError, match="there is no file"):
        read_budgets(tmp_path / "none.csv")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_budgets(tmp_path)
