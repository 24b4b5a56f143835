"""The picture of a plan."""

import io

import pytest

from rase.accounting.plan import plan
from rase.domain import Range
from rase.lab.plan_figure import draw_plan

PUBLIC = Range(0, 3000)


def test_the_picture_names_its_lines() -> None:
    """Estimators, the chosen epsilon, the bound and the wish are written into it."""
    made = plan(
        PUBLIC,
        1.0,
        devices=64,
        error=100.0,
        curve=[0.5, 1.0, 2.0, 9.0],
        mechanism="budget-aware",
        readings=[5.0, 100.0, 2000.0],
        detail="quick",
    )
    file = io.BytesIO()
    draw_plan(made, file, kind="svg")
    text = file.getvalue().decode()
    for name in ("unbiased mean", "sample mean", "median", "ε = 1", "ε* = 4.61"):
        assert f"<!-- {name}" in text
    assert "<!-- wished: 100 -->" in text
    assert "on your readings" in text


@pytest.mark.uncovered
def test_a_bound_outside_the_picture_is_left_out() -> None:
    """Only lines within the axes are drawn and labelled; the same plan gives the same file."""
    made = plan(PUBLIC, 1.0, devices=64, window=3, curve=[0.5, 1.0, 2.0], detail="quick")
    file = io.BytesIO()
    draw_plan(made, file, kind="svg")
    again = io.BytesIO()
    draw_plan(made, again, kind="svg")
    assert again.getvalue() == file.getvalue()
    text = file.getvalue().decode()
    assert "ε*" not in text
    assert "a window of 3 rounds" in text


def test_a_plan_without_a_curve_is_refused() -> None:
    """There is nothing to draw without candidates."""
    with pytest.raises(ValueError, match="plan must have a curve"):
        draw_plan(plan(PUBLIC, 1.0, devices=64, detail="quick"), io.BytesIO())
