"""From estimates to answers: the numbers of an estimate in the one schema."""

import math

import pytest
from tests.cases import each_case

from rase import Estimate, Range, sample_mean, window
from rase.answer import Answer
from rase.counts.fleet import of_fleet, of_reporters
from rase.counts.mean import OF_READINGS
from rase.series.answers import answer_of, finite, number_fields, row_of, target_of

MEAN = Estimate(
    40.0, 3.0, n=100, method="unbiased_mean", target=OF_READINGS, lowest=0.0, highest=45.0
)


def test_an_estimate_becomes_an_answer() -> None:
    """Its numbers under the names of the schema, and what else is known beside them."""
    answer = answer_of(MEAN, quantity="power", unit="W", time="2026-03-01T00:00:00Z", round=7)
    assert (answer.status, answer.value, answer.standard_error) == ("ok", 40.0, 3.0)
    assert (answer.low, answer.high) == pytest.approx(MEAN.interval(0.95))
    assert (answer.n, answer.rounds, answer.of_rounds) == (100, 1, 1)
    assert (answer.method, answer.target) == ("unbiased_mean", "reporters")
    assert (answer.quantity, answer.unit, answer.round) == ("power", "W", 7)


def test_the_level_is_that_of_the_interval() -> None:
    """Wider for more, and cut where the target ends."""
    wide, narrow = (answer_of(MEAN, level=level) for level in (0.99, 0.5))
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low
    assert wide.high == 45.0
    assert (narrow.low, narrow.high) == pytest.approx(MEAN.interval(0.5))


def test_fields_that_are_given_win() -> None:
    """A caller may know better than the estimate whom it speaks of."""
    assert answer_of(MEAN, method="tracked", n=3).method == "tracked"
    assert answer_of(MEAN, n=3).n == 3


def test_no_estimate_has_no_numbers() -> None:
    """The status says why."""
    answer = answer_of(None, status="too_few", rounds=0, of_rounds=1)
    assert answer == Answer(status="too_few", rounds=0)
    assert (answer.value, answer.low, answer.n) == (None, None, 0)


def test_an_error_that_is_not_known_has_no_interval() -> None:
    """One report of the paper's mean; and what lies beyond all numbers cannot be written."""
    fields = number_fields(sample_mean([7.0]))
    assert (fields["value"], fields["standard_error"]) == (7.0, None)
    assert (fields["low"], fields["high"]) == (None, None)
    # Also where the range itself would bound it: its ends are no interval of 95 %.
    bounded = Estimate(7.0, math.inf, n=1, method="m", target="t", lowest=0.0, highest=9.0)
    assert (number_fields(bounded)["low"], number_fields(bounded)["high"]) == (None, None)


@each_case(
    ("number", "expected"), [(1.5, 1.5), (math.inf, None), (-math.inf, None), (math.nan, None)]
)
def test_only_finite_numbers_are_written(number: float, expected: float | None) -> None:
    """JSON and databases have no word for the others."""
    assert finite(number) == expected


def test_windows_say_how_many_rounds_they_are_of() -> None:
    """Those that it was computed from, and those that it is over."""
    (told,) = window([MEAN, None, MEAN, MEAN], 4)
    assert told is not None
    answer = answer_of(told)
    assert (answer.rounds, answer.of_rounds, answer.n) == (3, 4, 300)
    assert answer.target == "reporters"


@each_case(
    ("estimate", "target"),
    [
        (MEAN, "reporters"),
        (of_reporters(MEAN), "reporters"),
        (of_fleet(MEAN, members=400, spread=2.0, value_range=Range(0, 45)), "fleet"),
        (sample_mean([1.0, 2.0]), "reports"),
    ],
)
def test_whose_readings_an_estimate_speaks_of(estimate: Estimate, target: str) -> None:
    """Of a round, and of a window of such rounds."""
    assert target_of(estimate) == target
    (told,) = window([estimate] * 2, 2)
    assert told is not None
    assert target_of(told) == target


def test_a_row_is_an_answer_as_values() -> None:
    """Rows of runs are made without the answers between, and are the same."""
    estimate = Estimate(3.0, float("inf"), n=4, method="tracked", target=OF_READINGS)
    said = {"time": "2024-01-01T00:00:00Z", "round": 7, "label": "north", "local_epsilon": 1.0}
    row = row_of(estimate, level=0.9, **said)
    assert row == answer_of(estimate, level=0.9, **said).as_fields()
    assert list(row) == list(answer_of(estimate).as_fields())
