"""The public range and the precision a fusion centre asks for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rase import Precision, ValueRange


def test_range_knows_width_step_and_middle() -> None:
    """A range tells its width, step and middle."""
    public = ValueRange(-40, 125, steps=330)
    assert (public.width, public.step, public.middle) == (165, 0.5, 42.5)
    assert ValueRange(0, 1).steps == 4096


@pytest.mark.parametrize(
    ("low", "high"), [(math.nan, 1), (0, math.inf), (-math.inf, 0), (1, 1), (2, 1)]
)
def test_range_refuses_bounds_that_make_no_range(low: float, high: float) -> None:
    """NaN, infinity and low >= high are refused."""
    with pytest.raises(ValueError, match="must be"):
        ValueRange(low, high)


def test_range_refuses_a_width_beyond_floats() -> None:
    """A width that overflows is refused."""
    with pytest.raises(ValueError, match="high - low must be finite"):
        ValueRange(-1.7e308, 1.7e308)


@pytest.mark.parametrize("steps", [0, -1, 65537])
def test_range_refuses_steps_out_of_bounds(steps: int) -> None:
    """The number of steps has bounds."""
    with pytest.raises(ValueError, match="steps must be between 1 and 65536"):
        ValueRange(0, 1, steps=steps)


@pytest.mark.parametrize("steps", [True, 2.0, "8"])
def test_range_refuses_steps_that_are_no_whole_number(steps: object) -> None:
    """Steps must be a whole number."""
    with pytest.raises(TypeError, match="steps must be a whole number"):
        ValueRange(0, 1, steps=steps)  # type: ignore[arg-type]


@pytest.mark.parametrize("low", ["0", None, True])
def test_range_refuses_bounds_that_are_no_numbers(low: object) -> None:
    """Bounds must be numbers."""
    with pytest.raises(TypeError, match="low must be a number"):
        ValueRange(low, 1)  # type: ignore[arg-type]


def test_range_refuses_a_grid_finer_than_floats() -> None:
    """Grid points that coincide as floats are refused with the way out."""
    with pytest.raises(ValueError, match="take fewer steps"):
        ValueRange(1e16, 1e16 + 4096, steps=65536)


def test_lemma_1_as_printed_uses_the_upper_end() -> None:
    """The printed bound is width * ln(1 / (1 - rho)) / (beta * high)."""
    bound = Precision(0.5, 0.9).epsilon_bound(ValueRange(-40, 125))
    assert bound == pytest.approx(165 * math.log(10) / (0.5 * 125))


@given(
    reading=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3),
    beta=st.floats(0.05, 1),
    rho=st.floats(0.05, 0.99),
)
def test_bound_for_one_reading_is_exact(reading: float, beta: float, rho: float) -> None:
    """At the exact bound Laplace noise stays inside the interval with probability rho."""
    public = ValueRange(-100, 100)
    epsilon = Precision(beta, rho).epsilon_bound(public, reading=reading)
    inside = 1 - math.exp(-beta * abs(reading) * epsilon / public.width)
    assert inside == pytest.approx(rho)


@pytest.mark.parametrize(
    ("precision", "public", "expected"),
    [
        (Precision(0.5, 0), ValueRange(0, 1), 0.0),
        (Precision(0.5, 1), ValueRange(0, 1), math.inf),
        (Precision(0, 0.9), ValueRange(0, 1), math.inf),
        (Precision(0.5, 0.9), ValueRange(-30, 0), math.inf),
    ],
)
def test_bound_at_the_borders(precision: Precision, public: ValueRange, expected: float) -> None:
    """Borders give 0 or infinity and never divide by zero."""
    assert precision.epsilon_bound(public) == expected


def test_bound_everywhere_is_the_one_of_the_smallest_reading() -> None:
    """A guarantee at every reading needs the smallest one, and is impossible around 0."""
    precision = Precision(0.5, 0.9)
    away = ValueRange(10, 30)
    assert precision.epsilon_bound_everywhere(away) == precision.epsilon_bound(away, reading=10)
    below = ValueRange(-30, -10)
    assert precision.epsilon_bound_everywhere(below) == precision.epsilon_bound(below, reading=-10)
    assert precision.epsilon_bound_everywhere(ValueRange(-1, 1)) == math.inf


def test_share_met_counts_the_readings_that_meet_the_precision() -> None:
    """Exactly the readings at or above their own bound count."""
    public, precision = ValueRange(0, 100), Precision(0.5, 0.9)
    epsilon = precision.epsilon_bound(public, reading=50)
    assert precision.share_met([0, 25, 49, 50, 75, 500], epsilon=epsilon, value_range=public) == 0.5


def test_share_met_counts_clamped_reports_at_an_end_that_lies_inside() -> None:
    """Clamping helps the readings whose interval reaches an end, and agrees with simulation."""
    public, precision = ValueRange(1, 100), Precision(0.5, 0.9)
    epsilon = 3.0
    noise = np.random.default_rng(1).laplace(scale=public.width / epsilon, size=400_000)
    for reading in (1.0, 1.5, 40.0, 70.0, 100.0):
        report = np.clip(reading + noise, 1, 100)
        inside = np.mean((report >= 0.5 * reading) & (report <= 1.5 * reading))
        met = precision.share_met([reading], epsilon=epsilon, value_range=public, is_clamping=True)
        assert met == (inside >= 0.9)
    assert precision.share_met([100.0], epsilon=3, value_range=public, is_clamping=True) == 0
    assert precision.share_met([100.0], epsilon=3.3, value_range=public, is_clamping=True) == 1


def test_share_met_refuses_nonsense() -> None:
    """No readings and no budget are refused."""
    with pytest.raises(ValueError, match="at least one reading"):
        Precision(0.5, 0.9).share_met([], epsilon=1, value_range=ValueRange(0, 1))
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        Precision(0.5, 0.9).share_met([1], epsilon=0, value_range=ValueRange(0, 1))


@pytest.mark.parametrize(("beta", "rho"), [(-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)])
def test_precision_refuses_what_is_no_share(beta: float, rho: float) -> None:
    """Beta and rho must lie between 0 and 1."""
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        Precision(beta, rho)
