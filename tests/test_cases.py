"""Cases of one item: all run, and a failure names its own."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case


def test_every_case_runs_and_a_failure_names_its_own() -> None:
    """A failing case does not end the test, and one alone is raised as it is."""
    seen = []

    @each_case(("number", "word"), [(1, "one"), (2, "two"), (3, "three")])
    def tried(number: int, word: str) -> None:
        seen.append(number)
        assert word != "two"

    with pytest.raises(AssertionError) as failed:
        tried()
    assert seen == [1, 2, 3]
    assert failed.value.__notes__[-1] == "in the case number=2, word='two'"


def test_failures_of_several_cases_are_raised_together() -> None:
    """Also what pytest itself raises where an error was missed; the first few are shown whole."""

    @each_case("number", range(9))
    def tried(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 // number

    with pytest.raises(
        BaseExceptionGroup, match=r"8 of 9 cases failed: number=1; .*number=8$"
    ) as failed:
        tried()
    assert len(failed.value.exceptions) == 5


def test_cases_are_nested() -> None:
    """Two decorators give all pairs, and both are named."""
    pairs = []

    @each_case("left", "ab")
    @each_case("right", "cd")
    def tried(left: str, right: str) -> None:
        pairs.append(left + right)
        assert left + right != "bd"

    with pytest.raises(AssertionError) as failed:
        tried()
    assert pairs == ["ac", "ad", "bc", "bd"]
    assert failed.value.__notes__[-2:] == ["in the case right='d'", "in the case left='b'"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, pytest.skip.Exception])
def test_an_interruption_ends_the_test(stop: type[BaseException]) -> None:
    """Ctrl-C and a skipped test are not counted as failures of a case."""
    seen = []

    @each_case("number", [1, 2])
    def tried(number: int) -> None:
        seen.append(number)
        raise stop

    with pytest.raises(stop):
        tried()
    assert seen == [1]


def test_fixtures_marks_and_name_stay() -> None:
    """Pytest sees a test of that name that asks for what no case gives."""

    @each_case("number", [1])
    @pytest.mark.slow
    def test_of_that_name(number: int, tmp_path: object) -> None:
        """Say so."""
        assert (number, tmp_path) == (1, "a folder")

    assert list(inspect.signature(test_of_that_name).parameters) == ["tmp_path"]
    assert test_of_that_name.__name__ == "test_of_that_name"
    assert test_of_that_name.__doc__ == "Say so."
    assert [mark.name for mark in test_of_that_name.pytestmark] == ["slow"]  # type: ignore[attr-defined]
    test_of_that_name(tmp_path="a folder")


def test_properties_are_tried_in_every_case() -> None:
    """A test of hypothesis runs its examples once for each case."""
    seen = set()

    @each_case("number", [1, 2])
    @given(more=st.integers(0, 3))
    def tried(number: int, more: int) -> None:
        seen.add((number, more))

    tried()
    assert {number for number, _ in seen} == {1, 2}
    assert len(seen) > 2


def test_wrong_cases_are_refused() -> None:
    """A test without cases, with a case of another size or without the argument cannot be made."""
    with pytest.raises(ValueError, match="cases must not be empty"):
        each_case("number", [])
    with pytest.raises(ValueError, match="shorter"):
        each_case(("number", "word"), [(1,)])
    with pytest.raises(TypeError, match="must take number"):
        each_case("number", [1])(lambda: None)
