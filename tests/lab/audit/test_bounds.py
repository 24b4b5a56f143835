"""Clopper-Pearson bounds, the loss they prove, and the event they are spent on."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from rase.lab.audit.bounds import chosen_event, clopper_pearson, loss_bound


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (1, 10), (5, 10), (10, 10), (37, 1000)])
def test_each_bound_is_wrong_as_rarely_as_asked(count: int, trials: int) -> None:
    """At the lower bound so many or more are as rare as the error, at the upper so few or fewer."""
    low, high = clopper_pearson(count, trials, error=0.01)
    assert binom.sf(count - 1, trials, low) == pytest.approx(0.01 if count else 1.0)
    assert binom.cdf(count, trials, high) == pytest.approx(0.01 if count < trials else 1.0)


def test_published_limits() -> None:
    """The limits of 1 in 10 at 95 % are the 0.0025 and 0.4450 of Clopper and Pearson's charts."""
    assert clopper_pearson(1, 10, error=0.025) == pytest.approx((0.0025, 0.4450), abs=5e-5)


@pytest.mark.parametrize(
    ("count", "trials", "error", "named"),
    [(-1, 10, 0.1, "count"), (11, 10, 0.1, "count"), (0, 0, 0.1, "count"), (1, 10, 0.0, "error")],
)
def test_what_is_no_count_is_refused(count: int, trials: int, error: float, named: str) -> None:
    """Counts lie between none and all, errors between 0 and 1."""
    with pytest.raises(ValueError, match=f"^{named} must be"):
        clopper_pearson(count, trials, error=error)


def test_the_bound_is_below_the_true_loss_and_near_it() -> None:
    """Counts in exact proportion give a bound a little below the logarithm of the ratio."""
    found = loss_bound(731_059, 268_941, 1_000_000, delta=0.0, error=1e-9)
    assert 0.98 < found < 1.0


def test_delta_is_taken_off() -> None:
    """What delta allows proves nothing."""
    assert loss_bound(90, 0, 10_000, delta=0.01, error=1e-6) == -math.inf
    assert loss_bound(5000, 1000, 10_000, delta=0.1, error=1e-6) < math.log(4)


def test_bounds_from_chance_alone_are_hardly_ever_positive() -> None:
    """Of 2000 pairs of equal coins about as many bounds are positive as the error allows."""
    draw = np.random.default_rng(2026)
    counts = draw.binomial(1000, 0.3, (2000, 2))
    wrong = sum(loss_bound(int(a), int(b), 1000, delta=0.0, error=0.01) > 0 for a, b in counts)
    # Both bounds must err: at most 2 % of 2000; more than 80 have a chance below 1e-6.
    assert wrong <= 80


def test_the_event_holds_what_the_first_input_makes_likelier() -> None:
    """Of outcomes with ratios 4, 1 and 1/4 the first is chosen, an unseen one never."""
    first, second = np.array([4000, 1000, 1000, 0]), np.array([1000, 1000, 4000, 0])
    event = chosen_event(first, second, trials=6000, delta=0.0, error=1e-9)
    assert event.tolist() == [True, False, False, False]


def test_a_certainty_seen_once_is_not_chosen() -> None:
    """An outcome seen once, and for one input only, does not outweigh a frequent one."""
    first, second = np.array([5000, 1, 4999]), np.array([2000, 0, 8000])
    event = chosen_event(first, second, trials=10_000, delta=0.0, error=1e-9)
    assert event[0]


def test_luck_of_the_pilot_is_not_chosen() -> None:
    """Thirty against none in a short pilot promise less than they seem to in a long run."""
    first, second = np.array([30, 60_000, 39_970]), np.array([0, 25_000, 75_000])
    event = chosen_event(first, second, trials=10_000_000, delta=0.0, error=1e-9)
    assert event[1]


def test_large_deltas_ask_for_large_events() -> None:
    """Where delta hides the surest outcome, less sure ones are added."""
    first, second = np.array([1000, 5000, 4000]), np.array([0, 2500, 7500])
    assert chosen_event(first, second, trials=10_000, delta=0.0, error=1e-6).tolist() == [
        True,
        False,
        False,
    ]
    assert chosen_event(first, second, trials=10_000, delta=0.12, error=1e-6).tolist() == [
        True,
        True,
        False,
    ]
