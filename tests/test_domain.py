"""What a reading may be: numbers in a range, named categories; and the precision asked for."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import each_case

from rase import (
    BudgetAware,
    Categories,
    Duchi,
    Hybrid,
    Laplace,
    Piecewise,
    Precision,
    Range,
    SeededRandom,
    unbiased_mean,
    variance,
)
from rase.domain import PAPER_PRECISION, between_bounds, least_width


def test_range_knows_width_step_and_middle() -> None:
    """A range tells its width, step and middle."""
    public = Range(-40, 125, steps=330)
    assert (public.width, public.step, public.middle) == (165, 0.5, 42.5)
    assert Range(0, 1).steps == 4096


@each_case(("low", "high"), [(math.nan, 1), (0, math.inf), (-math.inf, 0), (1, 1), (2, 1)])
def test_range_refuses_bounds_that_make_no_range(low: float, high: float) -> None:
    """NaN, infinity and low >= high are refused."""
    with pytest.raises(ValueError, match="must be"):
        Range(low, high)


@each_case(("low", "high"), [(-1.7e308, 1.7e308), (0, 1.1e60), (-1.1e60, 0)])
def test_range_refuses_numbers_whose_powers_leave_the_floats(low: float, high: float) -> None:
    """Squares of squares of decoded reports must be numbers."""
    with pytest.raises(ValueError, match=r"low and high must be between -1e\+60 and 1e\+60"):
        Range(low, high)


@each_case("steps", [0, -1, 65537])
def test_range_refuses_steps_out_of_bounds(steps: int) -> None:
    """The number of steps has bounds."""
    with pytest.raises(ValueError, match="steps must be between 1 and 65536"):
        Range(0, 1, steps=steps)


@each_case("steps", [True, 2.0, "8"])
def test_range_refuses_steps_that_are_no_whole_number(steps: object) -> None:
    """Steps must be a whole number."""
    with pytest.raises(TypeError, match="steps must be a whole number"):
        Range(0, 1, steps=steps)  # type: ignore[arg-type]


@each_case("low", ["0", None, True])
def test_range_refuses_bounds_that_are_no_numbers(low: object) -> None:
    """Bounds must be numbers."""
    with pytest.raises(TypeError, match="low must be a number"):
        Range(low, 1)  # type: ignore[arg-type]


@each_case(
    ("low", "high", "steps"),
    [(1e16, 1e16 + 4096, 65536), (1, 1 + 1e-12, 4096), (-1 - 1e-12, -1, 4096), (0, 1e-61, 1)],
)
def test_range_refuses_a_grid_finer_than_floats(low: float, high: float, steps: int) -> None:
    """Grid points that floats cannot tell apart are refused with the way out."""
    with pytest.raises(ValueError, match=r"high - low must be at least .* take fewer steps"):
        Range(low, high, steps)


# Around 0 and far from it, on both sides, up to the largest that is allowed.
ends = st.one_of(
    st.just(0.0),
    st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1, 1]), st.floats(-60, 59)),
)
MECHANISMS = {
    "budget-aware": lambda epsilon, public: BudgetAware(epsilon, public, PAPER_PRECISION),
    "laplace": Laplace,
    "duchi": Duchi,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
}


@settings(max_examples=60)
@given(
    low=ends,
    steps=st.sampled_from([1, 2, 255, 4096]),
    times=st.one_of(st.just(1.0), st.floats(1, 1e6)),
    epsilon=st.sampled_from([0.01, 1.0, 8.0]),
    name=st.sampled_from(sorted(MECHANISMS)),
)
def test_every_range_that_is_accepted_yields_estimates(
    low: float, steps: int, times: float, epsilon: float, name: str
) -> None:
    """From the narrowest range about a number on: a mean, an error, and squares where there are."""
    high = low + times * least_width(low, low, steps=steps)
    # The upper end may lie in the next power of two, where floats are further apart.
    high = max(high, low + least_width(low, high, steps=steps))
    # Rounding of low + width itself may take a unit in the last place off.
    high = math.nextafter(high, math.inf)
    public = Range(low, high, steps)
    randomizer = MECHANISMS[name](epsilon, public)
    readings = np.linspace(low, high, 7)
    reports = randomizer.randomize(readings, rng=SeededRandom(19))
    mean = unbiased_mean(reports, randomizer=randomizer)
    reach = randomizer.decoded_reach
    assert reach[0] - public.step <= mean.value <= reach[1] + public.step
    assert 0 < mean.standard_error < math.inf
    if name not in ("duchi", "hybrid"):
        assert math.isfinite(variance(reports, randomizer=randomizer).value)


def test_lemma_1_as_printed_uses_the_upper_end() -> None:
    """The printed bound is width * ln(1 / (1 - rho)) / (beta * high)."""
    bound = Precision(0.5, 0.9).epsilon_bound(Range(-40, 125))
    assert bound == pytest.approx(165 * math.log(10) / (0.5 * 125))


@given(
    reading=st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3),
    beta=st.floats(0.05, 1),
    rho=st.floats(0.05, 0.99),
)
def test_bound_for_one_reading_is_exact(reading: float, beta: float, rho: float) -> None:
    """At the exact bound Laplace noise stays inside the interval with probability rho."""
    public = Range(-100, 100)
    epsilon = Precision(beta, rho).epsilon_bound(public, reading=reading)
    inside = 1 - math.exp(-beta * abs(reading) * epsilon / public.width)
    assert inside == pytest.approx(rho)


@each_case(
    ("precision", "public", "expected"),
    [
        (Precision(0.5, 0), Range(0, 1), 0.0),
        (Precision(0.5, 1), Range(0, 1), math.inf),
        (Precision(0, 0.9), Range(0, 1), math.inf),
        (Precision(0.5, 0.9), Range(-30, 0), math.inf),
    ],
)
def test_bound_at_the_borders(precision: Precision, public: Range, expected: float) -> None:
    """Borders give 0 or infinity and never divide by zero."""
    assert precision.epsilon_bound(public) == expected


def test_bound_everywhere_is_the_one_of_the_smallest_reading() -> None:
    """A guarantee at every reading needs the smallest one, and is impossible around 0."""
    precision = Precision(0.5, 0.9)
    away = Range(10, 30)
    assert precision.epsilon_bound_everywhere(away) == precision.epsilon_bound(away, reading=10)
    below = Range(-30, -10)
    assert precision.epsilon_bound_everywhere(below) == precision.epsilon_bound(below, reading=-10)
    assert precision.epsilon_bound_everywhere(Range(-1, 1)) == math.inf


def test_share_met_counts_the_readings_that_meet_the_precision() -> None:
    """Exactly the readings at or above their own bound count."""
    public, precision = Range(0, 100), Precision(0.5, 0.9)
    epsilon = precision.epsilon_bound(public, reading=50)
    assert precision.share_met([0, 25, 49, 50, 75, 500], epsilon=epsilon, value_range=public) == 0.5


def test_share_met_counts_clamped_reports_at_an_end_that_lies_inside() -> None:
    """Clamping helps the readings whose interval reaches an end, and agrees with simulation."""
    public, precision = Range(1, 100), Precision(0.5, 0.9)
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
        Precision(0.5, 0.9).share_met([], epsilon=1, value_range=Range(0, 1))
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        Precision(0.5, 0.9).share_met([1], epsilon=0, value_range=Range(0, 1))


@each_case(("beta", "rho"), [(-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)])
def test_precision_refuses_what_is_no_share(beta: float, rho: float) -> None:
    """Beta and rho must lie between 0 and 1."""
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        Precision(beta, rho)


def test_categories_have_places_in_their_order() -> None:
    """The first name has place 0, and a reading is found by its name."""
    state = Categories(("on", "off", "standby"))
    assert (state.steps, state.grid) == (2, (0.0, 1.0, 2))
    assert [state.spot(name) for name in state.names] == [(0, 0), (1, 0), (2, 0)]
    assert Categories(["a", "b"]).names == ("a", "b")  # type: ignore[arg-type]


@each_case("names", ["on", ["on", 7], [b"on", b"off"]])
def test_categories_must_be_texts(names: object) -> None:
    """One text is not a list of names, and numbers are not names."""
    with pytest.raises(TypeError, match="categories must be a list of texts"):
        Categories(names)  # type: ignore[arg-type]


@each_case(
    ("names", "words"),
    [
        ([], "2 to 64 names, got 0"),
        (["on"], "2 to 64 names, got 1"),
        ([f"state {number}" for number in range(65)], "2 to 64 names, got 65"),
        (["on", "off", "on"], "must differ, got 'on' more than once"),
        (["on", ""], "1 to 64 printable characters"),
        (["on", " off"], "without blanks"),
        (["on", "off\n"], "printable"),
        (["on", "x" * 65], "1 to 64 printable"),
    ],
)
def test_bad_names_of_categories_are_refused(names: list[str], words: str) -> None:
    """Too few, too many, repeated, empty, long or unprintable names are refused by name."""
    with pytest.raises(ValueError, match=words):
        Categories(tuple(names))


def test_an_unknown_category_is_refused_without_showing_it() -> None:
    """The refusal says how many categories there are, and nothing of the reading."""
    with pytest.raises(ValueError, match="one of the 2 categories") as refused:
        Categories(("on", "off")).spot("secret state")
    assert "secret" not in str(refused.value)


def test_intervals_are_named_by_their_ends() -> None:
    """Each holds its lower end."""
    assert between_bounds([3000]) == ("below 3000", "3000 or more")
    assert between_bounds([-1.5, 0]) == ("below -1.5", "-1.5 to 0", "0 or more")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([], "1 to 63"),
        (range(64), "1 to 63"),
        ([2, 1], "ascend"),
        ([1, 1], "ascend"),
        ([1, math.inf], "finite"),
        ("12", "list of numbers"),
        (7, "list of numbers"),
        (["a"], "must be a number"),
    ],
)
def test_bounds_that_make_no_intervals_are_refused(bounds: Any, words: str) -> None:
    """By name."""
    with pytest.raises((TypeError, ValueError), match=words):
        between_bounds(bounds)
