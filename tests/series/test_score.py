"""Windows over rounds as they come, and errors against the truth."""

import math

import pytest
from tests.cases import each_case

from rase import Estimate, RoundResult, Uniform
from rase.counts.registry import TRACKED
from rase.series.score import ErrorTally, WindowResult, Windows
from rase.series.window import window

MANIFEST = Uniform().manifest_for(4)
MINUTE_MS = 60_000


def result(
    number: int | None, value: float, truth: float | None = None, *, has_time: bool = True
) -> RoundResult:
    """Make a round's result; rounds take a minute."""
    estimate = Estimate(value, 3.0, n=4, method="unbiased_mean", target="mean")
    return RoundResult(
        4,
        {"unbiased_mean": estimate},
        MANIFEST,
        round=number,
        start_ms=MINUTE_MS * number if has_time and number is not None else None,
        truth=truth,
    )


def slid(
    numbers: list[int | None], size: int, *, is_gapless: bool = True, strict: bool = False
) -> list[WindowResult | None]:
    """Return the window after each round."""
    windows = Windows(size, is_gapless=is_gapless, strict=strict)
    return [windows.add(result(number, 1.0, 8.0)) for number in numbers]


def test_windows_slide() -> None:
    """A window is the mean of its rounds and begins with the first of them."""
    windows = Windows(2, is_gapless=True)
    assert windows.add(result(1, 2.0, 1.0)) is None
    first = windows.add(result(2, 4.0, 2.0))
    assert first is not None
    assert first.estimates["unbiased_mean"].value == 3.0
    assert (first.start_ms, first.truth) == (MINUTE_MS, 1.5)
    second = windows.add(result(3, 8.0))
    assert second is not None
    # The truth of a window is known where that of all its rounds is.
    assert (second.estimates["unbiased_mean"].value, second.truth) == (6.0, None)


def test_windows_are_those_of_the_function() -> None:
    """Round by round they say what `rase.window` says of the whole series, gaps included."""
    numbers = [1, 2, 4, 5, 6, 9, 10, 11, 12]
    found = [one for one in slid(list(numbers), 4) if one is not None]
    series = {number: result(number, 1.0).estimate for number in numbers}
    whole = window([series.get(number) for number in range(1, 13)], 4)
    # `window` answers for every minute, a run for every round that there is.
    expected = [one for end, one in enumerate(whole, 4) if one is not None and end in numbers]
    assert [one.estimates["unbiased_mean"] for one in found] == expected


@each_case(
    ("is_gapless", "numbers", "expected"),
    [
        (True, [1, 3, 4], [False, False, True]),
        (False, [1, 3, 4], [False, True, True]),
        # Rounds without a number cannot be missing.
        (True, [None, None], [False, True]),
    ],
)
def test_half_of_a_window_is_none(
    is_gapless: bool, numbers: list[int | None], expected: list[bool]
) -> None:
    """Unless rounds are not counted."""
    told = slid(numbers, 2, is_gapless=is_gapless)
    assert [one is not None for one in told] == expected


def test_three_quarters_of_a_window_answer() -> None:
    """Also where its first round is missing it is known when the window began."""
    numbers: list[int | None] = [1, 2, 4, 5, 60, 61, 62, 63]
    told = slid(numbers, 4)
    assert [one is not None for one in told] == [*[False] * 2, True, True, *[False] * 2, True, True]
    there = [one for one in told if one is not None]
    assert [one.start_ms for one in there] == [MINUTE_MS * one for one in (1, 2, 59, 60)]
    assert [one.truth for one in there] == [8.0] * 4
    means = [one.estimates["unbiased_mean"] for one in there]
    assert [(one.rounds, one.of_rounds) for one in means] == [(3, 4), (3, 4), (3, 4), (4, 4)]
    # Who wants all rounds waits for them.
    told = slid([1, 2, 4, 5, 6, 7], 4, strict=True)
    assert [one is not None for one in told] == [*[False] * 5, True]


def test_windows_of_rounds_without_a_time() -> None:
    """Readings without times have windows that begin at no time."""
    windows = Windows(2, is_gapless=False)
    windows.add(result(None, 1.0))
    told = windows.add(result(None, 3.0))
    assert told is not None
    assert (told.start_ms, told.estimates["unbiased_mean"].value) == (None, 2.0)
    counted = Windows(4, is_gapless=True)
    numbered = [counted.add(result(number, 1.0, has_time=False)) for number in (1, 3, 4, 5, 6)]
    assert [one and one.start_ms for one in numbered] == [None] * 5
    assert numbered[-1] is not None


def test_a_window_must_hold_a_round() -> None:
    """A window of nothing is refused."""
    with pytest.raises(ValueError, match="at least 1 round, got 0"):
        Windows(0, is_gapless=False)


@each_case(("error", "method", "value"), [(1.0, TRACKED, 99.0), (2.5, "unbiased_mean", 15.0)])
def test_windows_of_tracked_rounds_take_the_surer_ones(
    error: float, method: str, value: float
) -> None:
    """Errors of tracked means go together, those of unbiased means average out."""
    windows = Windows(2, is_gapless=False)
    for number in (1, 2):
        alone = Estimate(10.0 * number, 3.0, n=4, method="unbiased_mean", target="mean")
        tracked = Estimate(99.0, error, n=4, method=TRACKED, target="mean")
        done = RoundResult(4, {TRACKED: tracked}, MANIFEST, round=number, alone=alone)
        told = windows.add(done)
    assert told is not None
    assert told.estimates[TRACKED].value == value
    assert told.estimates[TRACKED].method == method


def test_errors_add_up() -> None:
    """Bias, size and square of errors, and what the standard errors predicted."""
    tally = ErrorTally()
    for value, error in ((1.0, 1.0), (-3.0, 7.0)):
        tally.add(Estimate(value, error, n=1, method="m", target="t"), 0.0)
    assert (tally.count, tally.bias, tally.mean_absolute) == (2, -1.0, 2.0)
    assert tally.rmse == pytest.approx(math.sqrt(5))
    assert tally.predicted == 5.0
