"""Duchi, Piecewise and Hybrid."""

import math

import pytest
from tests.cases import each_case

from rase import Duchi, Hybrid, Laplace, NotIdentifiable, Piecewise, Range
from rase.laws.parts import HYBRID_FROM

# Largest variance over the range, as a share of its squared width, from the mechanisms' papers.
WORST = {
    0.1: (200, 100.2, 133.3, 100.2),
    0.5: (8, 4.168, 5.306, 4.168),
    1.0: (2, 1.171, 1.306, 1.072),
    2.0: (0.5, 0.431, 0.307, 0.261),
    4.0: (0.125, 0.269, 0.0603, 0.0547),
}


@each_case("epsilon", WORST)
def test_the_largest_variances_are_those_of_the_papers(epsilon: float) -> None:
    """On a fine grid each mechanism has the worst variance its authors derived, within 1 %."""
    public = Range(0, 1)
    mechanisms = (
        Laplace(epsilon, public),
        Duchi(epsilon, public),
        Piecewise(epsilon, public),
        Hybrid(epsilon, public),
    )
    readings = [step / 200 for step in range(201)]
    for mechanism, expected in zip(mechanisms, WORST[epsilon], strict=True):
        assert mechanism.variance(readings).max() == pytest.approx(expected, rel=0.01)


def test_hybrid_is_duchi_below_its_threshold() -> None:
    """The coin shows Duchi alone up to a budget of about 0.61."""
    assert pytest.approx(0.6094, abs=1e-4) == HYBRID_FROM
    public = Range(0, 1)
    assert Hybrid(0.6, public).variance(0.3) == Duchi(0.6, public).variance(0.3)
    assert Hybrid(0.62, public).variance(0.5) < Duchi(0.62, public).variance(0.5)


@each_case("make", [Duchi, Hybrid])
def test_one_bit_knows_nothing_of_the_spread(make: type[Duchi] | type[Hybrid]) -> None:
    """Squares cannot be decoded from one bit, and the refusal says what to use."""
    with pytest.raises(NotIdentifiable, match="use BudgetAware, Piecewise or Hybrid"):
        make(0.5, Range(0, 1)).decode_square([0.0, 1.0])


def test_piecewise_at_a_large_budget_reports_the_reading() -> None:
    """The window shrinks to the reading itself."""
    public = Range(0, 1, 16)
    assert float(Piecewise(30.0, public).variance(0.5)) < 1e-9
    assert math.isclose(float(Piecewise(30.0, public).decode([0.5])[0]), 0.5)
