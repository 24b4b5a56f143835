"""Calibration: the largest local epsilon that keeps a promise, and the law of least error."""

import math

import pytest
from tests.cases import each_case

from rase import PrivacyRefused, Range
from rase.accounting.accountant.calibrate import _largest_within, _Wish, calibrate, worst_error
from rase.accounting.accountant.rounds import shuffled_pair

PUBLIC = Range(0, 1)


@each_case(("n", "rounds", "wished"), [(100, 1, 1.0), (1000, 1, 0.5), (300, 24, 1.0), (50, 6, 4.0)])
@each_case("mechanism", ["optimal", "duchi", "laplace"])
def test_the_promise_is_kept_and_nearly_used_up(
    n: int, rounds: int, wished: float, mechanism: str
) -> None:
    """What is proven of the randomizer returned is at most the wish, and 5 % more is above it."""
    found = calibrate(
        PUBLIC, shuffled_epsilon=wished, delta=1e-6, n=n, rounds=rounds, mechanism=mechanism
    )
    assert found.name == mechanism
    assert shuffled_pair(found, n).compose(rounds).epsilon(1e-6) <= wished * (1 + 1e-6)
    more = type(found)(1.05 * found.epsilon, PUBLIC)  # type: ignore[operator]
    assert shuffled_pair(more, n).compose(rounds).epsilon(1e-6) > wished


@each_case("rounds", [1, 720])
def test_the_law_is_chosen_by_its_error_at_the_promise(rounds: int) -> None:
    """No mechanism that can be named has less error than the automatic choice."""

    def calibrated(mechanism: str) -> float:
        found = calibrate(
            PUBLIC,
            shuffled_epsilon=1,
            delta=1e-6,
            n=1000,
            rounds=rounds,
            mechanism=mechanism,
        )
        return worst_error(found)

    assert calibrated("auto") <= min(calibrated("optimal"), calibrated("duchi"))


def test_the_local_epsilon_is_capped() -> None:
    """A cap on the local epsilon is the result where the promise would allow more."""
    capped = calibrate(
        PUBLIC, shuffled_epsilon=1, delta=1e-6, n=10_000, max_local_epsilon=4, mechanism="optimal"
    )
    assert capped.epsilon == 4.0
    free = calibrate(PUBLIC, shuffled_epsilon=1, delta=1e-6, n=10_000)
    assert float(free.epsilon) > 5  # type: ignore[arg-type]


def test_a_promise_that_nothing_keeps_is_refused() -> None:
    """Below the smallest local epsilon there is no law."""
    with pytest.raises(
        PrivacyRefused, match=r"no local epsilon from 0\.0001 on promises .* for 100000 reports of"
    ):
        calibrate(PUBLIC, shuffled_epsilon=1e-4, delta=1e-9, n=2, rounds=100_000)


@each_case(
    ("wrong", "words"),
    [
        ({"shuffled_epsilon": 0.0}, "shuffled_epsilon must be greater than 0"),
        ({"max_local_epsilon": 0.0}, "max_local_epsilon must be at least"),
        ({"mechanism": "square-wave"}, "mechanism must be one of"),
        ({"n": 1}, "n must be between 2"),
    ],
)
def test_arguments_out_of_bounds_are_refused(wrong: dict[str, float], words: str) -> None:
    """Each names what is wrong."""
    asked = {"shuffled_epsilon": 1.0, "delta": 1e-6, "n": 100} | wrong
    with pytest.raises(ValueError, match=words):
        calibrate(PUBLIC, **asked)  # type: ignore[call-overload]


@each_case("limit", [1.00003, 1.0004, 1.3, 3.0, 3.7, 3.9, 7.9999, 8.0, 20.0])
@each_case("slope", [0.01, 1.0, 1000.0])
def test_the_search_ends_just_below_the_limit(limit: float, slope: float) -> None:
    """Whatever the shape of the excess, what is returned was tried, and is at or near the limit."""
    tried: set[float] = set()

    def excess(epsilon: float) -> float:
        tried.add(epsilon)
        return slope * math.log(epsilon / limit)

    wish = _Wish(1.0, 1e-6, 1000, 1)
    found = _largest_within(excess, wish, guess=wish.guess(), highest=8.0)
    assert found is not None
    assert found in tried
    assert found <= limit
    assert found >= min(limit, 8.0) * math.exp(-5e-4 * max(1.0, 1 / slope))


def test_only_numbers_and_categories_have_an_error() -> None:
    """A randomizer of another domain is refused by name."""

    class Other:
        """Randomizes nothing."""

    with pytest.raises(TypeError, match="must be for numbers or categories"):
        worst_error(Other())  # type: ignore[arg-type]
