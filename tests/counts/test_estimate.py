"""An estimate as a value."""

import math

import pytest
from scipy import stats
from tests.cases import each_case

from rase.counts.estimate import Estimate, student_quantile


def estimate(value: float = 1.0, error: float = 0.5, degrees: float = math.inf) -> Estimate:
    """Return an estimate of little interest otherwise."""
    return Estimate(value, error, n=64, method="m", target="t", degrees_of_freedom=degrees)


@each_case("level", [0.5, 0.9, 0.95, 0.99])
@each_case("degrees", [1, 2, 3, 4, 5, 28, 63, 200, 201, 1000, math.inf])
def test_quantiles_are_those_of_students_t(level: float, degrees: float) -> None:
    """Quantiles agree with scipy's to six digits."""
    expected = stats.t.ppf((1 + level) / 2, degrees)
    assert student_quantile(level, degrees) == pytest.approx(expected, rel=1e-6)


def test_broken_degrees_are_rounded_down() -> None:
    """An interval is rather too wide than too narrow."""
    assert student_quantile(0.95, 7.9) == student_quantile(0.95, 7)


def test_the_interval_is_symmetric_and_grows_with_its_level() -> None:
    """The interval is value ± quantile times error."""
    assert estimate().interval() == pytest.approx((1 - 0.98, 1 + 0.98), abs=1e-4)
    low, high = estimate().interval(0.99)
    assert low < 1 - 0.98 < 1 + 0.98 < high


@each_case(
    ("value", "expected"),
    [
        (5.0, (3.04, 6.96)),
        (1.0, (0.0, 2.96)),
        (9.5, (7.54, 10.0)),
        # Far outside, where a plain cut would be empty: as wide as at the end itself.
        (-50.0, (0.0, 1.96)),
        (60.0, (8.04, 10.0)),
    ],
)
def test_intervals_end_where_the_target_does(value: float, expected: tuple[float, float]) -> None:
    """An interval around the value moved into the bounds, cut to them; the value stays."""
    one = Estimate(value, 1.0, n=9, method="m", target="t", lowest=0.0, highest=10.0)
    assert one.interval() == pytest.approx(expected, abs=1e-3)
    assert one.value == value


def test_an_estimate_is_a_number() -> None:
    """Who computes with the value alone need not name it."""
    assert float(Estimate(21.5, 0.5, n=10, method="m", target="t")) == 21.5


def test_an_unknown_error_gives_the_whole_line() -> None:
    """What cannot be known is not made up."""
    assert estimate(error=math.inf).interval() == (-math.inf, math.inf)
    bounded = Estimate(4.0, math.inf, n=1, method="m", target="t", lowest=0.0, highest=9.0)
    assert bounded.interval() == (0.0, 9.0)


@each_case("level", [0, 1, -0.5, 95, math.nan])
def test_levels_outside_0_and_1_are_refused(level: float) -> None:
    """A level in per cent is a likely slip."""
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        estimate().interval(level)


@each_case(
    ("changes", "message"),
    [
        ({"value": math.nan}, "value must be finite"),
        ({"standard_error": -1.0}, "standard_error must be 0 or more"),
        ({"standard_error": math.nan}, "standard_error must be 0 or more"),
        ({"n": 0}, "n must be at least 1"),
        ({"degrees_of_freedom": 0.5}, "degrees_of_freedom must be at least 1"),
        ({"lowest": 2.0, "highest": 1.0}, "lowest must be at most highest, got 2.0"),
        ({"rounds": 0}, "rounds must lie in 1 to of_rounds, got 0"),
        ({"rounds": 3, "of_rounds": 2}, "rounds must lie in 1 to of_rounds, got 3"),
    ],
)
def test_impossible_estimates_are_refused(changes: dict[str, float], message: str) -> None:
    """An estimate checks itself."""
    parts: dict[str, object] = {"value": 1.0, "standard_error": 1.0, "n": 1, **changes}
    with pytest.raises(ValueError, match=message):
        Estimate(**parts, method="m", target="t")  # type: ignore[arg-type]


@each_case(
    ("value", "error", "text"),
    [
        (187.2, 26.0, "187 ± 26 (95 %: 136 to 238, n = 64)"),
        (123456.0, 7890.0, "123500 ± 7900 (95 %: 108000 to 138900, n = 64)"),
        (0.00123, 0.00004, "0.001230 ± 0.000040 (95 %: 0.001152 to 0.001308, n = 64)"),
        (-0.001, 1.2, "0.0 ± 1.2 (95 %: -2.4 to 2.4, n = 64)"),
        (64.0, 0.0, "64 ± 0 (95 %: 64 to 64, n = 64)"),
        (0.0, 0.0, "0.0 ± 0.0 (95 %: 0.0 to 0.0, n = 64)"),
        (3e200, 1e199, "3e+200 ± 1e+199 (95 %: 2.8e+200 to 3.2e+200, n = 64)"),
        (5.0, math.inf, "5, error unknown (n = 64)"),
    ],
)
def test_estimates_print_with_two_digits_of_error(value: float, error: float, text: str) -> None:
    """All four numbers are rounded at the error's second digit."""
    assert str(estimate(value, error)) == text


def test_a_lasting_cause_widens_the_interval() -> None:
    """Errors add as squares, degrees of freedom by Welch and Satterthwaite; 0 changes nothing."""
    one = Estimate(10.0, 3.0, n=9, method="unbiased_mean", target="mean")
    assert one.with_lasting(0.0, degrees_of_freedom=5) is one
    wider = one.with_lasting(4.0, degrees_of_freedom=5)
    assert (wider.standard_error, wider.lasting_error) == (5.0, 4.0)
    assert wider.degrees_of_freedom == pytest.approx(5 * (25 / 16) ** 2)
    low, high = wider.interval()
    assert high - low > 2 * 1.96 * 5
    again = wider.with_lasting(12.0, degrees_of_freedom=5)
    assert again.standard_error == pytest.approx(13.0)
    assert again.lasting_error == pytest.approx(math.hypot(4, 12))


@each_case("lasting", [-1.0, 3.1, math.nan])
def test_no_more_than_all_of_an_error_lasts(lasting: float) -> None:
    """What lasts is a part of the standard error."""
    with pytest.raises(ValueError, match="lasting_error must lie in 0 to standard_error"):
        Estimate(1.0, 3.0, n=9, method="m", target="mean", lasting_error=lasting)
