"""The counting observer: lower bounds."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import Duchi, Laplace, Piecewise, Range
from rase.accounting.blanket import channel_of
from rase.accounting.lower_bounds import (
    CountingObserver,
    Question,
    best_questions,
    response_question,
)


@each_case("rounds", [1, 3])
@each_case("n", [1, 2, 30])
def test_delta_is_that_of_two_counts(n: int, rounds: int) -> None:
    """It equals the divergence of the counts' laws, and never exceeds it."""
    question = Question(first=0.7, second=0.2, others=0.4)
    crowd = stats.binom.pmf(np.arange(rounds * (n - 1) + 1), rounds * (n - 1), 0.4)
    first, second = (
        np.convolve(crowd, stats.binom.pmf(np.arange(rounds + 1), rounds, p)) for p in (0.7, 0.2)
    )
    observer = CountingObserver(question, n, rounds, negligible=1e-15)
    for epsilon in (0.0, 0.1, 0.5):
        factor = math.exp(epsilon)
        wanted = max(
            np.maximum(first - factor * second, 0).sum(),
            np.maximum(second - factor * first, 0).sum(),
        )
        found = observer.delta(epsilon)
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-12)
        assert found <= wanted


def test_counts_left_out_are_taken_off() -> None:
    """A narrow window makes the bound smaller, not larger."""
    question = response_question(1.0)
    whole = CountingObserver(question, 400, 1, negligible=1e-15)
    narrow = CountingObserver(question, 400, 1, negligible=1e-3)
    for epsilon in (0.05, 0.1, 0.2):
        assert narrow.delta(epsilon) <= whole.delta(epsilon)


def test_an_epsilon_beyond_floating_point_has_no_delta() -> None:
    """Sums of many rounds may ask for it."""
    assert CountingObserver(response_question(1.0), 10, 1, negligible=1e-9).delta(1e4) == 0.0


def test_long_histories_are_counted_in_part() -> None:
    """A million rounds of a large fleet are answered from some of them, and soon."""
    few = CountingObserver(response_question(0.5), 10**6, 500, negligible=1e-12)
    many = CountingObserver(response_question(0.5), 10**6, 10**6, negligible=1e-12)
    assert many.delta(0.03) >= few.delta(0.03) > 0


def test_a_thousand_million_rounds_need_no_room_of_their_own() -> None:
    """What is not counted is not laid out, either: no array is longer than the work allowed."""
    longest = CountingObserver(response_question(1.0), 1000, 10**9, negligible=1e-12)
    many = CountingObserver(response_question(1.0), 1000, 10**6, negligible=1e-12)
    assert longest.delta(10.0) > 1e-6
    assert longest.delta(10.0) == pytest.approx(many.delta(10.0), rel=0.5)


def test_randomized_response_is_one_bit() -> None:
    """The question is whether the bit is the first candidate's."""
    question = response_question(1.0)
    assert question.first / question.second == pytest.approx(math.e)
    assert question.others == question.second


@each_case("kind", [Laplace, Duchi, Piecewise])
def test_questions_are_about_sets_of_reports(
    kind: type[Laplace | Duchi | Piecewise],
) -> None:
    """Chances are chances, within the budget of one another; Duchi's is that of its bit."""
    for question in best_questions(channel_of(kind(1.0, Range(0, 1)))):
        chances = (question.first, question.second, question.others)
        assert all(0 < chance < 1 for chance in chances)
        assert max(chances) / min(chances) <= math.e * (1 + 1e-9)
    if kind is Duchi:
        assert question.first == pytest.approx(1 / (1 + math.exp(-1)))
