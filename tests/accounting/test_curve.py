"""Epsilon at a given delta."""

import math

from tests.cases import each_case

from rase.accounting.curve import crossing


@each_case("scale", [1e-4, 0.03, 2.0])
@each_case("delta", [0.1, 1e-6, 1e-40])
def test_crossing_brackets_the_answer_closely(scale: float, delta: float) -> None:
    """The two ends lie on both sides of the level, a millionth apart, after few evaluations."""
    calls = []

    def curve(epsilon: float) -> float:
        calls.append(epsilon)
        return math.exp(-((epsilon / scale) ** 2) / 2)

    low, high = crossing(curve, delta, highest=40.0)
    assert curve(low) > delta >= curve(high)
    assert 0 <= high - low <= 1e-6 * high
    assert len(calls) < 60


def test_a_curve_below_the_level_needs_no_epsilon() -> None:
    """Where delta alone suffices, epsilon is 0."""
    assert crossing(lambda _: 0.01, 0.05, highest=1.0) == (0.0, 0.0)


def test_a_search_may_start_above_zero_and_end_early() -> None:
    """Both ends lie above the start, as near as asked; a start that meets the level is returned."""

    def curve(epsilon: float) -> float:
        return math.exp(-epsilon)

    low, high = crossing(curve, 0.1, highest=9.0, lowest=2.0, precision=0.01)
    assert 2.0 <= low < math.log(10) <= high <= low / (1 - 0.01)
    assert crossing(curve, 0.1, highest=9.0, lowest=4.0) == (4.0, 4.0)


def test_a_curve_that_falls_at_the_end_only_keeps_the_highest() -> None:
    """If nothing below meets the level, the known end is returned as it is."""
    low, high = crossing(lambda epsilon: 0.5 if epsilon < 3 else 0.0, 1e-6, highest=3.0)
    assert high == 3.0
    assert low >= 3.0 * (1 - 2e-6)


def test_a_step_inside_is_found() -> None:
    """A jump, where interpolation is no help, is bracketed all the same."""
    low, high = crossing(lambda epsilon: 1e-5 if epsilon < 1.25 else 1e-7, 1e-6, highest=3.0)
    assert low < 1.25 <= high
    assert high - low <= 1e-6 * high


def test_a_level_barely_missed_ends_the_search() -> None:
    """An epsilon next to 0 is found to a picounit, not for ever."""
    low, high = crossing(lambda epsilon: 0.1 * math.exp(-epsilon), 0.1 - 1e-16, highest=5.0)
    assert 0 <= low <= high < 1e-10
