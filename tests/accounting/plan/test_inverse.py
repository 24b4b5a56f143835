"""The planner turned round: answers meet the wish, and a step below does not."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.accounting.error_model import FleetReadings
from rase.accounting.plan.inverse import (
    Setting,
    attacker_limits,
    devices_needed,
    epsilon_needed,
    expected_error,
    largest_theta,
    rounds_needed,
)
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.laws.registry import MEAN_CHOICES
from rase.shuffle.attacker import order_attack
from rase.shuffle.mallows import Mallows
from rase.shuffle.permutation import kendall_tau
from rase.shuffle.robust import Robust

PUBLIC = Range(0, 3000)
SETTING = Setting(value_range=PUBLIC, epsilon=1.0, devices=50)
names = st.sampled_from(MEAN_CHOICES)


# Below these bounds more devices than can be counted would be needed (MOST_REPORTS).
@given(names, st.floats(0.2, 6), st.floats(1, 2000), st.integers(1, 50))
def test_devices_are_enough_and_no_fewer(
    mechanism: str, epsilon: float, error: float, window: int
) -> None:
    """The answer meets the wish and one device less does not."""
    setting = replace(SETTING, mechanism=mechanism, epsilon=epsilon, window=window)
    devices = devices_needed(setting, error).value
    assert devices is not None
    devices = int(devices)
    assert expected_error(replace(setting, devices=devices)).total <= error
    assert devices == 2 or expected_error(replace(setting, devices=devices - 1)).total > error


@given(names, st.floats(1, 3000), st.integers(2, 2000))
def test_rounds_are_enough_and_no_fewer(mechanism: str, error: float, devices: int) -> None:
    """The answer meets the wish and one round less does not."""
    setting = replace(SETTING, mechanism=mechanism, devices=devices)
    rounds = rounds_needed(setting, error).value
    assert rounds is not None
    rounds = int(rounds)
    assert expected_error(replace(setting, window=rounds)).total <= error
    assert rounds == 1 or expected_error(replace(setting, window=rounds - 1)).total > error


@given(names, st.floats(1, 3000), st.integers(2, 5000))
def test_epsilon_is_enough_and_no_smaller(mechanism: str, error: float, devices: int) -> None:
    """The answer meets the wish and a ten-thousandth less does not."""
    setting = replace(SETTING, mechanism=mechanism, devices=devices)
    answer = epsilon_needed(setting, error)
    if answer.value is None:
        assert "No epsilon up to 30" in answer.reason
        assert expected_error(replace(setting, epsilon=30.0)).total > error
        return
    assert expected_error(replace(setting, epsilon=answer.value)).total <= error
    if answer.value > 1.0001e-4:
        below = replace(setting, epsilon=max(1e-4, answer.value * 0.9999))
        assert expected_error(below).total > error


def test_the_smallest_epsilon_lies_before_the_jump() -> None:
    """Where budget-aware stops to clamp its error jumps up; the search finds the side below."""
    precision = Precision(0.5, 0.9)
    bound = precision.epsilon_bound(PUBLIC)
    setting = replace(SETTING, mechanism="budget-aware", precision=precision)
    before = expected_error(replace(setting, epsilon=bound * (1 - 1e-9))).total
    after = expected_error(replace(setting, epsilon=bound)).total
    assert before < after
    found = epsilon_needed(setting, (before + after) / 2).value
    assert found is not None
    assert found < bound
    beyond = epsilon_needed(setting, before / 1.01).value
    assert beyond is not None
    assert beyond > bound


def test_an_epsilon_at_a_bound_can_be_the_answer() -> None:
    """If the least epsilon, or the first of a piece, already does, it is the answer."""
    many = replace(SETTING, devices=10**9)
    assert epsilon_needed(many, 1e6).value == 1e-4
    precision = Precision(beta=0.5, rho=0.9)
    setting = replace(SETTING, mechanism="budget-aware", estimator="sample_mean", devices=10**6)
    # The sample mean loses its bias at epsilon*: a piece that is met from its first point on.
    found = epsilon_needed(setting, 10.0).value
    assert found == precision.epsilon_bound(PUBLIC)


def test_readings_count() -> None:
    """With readings given, errors are theirs: fewer devices than in the worst case suffice."""
    at_end = FleetReadings.of([3000.0], PUBLIC)
    setting = replace(SETTING, mechanism="duchi", epsilon=3.0)
    worst, yours = (
        devices_needed(setting, 50),
        devices_needed(replace(setting, readings=at_end), 50),
    )
    assert worst.value is not None
    assert yours.value is not None
    assert yours.value < worst.value


def test_bias_makes_a_wish_impossible() -> None:
    """An estimator's bias, or clipped readings, cannot be averaged away; the answer says so."""
    biased = replace(SETTING, mechanism="budget-aware", estimator="sample_mean")
    for answer in (devices_needed(biased, 100), rounds_needed(biased, 100)):
        assert answer.value is None
        assert "the bias of sample_mean alone is 948, not below 100" in str(answer)
    clipped = replace(SETTING, readings=FleetReadings.of([0, 0, 9000], PUBLIC))
    for answer in (
        devices_needed(clipped, 100),
        rounds_needed(clipped, 100),
        epsilon_needed(clipped, 100),
    ):
        assert answer.value is None
        assert "suffices: clipped readings alone shift the mean by 2e+03" in answer.reason


def test_what_is_out_of_reach() -> None:
    """A wish that even a billion devices do not meet is impossible, without blaming a bias."""
    answer = devices_needed(replace(SETTING, epsilon=1e-4), 0.1)
    assert answer.value is None
    assert answer.reason == "No number of devices suffices for an error of 0.1."


