import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.shuffle.checks import number_at_least, positive_number, whole_number


def test_whole_numbers_of_python_and_numpy_pass() -> None:
    """Whole numbers of either kind come back as int."""
    assert whole_number("n", np.int64(3), least=1) == 3
    assert whole_number("n", 3, least=3) == 3


@each_case("value", [True, 2.0, "2", None])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    """Truth values, floats and texts are no counts."""
    with pytest.raises(TypeError, match="n must be a whole number"):
        whole_number("n", value, least=0)


def test_a_number_below_its_least_is_refused() -> None:
    """The error names the argument, the condition and the value."""
    with pytest.raises(ValueError, match=r"n must be at least 1, got 0\."):
        whole_number("n", 0, least=1)
    with pytest.raises(ValueError, match=r"theta must be at least 0, got -1\.0\."):
        number_at_least("theta", -1, least=0)
    with pytest.raises(ValueError, match="theta must be at least 0, got nan"):
        number_at_least("theta", math.nan, least=0)


@each_case("value", [True, "2", None])
def test_what_is_no_number_is_refused(value: object) -> None:
    """Truth values and texts are no numbers."""
    with pytest.raises(TypeError, match="theta must be a number"):
        number_at_least("theta", value, least=0)


@each_case("value", [0, math.inf])
def test_a_positive_number_is_above_zero_and_finite(value: float) -> None:
    """Zero and infinity are refused where a budget is asked for."""
    with pytest.raises(ValueError, match="alpha must be above 0 and finite"):
        positive_number("alpha", value)
    assert positive_number("alpha", 2) == 2.0
