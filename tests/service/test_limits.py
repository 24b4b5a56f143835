"""So often a minute, so many at once."""

from contextlib import ExitStack

import pytest

from rase.clock import FakeClock
from rase.service.http import HttpProblem
from rase.service.limits import AtOnce, RateLimit


def retry_s(error: HttpProblem) -> int:
    """Return when to try again, of a refusal of the right kind."""
    assert error.problem.type.name == "too-many"
    return int(error.headers["Retry-After"])


def test_a_sender_is_refused_until_the_minute_is_over() -> None:
    """Others are not; afterwards it may ask again."""
    clock = FakeClock(0.0)
    limit = RateLimit(2, clock)
    limit.check("a")
    clock.advance(20)
    limit.check("a")
    with pytest.raises(HttpProblem) as refused:
        limit.check("a")
    assert 40 <= retry_s(refused.value) <= 41
    limit.check("b")
    clock.advance(40)
    limit.check("a")


def test_the_memory_of_a_rate_is_bounded() -> None:
    """Beyond so many senders the rest share one count; who was counted before keeps its own."""
    limit = RateLimit(2, FakeClock(0.0), most_senders=3)
    for sender in "abcabc":
        limit.check(sender)
    for sender in "de":
        limit.check(sender)
    with pytest.raises(HttpProblem):
        limit.check("f")
    assert len(limit._counts) == 4


def test_places_are_bounded_and_given_back() -> None:
    """Of one sender, of all, and also when the block fails."""
    places = AtOnce(3, of_one=2, retry_s=7)
    with ExitStack() as held:
        for sender in ("a", "a", "b"):
            held.enter_context(places.hold(sender))
        for sender in ("a", "b", "c"):
            with pytest.raises(HttpProblem) as refused, places.hold(sender):
                pass
            assert retry_s(refused.value) >= 7
    with pytest.raises(ZeroDivisionError), places.hold("a"):
        raise ZeroDivisionError
    with places.hold("a"), places.hold("a"):
        # Nobody who left is remembered.
        assert dict(places._counts) == {"a": 2}


def test_without_a_limit_of_its_own_a_sender_may_take_all() -> None:
    """One sender alone is bounded by the number of all."""
    places = AtOnce(2)
    with places.hold("a"), places.hold("a"), pytest.raises(HttpProblem), places.hold("a"):
        pass