def test_the_median_can_be_asked_for() -> None:
    """Searches work for the median too."""
    setting = replace(
        SETTING,
        mechanism="laplace",
        estimator="median",
        readings=FleetReadings.of([1000.0], PUBLIC),
    )
    devices = devices_needed(setting, 50.0).value
    assert devices is not None
    # scale / sqrt(n) in the limit of many reports.
    assert devices == pytest.approx((3000 / 50) ** 2, rel=0.1)


@each_case("n", [8, 64, 1000, 100_000])
@each_case("cap", [1.2, 2.0, 5.0])
def test_theta_keeps_the_cap(n: int, cap: float) -> None:
    """The largest theta keeps the most exposed slot below the cap, a thousandth more does not."""
    theta = largest_theta(n, cap).value
    assert theta is not None
    assert order_attack(n, theta).exposed_success < cap / n
    assert order_attack(n, 1.001 * theta).exposed_success >= cap / n


@each_case(("n", "cap"), [(3, 2.0), (4, 1.3), (6, 2.0), (7, 2.0), (7, 6.5)])
def test_no_sender_is_named_above_the_cap_by_enumeration(n: int, cap: float) -> None:
    """Over all orders of up to seven, no slot's sender is likelier than the cap allows."""
    theta = largest_theta(n, cap).value
    assert theta is not None
    orders = list(permutations(range(n)))
    weights = np.array([math.exp(-theta * kendall_tau(order, range(n))) for order in orders])
    weights /= weights.sum()
    named = np.zeros((n, n))
    for order, weight in zip(orders, weights, strict=True):
        named[np.arange(n), order] += weight
    assert 0.999 * cap / n < named.max() < cap / n
    assert named.max() == pytest.approx(named[0, 0]) == pytest.approx(named[-1, -1])


@pytest.mark.uncovered
def test_a_thousand_senders_keep_the_cap_by_simulation() -> None:
    """First and last sender at n = 1000: below twice chance, where the mean's theta gives four.

    Among 40,000 orders an end is named rightly about 80 or 163 times. Counts so far apart are told
    from each other by limits of four standard deviations, left by chance in one of 4,000 runs.
    """
    n, orders = 1000, 40_000
    theta = largest_theta(n, 2).value
    assert theta is not None
    # Theta of the cap on the mean over the slots.
    of_mean = 0.003996
    assert n * order_attack(n, of_mean).mean_success == pytest.approx(2, rel=1e-3)
    for spread, times in ((theta, 2.0), (of_mean, 4.07)):
        law, source = Mallows(n, spread), SeededRandom(19)
        named = np.zeros(2)
        for _ in range(10):
            drawn = law.samples(orders // 10, rng=source)
            named += [(drawn[:, 0] == 0).sum(), (drawn[:, -1] == n - 1).sum()]
        expected = times * orders / n
        assert (np.abs(named - expected) < 4 * math.sqrt(expected)).all()


def test_theta_at_the_edges() -> None:
    """A cap of chance leaves the uniform shuffle only; a cap of certainty is refused."""
    assert largest_theta(64, 1).value is None
    assert "uniform" in largest_theta(64, 1).reason
    for cap in (0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="attacker_cap must be at least 1"):
            largest_theta(64, cap)
    for n, cap in ((2, 2), (64, 64), (64, 65)):
        with pytest.raises(ValueError, match=f"attacker_cap must be below the {n} reports"):
            largest_theta(n, cap)


@each_case(("n", "group_count"), [(64, 4), (65, 4), (1000, 16), (30, 29)])
def test_alpha_and_groups_keep_the_cap(n: int, group_count: int) -> None:
    """The robust shuffler takes Mallows at the limits and falls back just beyond them."""
    alpha = attacker_limits(n, 2.0, alpha=None, group_count=group_count)["alpha"].value
    assert alpha is not None
    assert Robust(0.999 * alpha, group_count).manifest_for(n).method == "mallows"
    assert Robust(1.002 * alpha, group_count).manifest_for(n).method == "uniform"
    most = attacker_limits(n, 2.0, alpha=0.999 * alpha, group_count=None)["group_count"].value
    assert most is not None
    assert most >= group_count
    assert Robust(0.999 * alpha, int(most)).manifest_for(n).method == "mallows"
    if most < n:
        assert Robust(0.999 * alpha, int(most) + 1).manifest_for(n).method == "uniform"


def test_limits_without_an_answer() -> None:
    """Groups of one cannot be permuted, a huge alpha fits no groups, and chance is uniform."""
    limits = attacker_limits(10, 2.0, alpha=1e6, group_count=10)
    assert limits["alpha"].value is None
    assert limits["group_count"].value is None
    assert "too large even for one group" in limits["group_count"].reason
    assert attacker_limits(64, 2.0, alpha=30.0, group_count=None)["group_count"].reason == (
        "Alpha 30 allows up to one group."
    )
    assert list(attacker_limits(10, 1.0, alpha=1.0, group_count=2)) == ["theta"]
    assert attacker_limits(10, 9.99, alpha=1.0, group_count=None)["group_count"].value == 9


@each_case("error", [0, -1, math.nan, math.inf])
def test_errors_that_cannot_be_wished_for(error: float) -> None:
    """A wished error is a positive number."""
    for needed in (devices_needed, rounds_needed, epsilon_needed):
        with pytest.raises(ValueError, match="error must be greater than 0 and finite"):
            needed(SETTING, error)
    with pytest.raises(TypeError, match="error must be a number"):
        devices_needed(SETTING, "much")  # type: ignore[arg-type]
