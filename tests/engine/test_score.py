"""Windows over rounds, and errors against the truth."""

import math

import pytest

from rase import Estimate, Uniform
from rase.engine.score import ErrorTally, Windows
from rase.pipeline import RoundResult


def result(number: int | None, value: float, truth: float | None = None) -> RoundResult:
    """Make a round's result."""
    estimate = Estimate(value, 3.0, n=4, method="unbiased_mean", target="mean")
    manifest = Uniform().shuffle([1.0]).manifest
    return RoundResult(
        4, {"unbiased_mean": estimate}, manifest, round=number, start_ms=number, truth=truth
    )


def test_windows_slide() -> None:
    """A window is the mean of its rounds and begins with the first of them."""
    windows = Windows(2, is_gapless=True)
    assert windows.add(result(1, 2.0, 1.0)) is None
    window = windows.add(result(2, 4.0, 2.0))
    assert window is not None
    assert window.estimates["unbiased_mean"].value == 3.0
    assert (window.start_ms, window.truth) == (1, 1.5)
    window = windows.add(result(3, 8.0))
    assert window is not None
    assert (window.estimates["unbiased_mean"].value, window.truth) == (6.0, None)


def test_windows_and_gaps() -> None:
    """Half of a window is none, unless rounds are not counted."""
    for is_gapless, expected in ((True, [False, False, True]), (False, [False, True, True])):
        windows = Windows(2, is_gapless=is_gapless)
        found = [windows.add(result(number, 1.0)) is not None for number in (1, 3, 4)]
        assert found == expected
    windows = Windows(4, is_gapless=True)
    told = [windows.add(result(number, 1.0, 8.0)) for number in (1, 2, 4, 5, 60, 61, 62, 63)]
    assert [one is not None for one in told] == [False] * 2 + [True, True] + [False] * 2 + [
        True
    ] * 2
    there = [one for one in told if one is not None]
    # Also where the first round of a window is missing it is known when that began.
    assert [one.start_ms for one in there] == [1, 2, 59, 60]
    assert [one.truth for one in there] == [8.0] * 4
    means = [one.estimates["unbiased_mean"] for one in there]
    assert [(one.rounds, one.of_rounds) for one in means] == [(3, 4), (3, 4), (3, 4), (4, 4)]
    windows = Windows(4, is_gapless=True, strict=True)
    told = [windows.add(result(number, 1.0)) for number in (1, 2, 4, 5, 6, 7)]
    assert [one is not None for one in told] == [*[False] * 5, True]
    windows = Windows(2, is_gapless=True)
    assert windows.add(result(None, 1.0)) is None
    assert windows.add(result(None, 1.0)) is not None


def test_window_must_hold_a_round() -> None:
    """A window of nothing is refused."""
    with pytest.raises(ValueError, match="at least 1 round, got 0"):
        Windows(0, is_gapless=False)


def test_errors_add_up() -> None:
    """Bias, size and square of errors, and what the standard errors predicted."""
    tally = ErrorTally()
    for value in (1.0, -3.0):
        tally.add(Estimate(value, 2.0, n=1, method="m", target="t"), 0.0)
    assert (tally.count, tally.bias, tally.mean_absolute) == (2, -1.0, 2.0)
    assert tally.rmse == pytest.approx(math.sqrt(5))
    assert tally.predicted == 2.0


@pytest.mark.parametrize(
    ("error", "method", "value"), [(1.0, "auto", 99.0), (2.5, "unbiased_mean", 15.0)]
)
def test_windows_of_auto_take_the_surer_rounds(error: float, method: str, value: float) -> None:
    """Errors of tracked means go together, those of unbiased means average out."""
    windows = Windows(2, is_gapless=False)
    for number in (1, 2):
        alone = Estimate(10.0 * number, 3.0, n=4, method="unbiased_mean", target="mean")
        tracked = Estimate(99.0, error, n=4, method="auto", target="mean")
        manifest = Uniform().shuffle([1.0]).manifest
        done = RoundResult(4, {"auto": tracked}, manifest, round=number, alone=alone)
        window = windows.add(done)
    assert window is not None
    assert window.estimates["auto"].value == value
    assert window.estimates["auto"].method == method
